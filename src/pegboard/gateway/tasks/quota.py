"""TaskQuota: how many tasks are kept and run, whose they are, and which one goes first."""

import time
from collections.abc import Callable, Iterable

import msgspec

from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.tasks.record import TaskRecord
from pegboard.policies.fair_share import FairShare, Holder, LimitUse

__all__ = ["TaskQuota"]


class _Kept(msgspec.Struct, frozen=True):
    owner: Holder
    expires: float
    size: int
    is_final: bool


class TaskQuota:
    """What this gateway knows of all tasks, without reading the store.

    A task that ended gives way to a new one: the oldest of the caller that has too many, or of the
    caller with the most. A task that runs never gives way; so a new one may be refused.

    Args:
        options: the limits.
        now: returns the time, in seconds since 1970.
    """

    def __init__(self, options: GatewayOptions, *, now: Callable[[], float] = time.time) -> None:
        self._each = options.tasks_each
        self._now = now
        self.kept: FairShare = FairShare("tasks", options.tasks, setting="gateway.tasks")
        self.running: FairShare = FairShare(
            "running tasks", options.tasks_running, setting="gateway.tasks_running"
        )
        self.sizes: FairShare = FairShare(
            "task bytes", options.task_bytes, setting="gateway.task_bytes"
        )
        self._tasks: dict[str, _Kept] = {}
        self._finished: dict[Holder, dict[str, None]] = {}
        """The tasks of each caller that ended, the oldest first."""

    def __len__(self) -> int:
        return len(self._tasks)

    def limits(self) -> list[LimitUse]:
        """Return how much is used up of each limit."""
        return [it.use() for it in (self.kept, self.running, self.sizes)]

    def admit(self, owner: Holder) -> list[str] | None:
        """Return the tasks that give way to a new one of a caller; ``None`` to refuse it."""
        if not self.running.admits(owner):
            return None
        if self.kept.held(owner) >= self._each:
            gone = self._oldest_of(owner)
        elif self.kept.fits():
            return []
        else:
            gone = self._oldest_of(self.kept.largest(owner)) or self._oldest()
        return None if gone is None else [gone]

    def begin(self, record: TaskRecord) -> None:
        """Count a task that begins."""
        self.note(record)
        self.running.add(record.owner)

    def end(self, owner: Holder) -> None:
        """Count a task no more among those that run here."""
        self.running.remove(owner)

    def note(self, record: TaskRecord) -> None:
        """Take in what became of a task."""
        self.forget([record.id])
        self._tasks[record.id] = _kept(record)
        self.kept.add(record.owner)
        if record.size:
            self.sizes.add(record.owner, record.size)
        if record.status.is_final:
            self._finished.setdefault(record.owner, {})[record.id] = None

    def make_room(self, record: TaskRecord) -> list[str]:
        """Return the tasks that give way to the result of a task."""
        gone: list[str] = []
        while not self.sizes.fits(record.size):
            oldest = self._oldest_of(self.sizes.largest()) or self._oldest()
            if oldest is None:
                break
            gone.append(oldest)
            self.forget([oldest])
        return gone

    def forget(self, tasks: Iterable[str]) -> None:
        """Count these no more."""
        for task in tasks:
            kept = self._tasks.pop(task, None)
            if kept is None:
                continue
            self.kept.remove(kept.owner)
            if kept.size:
                self.sizes.remove(kept.owner, kept.size)
            finished = self._finished.get(kept.owner)
            if finished is not None:
                finished.pop(task, None)
                if not finished:
                    del self._finished[kept.owner]

    def expired(self) -> list[str]:
        """Return the tasks whose time is over."""
        now = self._now()
        return [task for task, it in self._tasks.items() if it.expires <= now]

    def take_in(self, records: Iterable[TaskRecord]) -> None:
        """Take in all tasks of the store: other gateways may have made and deleted some."""
        found = {it.id: it for it in records}
        self.forget([it for it in self._tasks if it not in found])
        # Mostly nothing has changed, and the event loop waits.
        fresh = [it for it in found.values() if self._tasks.get(it.id) != _kept(it)]
        for record in sorted(fresh, key=lambda it: it.updated):
            self.note(record)

    def _oldest_of(self, owner: Holder | None) -> str | None:
        return None if owner is None else next(iter(self._finished.get(owner, ())), None)

    def _oldest(self) -> str | None:
        return next((it for tasks in self._finished.values() for it in tasks), None)


def _kept(record: TaskRecord) -> _Kept:
    return _Kept(record.owner, record.expires, record.size, record.status.is_final)
