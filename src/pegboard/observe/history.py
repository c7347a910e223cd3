"""History: an observer that keeps the last calls, and daily totals of older ones, in a store."""

import secrets
import threading
from collections import deque
from datetime import UTC, date, datetime
from itertools import count, islice

import msgspec

from pegboard.model import CallRecord
from pegboard.model.call import NO_META
from pegboard.model.fork_guard import GuardedLock
from pegboard.observe.usage_totals import CALLS, DailyTotals, DailyUsage
from pegboard.storage import Store
from pegboard.storage.write_behind import WriteBehind

__all__ = ["History"]


class History:
    """An observer that keeps the last calls; it writes in the background and delays no call.

    Of older calls it keeps the number for each tool and day.

    Args:
        store: the store that keeps the calls of all processes that use it.
        keep: how many calls to keep; older ones are deleted.
    """

    def __init__(self, store: Store, *, keep: int = 10_000) -> None:
        if keep < 1:
            raise ValueError(f"`keep` is how many calls are kept, at least 1, not {keep}.")
        self._store = store
        self._calls = store.namespace(CALLS)
        self._totals = DailyTotals(store, self._calls)
        self._keep = keep
        self._numbers = count()
        self._since_pruned = keep
        self._flushing = WriteBehind(self.flush, owner="history")
        self._writing = GuardedLock("history", threading.Lock())
        self._source = secrets.token_hex(4)
        # Bounded: a store that is away for hours must not fill the memory.
        self._pending: deque[CallRecord] = deque(maxlen=self._keep)
        self._unwritten: dict[str, CallRecord] = {}

    def __call__(self, record: CallRecord) -> None:
        """Record a call."""
        self._pending.append(record)
        self._flushing.wake()

    def calls(self, limit: int = 100, *, tool: str | None = None) -> list[CallRecord]:
        """Return the last calls, the newest first.

        Raises:
            StorageError: when the store cannot be read or written.
        """
        self.flush()
        newest_first = (
            msgspec.convert(it.value, CallRecord)
            for _, it in sorted(self._calls.items().items(), reverse=True)
        )
        return list(islice((it for it in newest_first if tool in (None, it.tool)), limit))

    def usage(self, days: int = 30) -> list[DailyUsage]:
        """Return how tools were used on the last days (UTC), including today, the newest first.

        All calls count, even those that are no longer kept.

        Raises:
            StorageError: when the store cannot be read or written.
        """
        if days < 1:
            raise ValueError(f"`days` is the number of days to look back, at least 1, not {days}.")
        self.flush()
        today = datetime.now(UTC).date().toordinal()
        return self._totals.since(date.fromordinal(max(1, today - days + 1)))

    def flush(self) -> None:
        """Write the pending calls.

        Raises:
            StorageError: when the store cannot be written; the calls are kept for the next time.
        """
        with self._writing:
            # Next time under the same keys: a server that goes away may have kept them.
            unwritten = self._unwritten
            for _ in range(len(self._pending)):
                record = self._pending.popleft()
                unwritten[self._key(record)] = record
            for key in list(unwritten)[: -self._keep]:
                del unwritten[key]
            if not unwritten:
                return
            self._write(unwritten)
            self._since_pruned += len(unwritten)
            unwritten.clear()
            if self._since_pruned > self._keep // 10:
                self._prune()

    def close(self) -> None:
        """Write the pending calls and stop."""
        self._flushing.close()

    def _write(self, values: dict[str, CallRecord]) -> None:
        try:
            self._calls.put_many({key: _as_json(record) for key, record in values.items()})
        except ValueError:
            # This store does not accept the content of some record, which is saved without it.
            for key, record in values.items():
                try:
                    self._calls.put(key, _as_json(record))
                except ValueError:
                    self._calls.put(key, _as_json(_emptied(record)))

    def _key(self, record: CallRecord) -> str:
        # Ordered by time, and different for calls of the same moment in different processes.
        return f"{record.started:017.6f}-{self._source}-{next(self._numbers):09d}"

    def _prune(self) -> None:
        with self._store.elected("prune-calls") as mine:
            if mine:
                self._totals.forget(self._keep)
        self._since_pruned = 0


def _as_json(record: CallRecord) -> object:
    try:
        return msgspec.json.decode(msgspec.json.encode(record, enc_hook=repr))
    except (ValueError, RecursionError):
        # The caller or the tool sent invalid Unicode, or nested more deeply than JSON allows.
        return msgspec.json.decode(msgspec.json.encode(_emptied(record)))


def _emptied(record: CallRecord) -> CallRecord:
    return msgspec.structs.replace(record, meta=NO_META, arguments=None, result=None)
