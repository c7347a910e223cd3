"""History: the last calls, and how often tools were called before, kept in a store."""

import secrets
import threading
from collections import deque
from datetime import UTC, date, datetime
from itertools import count, islice

import msgspec

from pegboard.model import CallRecord
from pegboard.model.call import NO_META
from pegboard.model.fork_guard import GuardedLock
from pegboard.observe.daily_usage import DailyTotals, DailyUsage
from pegboard.storage import Store
from pegboard.storage.write_behind import WriteBehind

__all__ = ["CALLS", "History"]

CALLS = "calls"
"""The namespace of a store in which calls are kept."""


class History:
    """An observer that keeps the last calls; written in the background, never on the path of one.

    Of older ones it keeps how many there were, of each tool on each day.

    Args:
        store: where they are kept. Records of all processes that use it come together there.
        keep: how many calls; older ones are forgotten.
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
        """Note a call."""
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
        """Return how tools were used on the last days (UTC), today included, the newest first.

        All calls count, whether or not they are still among the last ones.

        Raises:
            StorageError: when the store cannot be read or written.
        """
        if days < 1:
            raise ValueError(f"`days` is how many days to look back on, at least 1, not {days}.")
        self.flush()
        today = datetime.now(UTC).date().toordinal()
        return self._totals.since(date.fromordinal(max(1, today - days + 1)))

    def flush(self) -> None:
        """Write down what happened.

        Raises:
            StorageError: when that is not possible now; it is kept for the next time.
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
        """Write down the rest and stop."""
        self._flushing.close()

    def _write(self, values: dict[str, CallRecord]) -> None:
        try:
            self._calls.put_many({key: _as_json(record) for key, record in values.items()})
        except ValueError:
            # Some record holds what this store does not: it goes without what it holds.
            for key, record in values.items():
                try:
                    self._calls.put(key, _as_json(record))
                except ValueError:
                    self._calls.put(key, _as_json(_emptied(record)))

    def _key(self, record: CallRecord) -> str:
        # By time, and different for calls of the same moment in different processes.
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
        # Text that is no Unicode, or deeper than JSON goes, from the caller or the tool.
        return msgspec.json.decode(msgspec.json.encode(_emptied(record)))


def _emptied(record: CallRecord) -> CallRecord:
    return msgspec.structs.replace(record, meta=NO_META, arguments=None, result=None)
