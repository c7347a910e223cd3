"""StartupQueue: new servers are started side by side, and come on the board as soon as they may."""

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
"""Seconds after which nobody waits any more for a server that might want the same names."""

_ANY = "tool"


class StartupQueue:
    """The servers that are being tried for the first time."""

    def __init__(self, names: NameTable) -> None:
        self._names = names
        self._under_way: dict[UpstreamServer, _Arrival] = {}

    def newcomers(self) -> list[UpstreamServer]:
        """Return those of whose tools nothing is on the board yet, not even from memory."""
        return [server for server, it in self._under_way.items() if it.is_new]

    def may_have(self, server: UpstreamServer, name: str) -> bool:
        """Tell whether a tool of this name could be one of the server's."""
        return name.startswith(self._beginning(server))

    def is_under_way(self, server: UpstreamServer) -> bool:
        """Tell whether a server was announced, and not tried yet."""
        return server in self._under_way

    def announce(self, server: UpstreamServer) -> None:
        """Take note of a server that is about to be brought, and keep it off the board."""
        self._under_way[server] = _Arrival(anyio.Event(), not server.is_known)
        server.hold()

    def give_up(self, servers: Iterable[UpstreamServer]) -> None:
        """Let nobody wait any longer for servers that were announced."""
        for server in servers:
            arrival = self._under_way.pop(server, None)
            if arrival is not None:
                arrival.over.set()

    async def bring(
        self,
        servers: list[UpstreamServer],
        *,
        in_order: bool,
        after: Mapping[UpstreamServer, anyio.Event],
    ) -> None:
        """Start servers that were announced; return when each of them is up, or has failed.

        Args:
            servers: which.
            in_order: put nobody's tools on the board before those of all who were announced
                earlier. Otherwise only of those who might want the same names, so that speed does
                not decide about those; and no longer than `PATIENCE`.
            after: what a server waits for before it is started, no longer than `PATIENCE`.
        """
        known = list(self._under_way)
        try:
            async with anyio.create_task_group() as group:
                for server in servers:
                    before = [
                        self._under_way[other].over
                        for other in known[: known.index(server)]
                        if in_order or self._may_clash(server, other)
                    ]
                    limit = math.inf if in_order else PATIENCE
                    group.start_soon(self._bring, server, after.get(server), before, limit)
        finally:
            self.give_up(servers)

    async def over(self, servers: Iterable[UpstreamServer]) -> None:
        """Wait until these were tried; those that were already are not waited for."""
        for it in [self._under_way[server] for server in servers if server in self._under_way]:
            await it.over.wait()

    async def _bring(
        self,
        server: UpstreamServer,
        after: anyio.Event | None,
        before: list[anyio.Event],
        limit: float,
    ) -> None:
        deadline = anyio.current_time() + limit
        try:
            if after is not None:
                # It might want the same port, or the same lock.
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
        """Return what the names of all tools of a server begin with; nothing if that is unknown."""
        try:
            # Asked about a tool as any other: a policy of somebody else need not cope with no name.
            name = self._names.policy_name(server.config.name, _ANY)
        except Exception:  # noqa: BLE001 - a policy may raise anything; each tool is told so later
            return ""
        return name.rpartition(_ANY)[0]


class _Arrival(NamedTuple):
    over: anyio.Event
    is_new: bool
