"""ClientConnections: a connection for each client of a server that clients do not share."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import Connection, ServerBusyError

__all__ = ["IDLE", "ClientConnections"]

MOST_CLIENTS = 64
"""So many clients may have a connection to one server; an idle one makes room for another."""
IDLE = 900.0
"""Seconds without a call after which a client's connection ends, unless its server's entry says."""


class ClientConnections:
    """The connections of clients to one server, the least recently used first."""

    def __init__(self, server: str, make: Callable[[CallContext], Connection]) -> None:
        self._server = server
        self._make = make
        self._entries: dict[str, _Entry] = {}

    @asynccontextmanager
    async def of(self, context: CallContext) -> AsyncGenerator[Connection]:
        """Give the connection of a client, and keep it for as long as it is used.

        Raises:
            ServerUnavailableError: when too many other clients are just using theirs.
        """
        entry = await self._entry(context)
        entry.users += 1
        try:
            yield entry.connection
        finally:
            entry.users -= 1
            if not entry.users and self._entries.get(context.client) is not entry:
                # It was forgotten meanwhile, and perhaps opened again by this very call.
                with anyio.CancelScope(shield=True):
                    await entry.connection.close()

    def get(self, client: str) -> Connection | None:
        """Return the connection of a client that has one."""
        entry = self._entries.get(client)
        return None if entry is None else entry.connection

    def all(self) -> list[Connection]:
        """Return the connections of all clients."""
        return [entry.connection for entry in self._entries.values()]

    async def forget(self, client: str) -> None:
        """End the connection of a client that will not come again."""
        entry = self._entries.pop(client, None)
        if entry is not None:
            await entry.connection.close()

    async def close(self) -> None:
        """End the connections of all clients."""
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
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.users = 0
