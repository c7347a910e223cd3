"""StandaloneClient: one server without a hub: connect, list, call, close."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import anyio
import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import NotConnectedError, ToolTimeoutError
from pegboard.upstream.call_context import CallContext, OnProgress
from pegboard.upstream.connection import Connection, Negotiated, ServerState
from pegboard.upstream.connections.stateful import ConnectionDeps, StatefulConnection
from pegboard.upstream.connections.stateless import StatelessConnection
from pegboard.upstream.owner_loop import OwnerLoop
from pegboard.upstream.server_requests import Clock, Questions

__all__ = ["StandaloneClient"]


class StandaloneClient:
    """A client for one server. Its methods may be used from any task and any event loop.

    The constructor does nothing but remember; `connect` and `close` may come in any order, any
    number of times.
    """

    def __init__(self, config: ServerConfig, *, questions: Questions | None = None) -> None:
        # It connects when it is told to, and not by itself.
        self.config: ServerConfig = msgspec.structs.replace(config, lazy=True)
        self._nursery = OwnerLoop(config.name)
        self._guests = (questions or Questions()).asked_as_guests_of(self._nursery)
        self._connection: Connection | None = None
        self._pool: Any = None

    @property
    def is_connected(self) -> bool:
        """True while there is a live connection, as far as anybody can know."""
        connection = self._connection
        alive = connection is not None and connection.state == ServerState.READY
        return alive and self._nursery.is_open

    @property
    def state(self) -> ServerState:
        """Where the server is in its life."""
        return ServerState.COLD if self._connection is None else self._connection.state

    @property
    def last_error(self) -> str | None:
        """Why the server was last not reached, or lost."""
        return None if self._connection is None else self._connection.last_error

    @property
    def negotiated(self) -> Negotiated | None:
        """What the server said of itself; ``None`` before it was asked."""
        return None if self._connection is None else self._connection.negotiated

    async def connect(self) -> None:
        """Connect, unless connected.

        Raises:
            ServerUnavailableError: when the server cannot be started or reached.
        """
        if not self._nursery.is_open:
            # Whatever is left belongs to an event loop that is gone.
            self._connection = self._pool = None
        await self._nursery.open()
        await self._nursery.at_home(self._open)

    async def close(self) -> None:
        """Disconnect and free everything; also when not connected."""
        with anyio.CancelScope(shield=True):  # every wait in it has a limit
            if self._nursery.is_open:
                await self._nursery.end_by(self._end)
            else:
                await self._nursery.close()
                self._connection = None

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the definitions of all tools, all pages, as the server sent them.

        Raises:
            NotConnectedError: before `connect`.
            UpstreamError: whatever went wrong.
        """
        return await self._nursery.at_home(lambda: self._connected().list_all("tools/list"))

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        reconnect: bool = False,
    ) -> dict[str, Any]:
        """Call a tool by its own name and return the raw result.

        Args:
            name: the name the server has for it.
            arguments: what it takes.
            on_progress: who is told how far it is.
            reconnect: connect again if the connection was lost meanwhile.

        Raises:
            NotConnectedError: before `connect`, or after the connection was lost.
            ToolTimeoutError: when the answer did not come in time.
            UpstreamError: whatever else went wrong.
        """
        params = {"name": name, "arguments": dict(arguments or {})}

        async def call() -> dict[str, Any]:
            connection = self._connected()
            if not reconnect and connection.state != ServerState.READY:
                raise NotConnectedError(
                    f"The connection to server {self.config.name!r} is gone "
                    f"({connection.last_error or 'it was closed'}). Call `connect()` again.",
                    server=self.config.name,
                    tool=name,
                )
            limit = self.config.timeouts.call
            with anyio.move_on_after(limit) as scope:
                asked = self._guests.stopping(Clock(scope)) if self._guests.are_answered else None
                return await connection.request(
                    "tools/call",
                    params,
                    tool=name,
                    context=CallContext(on_progress=on_progress, questions=asked),
                )
            raise ToolTimeoutError(name, seconds=limit, remedy="raise the timeout of its client")

        return await self._nursery.at_home(call, tool=name)

    def _connected(self) -> Connection:
        if self._connection is None:
            raise NotConnectedError(
                f"Server {self.config.name!r} is not connected. Call `connect()` first.",
                server=self.config.name,
            )
        return self._connection

    async def _open(self) -> None:
        if self._connection is None:
            around = ConnectionDeps(
                nursery=self._nursery,
                starts=anyio.CapacityLimiter(1),
                pool=self._http_pool,
                questions=self._guests,
                # Nobody looks at what it offers, and an exchange is what this may be all about.
                greeting="trust",
            )
            kind = StatelessConnection if self.config.stateless else StatefulConnection
            self._connection = kind(self.config, around)
        await self._connection.open()

    async def _end(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()
        await self._nursery.close()

    def _http_pool(self) -> Any:
        if self._pool is None:
            self._pool = import_module("pegboard.upstream.http.client").HttpPool()
        return self._pool
