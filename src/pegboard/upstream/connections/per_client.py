"""Per-client connections: a stateful server is connected once for each client."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from pegboard.policies.fair_share import FairShare, Holder
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import ServerBusyError
from pegboard.upstream.connections.stateful import StatefulConnection

__all__ = ["IDLE", "ClientConnections"]

MOST_CLIENTS = 64
"""The most clients with a connection to one server; an idle one makes room for another."""
IDLE = 900.0
"""Seconds without a call after which a client's connection ends, unless configured."""


class ClientConnections:
    """The connections of clients to one server, the least recently used first.

    When there are too many, the caller with the most clients gives way with one that is idle. A
    caller whose calls use many at once is refused, so that the clients of others find room.
    """

    def __init__(self, server: str, make: Callable[[CallContext], StatefulConnection]) -> None:
        self._server = server
        self._make = make
        self._entries: dict[str, _Entry] = {}
        self.shares: FairShare = FairShare(f"clients of {server}", MOST_CLIENTS)
        """The connections of each caller."""
        self._busy = FairShare("", MOST_CLIENTS)
        """Those of them that calls use now."""

    @asynccontextmanager
    async def of(self, context: CallContext) -> AsyncGenerator[StatefulConnection]:
        """Yield the connection of a client, and keep it while it is used.

        Raises:
            ServerUnavailableError: when too many clients are using theirs.
        """
        entry = await self._entry(context)
        if not entry.users:
            self._busy.add(entry.holder)
        entry.users += 1
        try:
            yield entry.connection
        finally:
            entry.users -= 1
            if not entry.users:
                self._busy.remove(entry.holder)
            if not entry.users and self._entries.get(context.client) is not entry:
                # It was removed meanwhile, and perhaps opened again by this call.
                with anyio.CancelScope(shield=True):
                    await entry.connection.close()

    def get(self, client: str) -> StatefulConnection | None:
        """Return the connection of a client; ``None`` if it has none."""
        entry = self._entries.get(client)
        return None if entry is None else entry.connection

    def all(self) -> list[StatefulConnection]:
        """Return the connections of all clients."""
        return [entry.connection for entry in self._entries.values()]

    async def forget(self, client: str) -> None:
        """Close the connection of a client that is gone."""
        entry = self._entries.pop(client, None)
        if entry is not None:
            self.shares.remove(entry.holder)
            await entry.connection.close()

    async def close(self) -> None:
        """Close the connections of all clients."""
        async with anyio.create_task_group() as group:
            for client in list(self._entries):
                group.start_soon(self.forget, client)

    async def _entry(self, context: CallContext) -> "_Entry":
        client, holder = context.client, (context.caller or context.client,)
        entry = self._entries.get(client)
        if (entry is None or not entry.users) and not self._busy.admits(holder):
            raise self._too_busy()
        while client not in self._entries and not self.shares.fits():
            await self.forget(self._idle_client(holder))
        entry = self._entries.pop(client, None)
        if entry is None:
            entry = _Entry(self._make(context), holder)
            self.shares.add(holder)
        self._entries[client] = entry
        return entry

    def _idle_client(self, newcomer: Holder) -> str:
        """Return the client that gives way: of the caller with the most, but not with fewer."""
        held = self.shares.held
        idle = {
            client: held(it.holder)
            for client, it in self._entries.items()
            if not it.users and (it.holder == newcomer or held(it.holder) > held(newcomer))
        }
        if not idle:
            raise self._too_busy()
        return max(idle, key=idle.__getitem__)

    def _too_busy(self) -> ServerBusyError:
        return ServerBusyError(
            f"Server {self._server!r} is used by {self._busy.used} clients at once, and has a "
            "connection for each of them (`sharing` is `per_client`). Try again later.",
            server=self._server,
        )


class _Entry:
    def __init__(self, connection: StatefulConnection, holder: Holder) -> None:
        self.connection = connection
        self.holder = holder
        self.users = 0
