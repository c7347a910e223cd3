"""StartupQueue: start new servers in parallel, and show their tools in a fixed order."""

import contextlib
import logging
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import anyio

from pegboard.errors import PegboardError
from pegboard.model.tool_names import NameTable
from pegboard.upstream.server import UpstreamServer

__all__ = ["StartupQueue"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

PATIENCE = 5.0
"""Seconds that a server waits for another one that might want the same tool names."""

_ANY = "tool"


class StartupQueue:
    """The servers that are starting for the first time."""

    def __init__(self, names: NameTable) -> None:
        self._names = names
        self._under_way: dict[UpstreamServer, _Startup] = {}

    def without_tools(self) -> list[UpstreamServer]:
        """Return the servers that have no tools on the board yet, not even cached ones."""
        return [server for server, it in self._under_way.items() if it.is_new]

    def may_have(self, server: UpstreamServer, name: str) -> bool:
        """Tell whether a tool of this name could be one of the server's."""
        return name.startswith(self._beginning(server))

    def is_under_way(self, server: UpstreamServer) -> bool:
        """Tell whether a server is in the queue."""
        return server in self._under_way

    def add(self, server: UpstreamServer) -> None:
        """Add a server that is about to start, and keep its listed tools off the board."""
        self._under_way[server] = _Startup(anyio.Event(), not server.is_known)
        server.hold()

    def give_up(self, servers: Iterable[UpstreamServer]) -> None:
        """Remove servers from the queue, and wake the tasks that wait for them."""
        for server in servers:
            startup = self._under_way.pop(server, None)
            if startup is not None:
                startup.done.set()

    async def start_all(
        self,
        servers: list[UpstreamServer],
        *,
        in_order: bool,
        after: Mapping[UpstreamServer, anyio.Event],
    ) -> None:
        """Start servers of the queue; return when each of them is up or has failed.

        Args:
            servers: the servers.
            in_order: put the tools of a server on the board only after those of all servers that
                were added earlier. Otherwise it waits only for servers that might want the same
                names, so that speed does not decide about these, and at most `PATIENCE` seconds.
            after: what a server waits for before it starts, at most `PATIENCE` seconds.
        """
        known = list(self._under_way)
        try:
            async with anyio.create_task_group() as group:
                for server in servers:
                    before = [
                        self._under_way[other].done
                        for other in known[: known.index(server)]
                        if in_order or self._may_clash(server, other)
                    ]
                    limit = math.inf if in_order else PATIENCE
                    group.start_soon(self._start, server, after.get(server), before, limit)
        finally:
            self.give_up(servers)

    async def wait(self, servers: Iterable[UpstreamServer]) -> None:
        """Wait until these servers have left the queue."""
        for it in [self._under_way[server] for server in servers if server in self._under_way]:
            await it.done.wait()

    async def _start(
        self,
        server: UpstreamServer,
        after: anyio.Event | None,
        before: list[anyio.Event],
        limit: float,
    ) -> None:
        deadline = anyio.current_time() + limit
        try:
            if after is not None:
                # The replaced server might hold the same port, or the same lock.
                with anyio.move_on_after(PATIENCE):
                    await after.wait()
            # What fails is logged where it happens, and shown in the server's status.
            with contextlib.suppress(PegboardError):
                await server.start()
            with anyio.CancelScope(deadline=deadline):
                for other in before:
                    await other.wait()
            await server.release()
            server.give_back()
        except Exception:
            name = server.config.name
            logger.exception("start_failed: server %r", name, extra={"server": name})
        finally:
            self.give_up([server])

    def _may_clash(self, server: UpstreamServer, other: UpstreamServer) -> bool:
        one, two = self._beginning(server), self._beginning(other)
        return one.startswith(two) or two.startswith(one)

    def _beginning(self, server: UpstreamServer) -> str:
        """Return the prefix of all tool names of a server; empty if it is unknown."""
        try:
            # With an ordinary tool name: a custom naming policy need not handle an empty one.
            name = self._names.policy_name(server.config.name, _ANY)
        except Exception:  # noqa: BLE001 - a policy may raise anything; each tool is told so later
            return ""
        return name.rpartition(_ANY)[0]


class _Startup(NamedTuple):
    done: anyio.Event
    is_new: bool
