"""The core tasks of protocol 2025-11-25: `tools/call` with ``task``, and four methods."""

from collections.abc import Mapping
from typing import Any

import anyio
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.catalog.tool_list import cursor_after, position_of
from pegboard.gateway.eras import RESERVED
from pegboard.gateway.request import Channel, Client, RpcError, object_in
from pegboard.gateway.sessions import Sessions
from pegboard.gateway.tasks.record import POLL_INTERVAL_MS, TaskRecord, moment
from pegboard.gateway.tasks.running_task import RunningTask
from pegboard.gateway.tasks.tasks import NewTask, Tasks
from pegboard.model.task import TaskStatus
from pegboard.upstream import QuestionRefusedError

__all__ = ["CAPABILITY", "STATUS_NOTIFICATION", "VERSION", "CoreTasks", "as_params"]

VERSION = "2025-11-25"
"""The one version of the protocol that has these tasks."""
CAPABILITY: Mapping[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
STATUS_NOTIFICATION = "notifications/tasks/status"
_RELATED = f"{RESERVED}related-task"
_LOOK_AGAIN = 1.0
"""Seconds after which a task of another gateway is read again, and a client tried again."""


class CoreTasks:
    """Responds to the methods of these tasks, and asks the clients what tools want to know.

    Args:
        tasks: all tasks of the gateway.
        sessions: the sessions of the clients.
    """

    def __init__(self, tasks: Tasks, sessions: Sessions) -> None:
        self._tasks = tasks
        self._sessions = sessions

    async def call(self, caller: CallerContext, new: NewTask) -> dict[str, Any]:
        """Return the task of a call."""
        begun = await self._tasks.begin(caller, new)
        assert isinstance(begun, RunningTask), "the client asked for nothing else"
        session = self._sessions.find(caller.client)
        # The request that began the call is over, but its progress token stays valid.
        begun.notifier.redirect(None if session is None else session.channel)
        return {"task": as_params(begun.state())}

    async def get(self, caller: CallerContext) -> dict[str, Any]:
        """Return the state of a task."""
        return as_params(await self._found(caller))

    async def result(self, caller: CallerContext) -> dict[str, Any]:
        """Return the result of a task; wait for it, within limits.

        Raises:
            RpcError: the error of the call, or that it is not over yet.
        """
        record = await self._found(caller)
        seconds = self._tasks.options.parked_seconds
        with anyio.move_on_after(seconds):
            while not record.status.is_final:
                await self._wait(record.id, caller.request.channel)
                record = await self._found(caller)
        meta = {_RELATED: {"taskId": record.id}}
        if record.status is TaskStatus.FAILED:
            raise record.error()
        if record.status is TaskStatus.COMPLETED:
            found = await self._tasks.result(record)
            return {**found, "_meta": {**object_in(found.get("_meta")), **meta}}
        if record.status is TaskStatus.CANCELLED:
            raise RpcError(INTERNAL_ERROR, record.message or "The task was cancelled.")
        words = f"The task has not ended within {seconds:g} seconds. Ask again."
        raise RpcError(INTERNAL_ERROR, words)

    async def list(self, caller: CallerContext) -> dict[str, Any]:
        """Return a page of the tasks of a caller, the newest first."""
        _check_version(caller.client)
        after = position_of(caller.request.params.get("cursor"))
        every = await self._tasks.list_of(caller.client.principal)
        rest = [it for it in every if not after or _position(it) < after]
        size = self._tasks.options.page_size
        page: dict[str, Any] = {"tasks": [as_params(it) for it in rest[:size]]}
        if len(rest) > size:
            page["nextCursor"] = cursor_after(_position(rest[size - 1]))
        return page

    async def cancel(self, caller: CallerContext) -> dict[str, Any]:
        """Stop a task, and return its state.

        Raises:
            RpcError: when it has ended.
        """
        record = await self._found(caller)
        if record.status.is_final:
            words = f"The task has ended already: it is {record.status.value}."
            raise RpcError(INVALID_PARAMS, words)
        await self._tasks.cancel(record)
        return as_params(await self._found(caller))

    async def push(
        self, running: RunningTask, method: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Ask the client of a task, as soon as it can be reached."""
        meta = {**object_in(params.get("_meta")), _RELATED: {"taskId": running.id}}
        while True:
            channel = self._way_to(running)
            if channel is not None:
                try:
                    return await channel.ask(method, {**params, "_meta": meta})
                except RpcError as error:
                    if error.code != CONNECTION_CLOSED:
                        raise QuestionRefusedError(error.code, error.message, error.data) from error
            with anyio.move_on_after(_LOOK_AGAIN):
                await running.reachable.wait()
            running.reachable = anyio.Event()

    def _way_to(self, running: RunningTask) -> Channel | None:
        """Return a request that waits for the result, or else the session of the client."""
        session = self._sessions.find(running.request.client)
        ways = [*running.waiters, *([] if session is None else [session.channel])]
        return next((it for it in ways if it.can_ask), None)

    async def _wait(self, task: str, channel: Channel) -> None:
        running = self._tasks.live.get(task)
        if running is None or running.is_over:
            await anyio.sleep(_LOOK_AGAIN)
            return
        running.waits(channel)
        try:
            await running.over.wait()
        finally:
            running.waiters.remove(channel)

    async def _found(self, caller: CallerContext) -> TaskRecord:
        _check_version(caller.client)
        task: object = caller.request.params.get("taskId")
        return await self._tasks.find(caller.client.principal, task)


def as_params(record: TaskRecord) -> dict[str, Any]:
    """Return the state of a task as this version of the protocol has it."""
    # Here a result that says that the tool failed is a failure of the task.
    status = TaskStatus.FAILED if record.is_error else record.status
    fields: dict[str, Any] = {
        "taskId": record.id,
        "status": status.value,
        "createdAt": moment(record.created),
        "lastUpdatedAt": moment(record.updated),
        "ttl": int(record.ttl * 1000),
        "pollInterval": POLL_INTERVAL_MS,
    }
    return fields if record.message is None else {**fields, "statusMessage": record.message}


def _position(record: TaskRecord) -> str:
    return f"{record.created:020.6f} {record.id}"


def _check_version(client: Client) -> None:
    if client.version != VERSION:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: protocol {VERSION} has tasks.")
