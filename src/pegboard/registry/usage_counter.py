"""UsageCounter: count executed calls in memory, and write them to a store in the background."""

import threading
from datetime import UTC, datetime
from time import time

from pegboard.model import CallRecord, Usage
from pegboard.model.fork_guard import GuardedLock
from pegboard.storage import Store, Use
from pegboard.storage.usage_counts import sum_of_usage
from pegboard.storage.write_behind import WriteBehind

__all__ = ["UsageCounter"]


class UsageCounter:
    """An observer that counts calls; a background thread writes the counts to the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._flushing = WriteBehind(self.flush, owner="registry")
        self._lock = GuardedLock("registry", threading.Lock())
        self._writing = GuardedLock("registry", threading.Lock())
        self._pending: dict[str, tuple[int, float]] = {}

    def __call__(self, record: CallRecord) -> None:
        """Count a call that reached its tool."""
        if record.attempts:
            self.add(record.tool, record.started)

    def add(self, name: str, when: float | None = None) -> None:
        """Count one use of a tool."""
        self._collect({name: (1, time() if when is None else when)})
        self._flushing.wake()

    def usage(self, names: list[str] | None = None) -> dict[str, Usage]:
        """Return the stored counts, together with those that are not written yet."""
        with self._writing:  # so that no count is on its way to the store
            with self._lock:
                pending = dict(self._pending)
            found = self._store.usage(names)
        for name in pending if names is None else pending.keys() & set(names):
            count, last = pending[name]
            more = Usage(use_frequency=count, last_used=_moment(last))
            found[name] = sum_of_usage(found.get(name, Usage()), more)
        return found

    def flush(self) -> None:
        """Write the counts to the store.

        Raises:
            StorageError: when that is not possible now; the counts are kept for the next time.
        """
        with self._writing:
            with self._lock:
                pending, self._pending = self._pending, {}
            if not pending:
                return
            try:
                self._store.add_usage(
                    {name: Use(count, _moment(last)) for name, (count, last) in pending.items()}
                )
            except BaseException:
                self._collect(pending)
                raise

    def close(self) -> None:
        """Write the remaining counts, and stop."""
        self._flushing.close()

    def _collect(self, uses: dict[str, tuple[int, float]]) -> None:
        with self._lock:
            for name, (count, last) in uses.items():
                more, later = self._pending.get(name, (0, 0.0))
                self._pending[name] = (count + more, max(last, later))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
