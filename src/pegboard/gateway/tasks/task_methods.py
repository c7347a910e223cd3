"""TaskMethods: the tasks of a gateway as the clients of each era have them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.request import Client, RpcError, object_in
from pegboard.gateway.sessions import Sessions
from pegboard.gateway.tasks import core_tasks
from pegboard.gateway.tasks.core_tasks import CoreTasks
from pegboard.gateway.tasks.extension import ExtensionTasks
from pegboard.gateway.tasks.tasks import NewTask, Tasks

__all__ = ["TaskMethods"]


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

    def follow(self, tasks: Iterable[str]) -> None:
        """Look for changes of these tasks, also of those that other gateways run."""
        self.tasks.followed.update(tasks)
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
