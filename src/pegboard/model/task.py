"""Tasks: work of a server that outlives the request that began it, and who follows it."""

from enum import StrEnum
from typing import Literal, Protocol

import msgspec

__all__ = ["ServerTask", "TaskStatus", "TaskWatcher"]


class TaskStatus(StrEnum):
    """The states of a task, in the words of both protocol eras."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True when the task will not change again."""
        return self not in (TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED)


class ServerTask(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to go on with a task of a server, also in another process."""

    task_id: str
    """The id that the server gave it; only the server's own."""
    era: Literal["handshake", "modern"]
    """Whose shapes the task has: the core tasks of 2025-11-25, or the extension."""
    ttl_ms: int | None = None
    """How long the server keeps the task, from its creation; ``None`` if it did not say."""
    poll_interval_ms: int | None = None


class TaskWatcher(Protocol):
    """Follows the task that a server made of a call. `CallContext.task` holds one."""

    @property
    def resumes_later(self) -> bool:
        """True when a caller that leaves now wants the server to go on with the task."""
        ...

    def started(self, task: ServerTask, /) -> object:
        """Tell that the server works on the call as this task, and can be asked for it again."""

    def changed(self, status: TaskStatus, message: str | None, /) -> object:
        """Tell the state of the task at the server. The final one comes with the result."""
