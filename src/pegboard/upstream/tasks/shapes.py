"""The shapes of a task in both protocol eras, read strictly."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError, UnsupportedResultError
from pegboard.errors.root import shorten
from pegboard.model.json_values import object_in
from pegboard.model.task import ServerTask, TaskStatus
from pegboard.upstream.connection import Era

__all__ = ["RpcFailure", "TaskState", "read_result", "read_state", "started_task"]

LONGEST_ID = 1024
"""The most characters of a task's id: it is sent back in a header."""
LONGEST_MESSAGE = 10_000
"""The most characters of a status message that are kept."""

_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=0)]


class RpcFailure(msgspec.Struct, frozen=True):
    """The JSON-RPC error that ended a task of the modern era."""

    code: int
    message: str
    data: Any = None


class TaskState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A task as the extension `io.modelcontextprotocol/tasks` has it."""

    task_id: _Id
    status: TaskStatus
    status_message: str | None = None
    ttl_ms: _Milliseconds | None = None
    poll_interval_ms: _Milliseconds | None = None
    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: RpcFailure | None = None


class _CoreTask(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A task as the revision 2025-11-25 has it; its result is a response of its own."""

    task_id: _Id
    status: TaskStatus
    status_message: str | None = None
    ttl: _Milliseconds | None = None
    poll_interval: _Milliseconds | None = None


def started_task(raw: Mapping[str, Any], era: Era, config: ServerConfig, tool: str) -> TaskState:
    """Return the task that a call has as its result.

    Raises:
        ProtocolError: when it has not the shape of one.
    """
    return _read(raw if era == "modern" else object_in(raw.get("task")), era, config, tool)


def read_state(
    raw: Mapping[str, Any], task: ServerTask, config: ServerConfig, tool: str
) -> TaskState:
    """Return the state of a task out of the response to ``tasks/get``.

    Raises:
        ProtocolError: when it has not the shape of one, or is about another task.
    """
    state = _read(raw, "modern" if task.era == "modern" else "legacy", config, tool)
    if state.task_id != task.task_id:
        raise ProtocolError(
            f"Server {config.name!r} was asked for task {shorten(task.task_id)} and answered with "
            f"another, {config.redact(shorten(state.task_id))}.",
            server=config.name,
            tool=tool,
        )
    return state


def read_result(state: TaskState, config: ServerConfig, tool: str) -> dict[str, Any]:
    """Return the result of a call out of its completed task.

    Raises:
        ProtocolError: when it has none, or one of another type.
    """
    if state.result is None:
        raise ProtocolError(
            f"Server {config.name!r} says that task {shorten(state.task_id)} is completed, and "
            "gives no result.",
            server=config.name,
            tool=tool,
        )
    kind: object = state.result.get("resultType", "complete")
    if kind != "complete":
        raise UnsupportedResultError(
            f"Server {config.name!r} completed task {shorten(state.task_id)} with a result of type "
            f"{shorten(kind)}, which a task cannot have.",
            server=config.name,
            tool=tool,
            result_type=kind if isinstance(kind, str) else "",
        )
    return state.result


def _read(raw: Mapping[str, Any], era: Era, config: ServerConfig, tool: str) -> TaskState:
    try:
        if era == "modern":
            return msgspec.convert(raw, TaskState)
        core = msgspec.convert(raw, _CoreTask)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ProtocolError(
            f"Server {config.name!r} answered with something that is no task: "
            f"{config.redact(str(error))}.",
            server=config.name,
            tool=tool,
        ) from error
    return TaskState(
        task_id=core.task_id,
        status=core.status,
        status_message=core.status_message,
        ttl_ms=core.ttl,
        poll_interval_ms=core.poll_interval,
    )
