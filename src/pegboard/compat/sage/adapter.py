"""SAGE's API: `MCPRegistry`, and `RemoteMCPAdapter` for one tool of an MCP server."""

import atexit
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from weakref import WeakSet

import anyio

from pegboard.config import ServerConfig, Timeouts
from pegboard.errors import ConfigError, ProtocolError, ToolTimeoutError
from pegboard.model.result import result_of
from pegboard.registry.background_loop import run_in_background
from pegboard.upstream.standalone import StandaloneClient

__all__ = ["RemoteMCPAdapter"]

_LONG = 1e8
_GOODBYE = 5.0
_PROTOCOL = "io.modelcontextprotocol/"


class _Server(NamedTuple):
    """What adapters must have in common to share a connection."""

    command: tuple[str, ...]
    url: str | None
    env: frozenset[tuple[str, str]]


class _Connection:
    """One connection, and the adapters that share it."""

    def __init__(self, server: _Server) -> None:
        self.client = StandaloneClient(_config(server))
        self.users: WeakSet[RemoteMCPAdapter] = WeakSet()
        self.turn = anyio.Lock()


_connections: dict[_Server, _Connection] = {}
"""Used on the background loop only, so it needs no lock."""


class RemoteMCPAdapter:
    """A remote tool with the four members of a local one; any thread may call it.

    The first call starts the server. Adapters with the same command share one process, until the
    last of them is closed or the interpreter exits. If the server died, the next call starts it
    again.

    Args:
        name: the name of the tool, here and on the server.
        description: the description for a planner.
        input_schema: the JSON Schema of the arguments.
        server_cmd: the command that starts the server.
        url: the address of a running server: ``ws://`` or ``wss://`` for WebSocket, ``http://`` or
            ``https://`` for streamable HTTP.
        env: environment variables for the server, in addition to the few it always gets.
        timeout: how many seconds one call may take; starting the server has its own 30 seconds.

    Raises:
        ConfigError: unless exactly one of ``server_cmd`` and ``url`` is given, or if it is invalid.
    """

    def __init__(  # noqa: PLR0913 - the first four are the document's
        self,
        name: str,
        description: str,
        input_schema: dict[str, Any],
        server_cmd: list[str] | None = None,
        *,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> None:
        if isinstance(server_cmd, str):
            raise ConfigError(
                "`server_cmd` must be a list: the program, then each of its arguments."
            )
        if bool(server_cmd) == bool(url):
            raise ConfigError("An adapter needs either a `server_cmd` or a `url`.")
        self.name = name
        self.description = description
        self.input_schema = input_schema
        self._timeout = Timeouts(call=timeout).call
        self._server = _Server(tuple(server_cmd or ()), url, frozenset((env or {}).items()))
        # Checked now, and not at the first call, so that the error is raised at its cause.
        _config(self._server)

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call the tool and wait for ``{"output": ...}``: its structured content, or its text.

        An empty result is ``{}``. The metadata of the result is in ``"meta"``, if there is any.

        Raises:
            ToolExecutionError: when the tool reports a failure; it is a `RuntimeError`.
            ProtocolError: when the server answers with a JSON-RPC error; it is a `RuntimeError`.
            ToolTimeoutError: when the call took too long.
            UpstreamError: when the server cannot be started or reached, or was lost.
        """
        raw = run_in_background(lambda: self._ask(arguments), tool=self.name)
        try:
            result = result_of(raw).raise_for_error()
        except (TypeError, ValueError) as error:
            raise ProtocolError(
                f"The response of tool {self.name!r} is not a valid result: {error}",
                server=_label(self._server),
                tool=self.name,
            ) from error
        structured = raw.get("structuredContent")
        if structured is None and not result.content:
            return {}
        answer = {"output": result.text() if structured is None else structured}
        meta = {key: it for key, it in result.meta.items() if not key.startswith(_PROTOCOL)}
        return {**answer, "meta": meta} if meta else answer

    def close(self) -> None:
        """Close this adapter; its server stops with the last adapter. A call opens it again."""
        run_in_background(self._leave, tool=self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        connection = await self._connected()
        with anyio.move_on_after(self._timeout):
            return await connection.client.call_tool(self.name, arguments, reconnect=True)
        raise ToolTimeoutError(self.name, seconds=self._timeout, remedy="raise its `timeout`")

    async def _connected(self) -> _Connection:
        while True:
            connection = _connections.get(self._server)
            if connection is None:
                connection = _connections[self._server] = _Connection(self._server)
            connection.users.add(self)
            async with connection.turn:
                # Another adapter may have closed it meanwhile: then nothing would close it again.
                if _connections.get(self._server) is connection:
                    await connection.client.connect()
                    return connection

    async def _leave(self) -> None:
        connection = _connections.get(self._server)
        if connection is None:
            return
        connection.users.discard(self)
        if not connection.users:
            del _connections[self._server]
            await connection.client.close()


def _config(server: _Server) -> ServerConfig:
    timeouts = Timeouts(call=_LONG)
    name = _label(server)
    if server.url is None:
        command, *args = server.command
        return ServerConfig(
            name=name,
            transport="stdio",
            command=command,
            args=tuple(args),
            env=dict(server.env),
            timeouts=timeouts,
        )
    is_web_socket = server.url.startswith(("ws:", "wss:"))
    return ServerConfig(
        name=name,
        transport="websocket" if is_web_socket else "streamable_http",
        url=server.url,
        timeouts=timeouts,
    )


def _label(server: _Server) -> str:
    return "remote" if server.url is not None else Path(server.command[0]).name or "server"


async def _close_all() -> None:
    connections = list(_connections.values())
    _connections.clear()
    with anyio.move_on_after(_GOODBYE):
        async with anyio.create_task_group() as group:
            for connection in connections:
                group.start_soon(connection.client.close)


@atexit.register
def _at_exit() -> None:
    if _connections:
        with suppress(Exception):
            run_in_background(_close_all, tool="")


if hasattr(os, "register_at_fork"):
    # A forked child has the objects, but neither the loop nor the pipes.
    os.register_at_fork(after_in_child=_connections.clear)
