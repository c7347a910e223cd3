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
        self._places: dict[str, _Place] = {}

    @asynccontextmanager
    async def of(self, context: CallContext) -> AsyncGenerator[Connection]:
        """Give the connection of a client, and keep it for as long as it is used.

        Raises:
            ServerUnavailableError: when too many other clients are just using theirs.
        """
        place = await self._place(context)
        place.users += 1
        try:
            yield place.connection
        finally:
            place.users -= 1
            if not place.users and self._places.get(context.client) is not place:
                # It was forgotten meanwhile, and perhaps opened again by this very call.
                with anyio.CancelScope(shield=True):
                    await place.connection.close()

    def get(self, client: str) -> Connection | None:
        """Return the connection of a client that has one."""
        place = self._places.get(client)
        return None if place is None else place.connection

    def all(self) -> list[Connection]:
        """Return the connections of all clients."""
        return [place.connection for place in self._places.values()]

    async def forget(self, client: str) -> None:
        """End the connection of a client that will not come again."""
        place = self._places.pop(client, None)
        if place is not None:
            await place.connection.close()

    async def close(self) -> None:
        """End the connections of all clients."""
        async with anyio.create_task_group() as group:
            for client in list(self._places):
                group.start_soon(self.forget, client)

    async def _place(self, context: CallContext) -> "_Place":
        client = context.client
        while client not in self._places and len(self._places) >= MOST_CLIENTS:
            await self.forget(self._idle_client())
        place = self._places.pop(client, None) or _Place(self._make(context))
        self._places[client] = place
        return place

    def _idle_client(self) -> str:
        for client, place in self._places.items():
            if not place.users:
                return client
        raise ServerBusyError(
            f"Server {self._server!r} is used by {MOST_CLIENTS} clients at once, and has a "
            "connection for each of them (`sharing` is `per_client`). Try again later.",
            server=self._server,
        )


class _Place:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.users = 0
