"""StandaloneClient: a client of one server without a hub: connect, list, call, close."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import anyio
import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import NotConnectedError
from pegboard.model.hidden_characters import visible_definition
from pegboard.upstream.call_context import CallContext, OnProgress
from pegboard.upstream.connection import ConnectionDeps, Negotiated, Request, ServerState
from pegboard.upstream.connections.delivery import deliver, deliver_list
from pegboard.upstream.connections.stateful import StatefulConnection
from pegboard.upstream.connections.stateless import StatelessConnection
from pegboard.upstream.owner_loop import OwnerLoop
from pegboard.upstream.server_requests import Questions
from pegboard.upstream.tasks.server_tasks import ServerTasks

__all__ = ["StandaloneClient"]


class StandaloneClient:
    """A client for one server. Its methods may be used from any task and any event loop.

    The constructor opens nothing; `connect` and `close` may be called in any order, any number
    of times. ``token_storage`` is where the tokens of an OAuth login are, instead of where the
    configuration says.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        questions: Questions | None = None,
        token_storage: Any = None,
    ) -> None:
        # It connects only when `connect` is called.
        self.config: ServerConfig = msgspec.structs.replace(config, lazy=True)
        self._owner_loop = OwnerLoop(config.name)
        self._guests = (questions or Questions()).answered_on(self._owner_loop)
        self._tasks = ServerTasks(self.config, self._owner_loop, self._guests)
        self._token_storage = token_storage
        self._connection: StatefulConnection | None = None
        self._pool: Any = None
        self._connecting = 0
        self._is_kept = False

    @property
    def is_connected(self) -> bool:
        """True while there is an open connection, as far as this process can know."""
        connection = self._connection
        alive = connection is not None and connection.state == ServerState.READY
        return alive and self._owner_loop.is_open

    @property
    def state(self) -> ServerState:
        """The state of the server."""
        return ServerState.COLD if self._connection is None else self._connection.state

    @property
    def last_error(self) -> str | None:
        """Why the server was last unreachable or lost."""
        return None if self._connection is None else self._connection.last_error

    @property
    def negotiated(self) -> Negotiated | None:
        """What the server said about itself; ``None`` before the first session."""
        return None if self._connection is None else self._connection.negotiated

    async def connect(self) -> None:
        """Connect, unless connected.

        If it is cancelled, and no other caller waits for the connection, it is closed.

        Raises:
            ServerUnavailableError: when the server cannot be started or reached.
        """
        if not self._owner_loop.is_open:
            # What is left belongs to an event loop that is gone.
            self._connection = self._pool = None
        await self._owner_loop.open()
        await self._owner_loop.run(self._open)

    async def close(self) -> None:
        """Disconnect and free everything; also when not connected."""
        with anyio.CancelScope(shield=True):  # every wait in it has a limit
            if self._owner_loop.is_open:
                await self._owner_loop.run_shutdown(self._end)
            else:
                await self._owner_loop.close()
                self._connection = None

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the definitions of all tools, from all pages, with hidden characters as escapes.

        Raises:
            NotConnectedError: before `connect`.
            UpstreamError: when the request failed.
        """
        listed = await self._owner_loop.run(lambda: deliver_list(self._connected(), "tools/list"))
        return [visible_definition(it) for it in listed]

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
            name: the name of the tool on its server.
            arguments: the arguments of the call.
            on_progress: receives the progress of the call.
            reconnect: connect again if the connection was lost meanwhile.

        Raises:
            NotConnectedError: before `connect`, or after the connection was lost.
            ToolTimeoutError: when the response did not come in time.
            UpstreamError: when the call failed otherwise.
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
            request = Request(
                method="tools/call",
                params=params,
                tool=name,
                context=CallContext(on_progress=on_progress),
                questions=self._guests if self._guests.are_answered else None,
                limit=self.config.timeouts.call,
                remedy="raise the timeout of its client",
            )
            raw = await deliver(connection, request)
            if "content" in raw:
                return raw
            return await self._tasks.result_of(connection, request, raw)

        return await self._owner_loop.run(call, tool=name)

    def _connected(self) -> StatefulConnection:
        if self._connection is None:
            raise NotConnectedError(
                f"Server {self.config.name!r} is not connected. Call `connect()` first.",
                server=self.config.name,
            )
        return self._connection

    async def _open(self) -> None:
        if self._connection is None:
            deps = ConnectionDeps(
                owner_loop=self._owner_loop,
                starts=anyio.CapacityLimiter(1),
                pool=self._http_pool,
                questions=self._guests,
                # Its capabilities are not used here, and asking for them costs a request.
                greeting="trust",
            )
            kind = StatelessConnection if self.config.stateless else StatefulConnection
            self._connection = kind(self.config, deps)
        if self._connection.state != ServerState.READY:
            self._is_kept = False
        self._connecting += 1
        try:
            await self._connection.open()
            self._is_kept = True
        except anyio.get_cancelled_exc_class():
            # The server would go on starting, and no caller would know that it has to be closed.
            if self._connecting == 1 and not self._is_kept:
                await self.close()
            raise
        finally:
            self._connecting -= 1

    async def _end(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()
        await self._owner_loop.close()

    def _http_pool(self) -> Any:
        if self._pool is None:
            kind = import_module("pegboard.upstream.http.pool").HttpPool
            self._pool = kind(token_storage=self._token_storage)
        return self._pool
