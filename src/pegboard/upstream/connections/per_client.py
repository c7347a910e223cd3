"""Per-client connections: a stateful server is connected once for each client."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import ServerBusyError
from pegboard.upstream.connections.stateful import StatefulConnection

__all__ = ["IDLE", "ClientConnections"]

MOST_CLIENTS = 64
"""The most clients with a connection to one server; an idle one makes room for another."""
IDLE = 900.0
"""Seconds without a call after which a client's connection ends, unless configured."""


class ClientConnections:
    """The connections of clients to one server, the least recently used first."""

    def __init__(self, server: str, make: Callable[[CallContext], StatefulConnection]) -> None:
        self._server = server
        self._make = make
        self._entries: dict[str, _Entry] = {}

    @asynccontextmanager
    async def of(self, context: CallContext) -> AsyncGenerator[StatefulConnection]:
        """Yield the connection of a client, and keep it while it is used.

        Raises:
            ServerUnavailableError: when too many other clients are using theirs.
        """
        entry = await self._entry(context)
        entry.users += 1
        try:
            yield entry.connection
        finally:
            entry.users -= 1
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
            await entry.connection.close()

    async def close(self) -> None:
        """Close the connections of all clients."""
        async with anyio.create_task_group() as group:
            for client in list(self._entries):
                group.start_soon(self.forget, client)

    async def _entry(self, context: CallContext) -> "_Entry":
        client = context.client
        while client not in self._entries and len(self._entries) >= MOST_CLIENTS:
            await self.forget(self._idle_client())
        entry = self._entries.pop(client, None) or _Entry(self._make(context))
        self._entries[client] = entry
        return entry

    def _idle_client(self) -> str:
        for client, entry in self._entries.items():
            if not entry.users:
                return client
        raise ServerBusyError(
            f"Server {self._server!r} is used by {MOST_CLIENTS} clients at once, and has a "
            "connection for each of them (`sharing` is `per_client`). Try again later.",
            server=self._server,
        )


class _Entry:
    def __init__(self, connection: StatefulConnection) -> None:
        self.connection = connection
        self.users = 0
