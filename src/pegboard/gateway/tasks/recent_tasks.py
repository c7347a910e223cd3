"""RecentTasks: tasks that ended here lately, so that their clients do not wait for the store."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from pegboard.gateway.tasks.record import TaskRecord

__all__ = ["RecentTasks"]

_MOST = 256
_LARGEST = 65_536
"""The most bytes of a result that is kept; so all of them have at most 16 MiB."""


class RecentTasks:
    """Keeps a few tasks with small results; the one that ended first goes first."""

    def __init__(self) -> None:
        self._ended: OrderedDict[str, tuple[TaskRecord, dict[str, Any] | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ended)

    def keep(self, record: TaskRecord, result: dict[str, Any] | None) -> None:
        """Keep a task that has ended, and its result if it has one."""
        if record.size > _LARGEST:
            return
        self._ended[record.id] = (record, result)
        if len(self._ended) > _MOST:
            self._ended.popitem(last=False)

    def record(self, task: str) -> TaskRecord | None:
        """Return a task, or ``None`` when the store has to be asked."""
        found = self._ended.get(task)
        return None if found is None else found[0]

    def result(self, task: str) -> dict[str, Any] | None:
        """Return the result of a task, or ``None`` when the store has to be asked."""
        found = self._ended.get(task)
        return None if found is None else found[1]

    def forget(self, tasks: Iterable[str]) -> None:
        """Keep these no more."""
        for task in tasks:
            self._ended.pop(task, None)
