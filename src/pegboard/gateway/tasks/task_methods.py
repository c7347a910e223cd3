"""TaskMethods: the tasks of a gateway as the clients of each era have them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec
from mcp_types import INVALID_PARAMS

from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.request import Client, RpcError, object_in
from pegboard.gateway.sessions import Listener, Sessions
from pegboard.gateway.tasks import core_tasks
from pegboard.gateway.tasks.core_tasks import CoreTasks
from pegboard.gateway.tasks.extension import ExtensionTasks, check_declared
from pegboard.gateway.tasks.record import is_task_id
from pegboard.gateway.tasks.tasks import NewTask, Tasks

__all__ = ["TaskMethods", "tasks_in"]

MOST_FOLLOWED = 100
"""How many tasks one request to listen may follow."""


class TaskMethods:
    """Chooses between the tasks of the two eras.

    Args:
        tasks: all tasks of the gateway.
        sessions: the sessions of the handshake era.
        info: the ``serverInfo`` of the gateway.
    """

    def __init__(self, tasks: Tasks, sessions: Sessions, info: Mapping[str, Any]) -> None:
        self.tasks: Tasks = tasks
        self.core: CoreTasks = CoreTasks(tasks, sessions)
        self.extension: ExtensionTasks = ExtensionTasks(tasks, info)
        self._has_tasks = tasks.options.tasks > 0

    async def follow(self, listener: Listener, wanted: Sequence[str]) -> None:
        """Let a client follow those of the tasks that it may know, whichever gateway runs them.

        Raises:
            RpcError: when the client does not declare the extension.
        """
        if not wanted:
            return
        check_declared(listener.client)
        details = partial(self.details, client=listener.client)
        listener.tasks = tuple([it for it in wanted if await details(it) is not None])
        listener.details = details
        self.tasks.followed.update(listener.tasks)
        self.tasks.begun.set()

    def unfollow(self, tasks: Iterable[str]) -> None:
        """Undo one `follow`."""
        self.tasks.followed.subtract(tasks)
        self.tasks.followed += Counter()

    def takes(self, client: Client, params: Mapping[str, Any]) -> bool:
        """Tell whether a call may become a task: its client can handle one, or asks for one."""
        if not self._has_tasks or client.era == "modern":
            return self._has_tasks and client.tasks
        return client.version == core_tasks.VERSION and isinstance(params.get("task"), Mapping)

    def of(self, client: Client) -> CoreTasks | ExtensionTasks:
        """Return what responds to a client."""
        return self.extension if client.era == "modern" else self.core

    async def call(self, caller: CallerContext, new: NewTask, wish: object) -> dict[str, Any]:
        """Run a call that may become a task.

        Args:
            caller: its request.
            new: the call.
            wish: what a client of the handshake era asks for.
        """
        if caller.client.era == "modern":
            return await self.extension.call(caller, new)
        ttl: object = object_in(wish).get("ttl")
        seconds = ttl / 1000 if isinstance(ttl, int | float) and ttl >= 0 else None
        wanted = msgspec.structs.replace(new, must=True, push=self.core.push, ttl=seconds)
        return await self.core.call(caller, wanted)

    async def details(self, task: str, client: Client) -> dict[str, Any] | None:
        """Return the state of a task for a client of the modern era; ``None`` if it has none."""
        try:
            record = await self.tasks.find(client.principal, task)
            return await self.extension.details(record, client)
        except RpcError:
            return None


def tasks_in(params: Mapping[str, Any]) -> list[str]:
    """Return the tasks that a request to listen wants to follow, without duplicates.

    Raises:
        RpcError: when they are too many.
    """
    asked: object = object_in(params.get("notifications")).get("taskIds")
    wanted = cast("list[object]", asked) if isinstance(asked, list) else []
    if len(wanted) > MOST_FOLLOWED:
        raise RpcError(INVALID_PARAMS, f"A client may follow at most {MOST_FOLLOWED} tasks.")
    return list(dict.fromkeys(it for it in wanted if is_task_id(it)))
