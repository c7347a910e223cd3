"""TaskRecord: what the gateway keeps of a task, and the error of a task that is not there."""

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeGuard

import msgspec
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from pegboard.gateway.request import RpcError, object_in
from pegboard.model.task import ServerTask, TaskStatus
from pegboard.policies.fair_share import Holder

__all__ = [
    "POLL_INTERVAL_MS",
    "TaskFailure",
    "TaskRecord",
    "is_task_id",
    "moment",
    "new_task_id",
    "not_found",
    "read_object",
    "written",
]

POLL_INTERVAL_MS = 1000
"""How often a client is told to ask for a task."""
_MARK = "pbt_"
_LENGTH = len(_MARK) + 32
_LONGEST_MESSAGE = 1000
_LOST = (
    "The gateway restarted while the call ran, and its server cannot be asked for the result. The "
    "call may have had effects: look before you repeat it."
)


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON-RPC error that a call ended with."""

    code: int
    message: str
    data: str = ""
    """What it says besides, as JSON; empty for nothing."""

    @classmethod
    def of(cls, error: RpcError) -> "TaskFailure":
        """Return what an error says."""
        data = "" if error.data is None else written(error.data)
        return cls(code=error.code, message=_plain(error.message), data=data)

    def error(self) -> RpcError:
        """Return the error."""
        return RpcError(self.code, self.message, json.loads(self.data) if self.data else None)


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task as the store has it; its result is kept beside it."""

    id: str
    """The gateway's own id, the only one that a client ever sees."""
    tenant: str
    subject: str
    tool: str
    server: str | None = None
    created: float
    """Seconds since 1970; so is ``updated``."""
    updated: float
    ttl: float
    """How many seconds after its creation the gateway forgets it."""
    status: TaskStatus = TaskStatus.WORKING
    message: str | None = None
    asked: str = ""
    """The open questions of the tool, as JSON: MCP requests by the keys that answers name."""
    questions: int = 0
    """How many keys have been used for questions: none is used again."""
    failure: TaskFailure | None = None
    is_error: bool = False
    """Whether the result says that the tool failed."""
    size: int = 0
    """How many bytes the result has."""
    runner: str = ""
    """The instance of the gateway that runs the call; empty when none does."""
    upstream: ServerTask | None = None
    """The task that the server made of the call."""
    era: Literal["legacy", "modern"] = "modern"
    version: str = ""
    """The protocol version of the client; with its capabilities, so that the call can go on."""
    capabilities: str = ""
    relays: bool = False
    """Whether the client gets its result whole, however long."""

    @property
    def owner(self) -> Holder:
        """The tenant and the subject that may use it."""
        return self.tenant, self.subject

    def error(self) -> RpcError:
        """Return the error of a task that failed."""
        assert self.failure is not None, "a task that failed says why"
        return self.failure.error()

    @property
    def expires(self) -> float:
        """When the gateway forgets it, in seconds since 1970."""
        return self.created + self.ttl

    def with_status(self, status: TaskStatus, message: str | None, *, now: float) -> "TaskRecord":
        """Return the task with another status, and without open questions."""
        cut = None if message is None else _plain(message)[:_LONGEST_MESSAGE]
        return msgspec.structs.replace(self, status=status, message=cut, asked="", updated=now)

    def failed(self, failure: TaskFailure, *, now: float) -> "TaskRecord":
        """Return the task as one that ended with a JSON-RPC error."""
        ended = self.with_status(TaskStatus.FAILED, failure.message, now=now)
        return msgspec.structs.replace(ended, failure=failure, runner="")

    def lost(self, *, now: float) -> "TaskRecord":
        """Return the task as one whose gateway is gone, and with it the call."""
        return self.failed(TaskFailure(code=INTERNAL_ERROR, message=_LOST), now=now)


def new_task_id() -> str:
    """Return an id that cannot be guessed."""
    return _MARK + secrets.token_urlsafe(24)


def is_task_id(value: object) -> TypeGuard[str]:
    """Tell whether a value could be an id of a task."""
    return isinstance(value, str) and len(value) == _LENGTH and value.isascii()


def moment(seconds: float) -> str:
    """Return a time as clients get it."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def written(value: object) -> str:
    """Return a JSON value as text that every store takes: plain ASCII, whatever is in it."""
    return json.dumps(value, default=repr)


def read_object(text: str) -> Mapping[str, Any]:
    """Return the JSON object that was written; an empty one for no text."""
    return object_in(json.loads(text)) if text else {}


def not_found() -> RpcError:
    """Return the error for a task that is unknown, expired, or of another caller.

    It is one error for all of these, so that it does not reveal which tasks exist.
    """
    return RpcError(INVALID_PARAMS, "Task not found: it is unknown here, or has expired.")


def _plain(text: str) -> str:
    """Return a text without lone surrogates, which no store takes."""
    return text.encode("utf-8", "replace").decode()
