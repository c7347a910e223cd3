"""Arrivals: new servers are started side by side, and come on the board as soon as they may."""

import contextlib
import logging
from collections.abc import Iterable
from typing import NamedTuple

import anyio

from pegboard.errors import PegboardError
from pegboard.model.naming import NameTable
from pegboard.upstream.server import UpstreamServer

__all__ = ["Arrivals"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_ANY = "tool"


class Arrivals:
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

    def announce(self, servers: Iterable[UpstreamServer]) -> None:
        """Take note of servers that are about to be brought, and keep them off the board."""
        for server in servers:
            self._under_way[server] = _Arrival(anyio.Event(), not server.is_known)
            server.hold()

    async def bring(self, servers: list[UpstreamServer], *, in_order: bool) -> None:
        """Start servers that were announced; return when each of them is up, or has failed.

        Args:
            servers: which.
            in_order: put nobody's tools on the board before those of all who were announced
                earlier. Otherwise only of those who might want the same names: speed never decides
                about those.
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
                    group.start_soon(self._bring, server, before)
        finally:
            for server in servers:
                self._end(server)

    async def over(self, servers: Iterable[UpstreamServer]) -> None:
        """Wait until these were tried; those that were already are not waited for."""
        for it in [self._under_way[server] for server in servers if server in self._under_way]:
            await it.over.wait()

    async def _bring(self, server: UpstreamServer, before: list[anyio.Event]) -> None:
        try:
            # What fails is logged where it happens, and shown in the server's status.
            with contextlib.suppress(PegboardError):
                await server.start()
            for other in before:
                await other.wait()
            await server.release()
        except Exception:
            name = server.config.name
            logger.exception("start_failed: server %r", name, extra={"server": name})
        finally:
            self._end(server)

    def _end(self, server: UpstreamServer) -> None:
        arrival = self._under_way.pop(server, None)
        if arrival is not None:
            arrival.over.set()

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
