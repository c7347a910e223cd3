"""SAGE's `RemoteMCPAdapter`: one tool of an MCP server, as an object for a registry."""

import atexit
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack, cast
from weakref import WeakSet

import anyio

from pegboard.config import ServerConfig, Timeouts
from pegboard.errors import ConfigError, ProtocolError, ToolTimeoutError
from pegboard.policies import PolicyOptions
from pegboard.registry import Registry
from pegboard.registry.background_loop import run_in_background
from pegboard.upstream.messages.tool_results import result_of
from pegboard.upstream.standalone import StandaloneClient

__all__ = ["MCPRegistry", "RemoteMCPAdapter"]

_LONG = 1e8
_GOODBYE = 5.0
_PROTOCOL = "io.modelcontextprotocol/"


class _Server(NamedTuple):
    """What adapters must have in common to share a connection."""

    command: tuple[str, ...]
    url: str | None
    env: frozenset[tuple[str, str]]


class _Line:
    """One connection, and the adapters that use it."""

    def __init__(self, server: _Server) -> None:
        self.client = StandaloneClient(_config(server))
        self.users: WeakSet[RemoteMCPAdapter] = WeakSet()
        self.turn = anyio.Lock()


_lines: dict[_Server, _Line] = {}
"""Used on the background loop only, so it needs no lock."""


class RemoteMCPAdapter:
    """A tool of a server behind the four members of a local one; safe to call from any thread.

    The first call starts the server. Adapters of the same command share one process, until the
    last of them is closed or the interpreter exits; a server that died is started again by the
    next call.

    Args:
        name: the name of the tool, here and at the server.
        description: what a planner is told of it.
        input_schema: what it takes.
        server_cmd: the command that starts the server.
        url: the address of a server that runs already: ``ws://`` or ``wss://`` for WebSocket,
            ``http://`` or ``https://`` for streamable HTTP.
        env: variables for the server, besides the few harmless ones it gets anyway.
        timeout: how long one call may take, in seconds; starting the server has 30 of its own.

    Raises:
        ConfigError: when there is not exactly one of ``server_cmd`` and ``url``, or it is unusable.
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
            raise ConfigError("`server_cmd` is a list: the program, then each of its arguments.")
        if bool(server_cmd) == bool(url):
            raise ConfigError("An adapter needs either a `server_cmd` or a `url`.")
        self.name = name
        self.description = description
        self.input_schema = input_schema
        self._timeout = Timeouts(call=timeout).call
        self._server = _Server(tuple(server_cmd or ()), url, frozenset((env or {}).items()))
        # Now, and not at the first call: a bad address is found out where it was written.
        _config(self._server)

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call the tool and wait: ``{"output": ...}`` with its structured content, else its text.

        An answer with nothing in it is ``{}``. What the server says about the result is in
        ``"meta"``, if it says anything.

        Raises:
            ToolExecutionError: when the tool reports a failure; it is a `RuntimeError`.
            ProtocolError: when the server answers with a JSON-RPC error; it is a `RuntimeError`.
            ToolTimeoutError: when it took too long.
            UpstreamError: when the server cannot be started or reached, or was lost.
        """
        raw = run_in_background(lambda: self._ask(arguments), tool=self.name)
        try:
            result = result_of(raw).raise_for_error()
        except (TypeError, ValueError) as error:
            raise ProtocolError(
                f"The answer of tool {self.name!r} is no result: {error}",
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
        """Let go of the server; it is stopped when nobody else uses it. A call opens it again."""
        run_in_background(self._leave, tool=self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        line = await self._connected()
        with anyio.move_on_after(self._timeout):
            return await line.client.call_tool(self.name, arguments, reconnect=True)
        raise ToolTimeoutError(self.name, seconds=self._timeout, remedy="raise its `timeout`")

    async def _connected(self) -> _Line:
        while True:
            line = _lines.get(self._server)
            if line is None:
                line = _lines[self._server] = _Line(self._server)
            line.users.add(self)
            async with line.turn:
                # While waiting, somebody may have closed it: nobody would close it a second time.
                if _lines.get(self._server) is line:
                    await line.client.connect()
                    return line

    async def _leave(self) -> None:
        line = _lines.get(self._server)
        if line is None:
            return
        line.users.discard(self)
        if not line.users:
            del _lines[self._server]
            await line.client.close()


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
    lines = list(_lines.values())
    _lines.clear()
    with anyio.move_on_after(_GOODBYE):
        async with anyio.create_task_group() as group:
            for line in lines:
                group.start_soon(line.client.close)


@atexit.register
def _at_exit() -> None:
    if _lines:
        with suppress(Exception):
            run_in_background(_close_all, tool="")


if hasattr(os, "register_at_fork"):
    # A forked child has the objects, but neither the loop nor the pipes.
    os.register_at_fork(after_in_child=_lines.clear)


class MCPRegistry:
    """Tools of this process by name, with the behaviour of the document.

    A second tool of the same name replaces the first, and arguments go to the tool unchecked. Pass
    policies to have more: ``MCPRegistry(validation=Validation(), deadline=Deadline(30))``.
    """

    def __init__(self, **policies: Unpack[PolicyOptions]) -> None:
        options: PolicyOptions = {"validation": None, **policies}
        self.registry: Registry = Registry(**options)
        """The core registry underneath."""

    def register(self, tool_obj: Any) -> None:
        """Register an object with `name` and `call(arguments)`.

        Raises:
            TypeError: when it lacks one of them.
        """
        self.registry.register(tool_obj, on_conflict="override")

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return ``{name: {"description": ..., "input_schema": ...}}`` for a planner."""
        return self.registry.describe()

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool; its value or exception comes back unchanged.

        Raises:
            KeyError: when there is no such tool.
        """
        return self.registry.call(name, arguments)

    async def acall(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool from asynchronous code.

        Raises:
            KeyError: when there is no such tool.
        """
        return await self.registry.acall(name, arguments)

    def execute(self, data: object = None) -> Any:
        """Do what a message asks for.

        Nothing, ``"describe"`` and ``{"op": "describe"}`` describe; ``{"name": ..., "arguments":
        {...}}``, with or without ``"op": "call"``, calls.

        Raises:
            ValueError: for an unknown ``op``, or a call without a name.
            TypeError: when the message or the arguments are not objects.
        """
        if data is None or data == "describe":
            return self.describe()
        if not isinstance(data, Mapping):
            raise TypeError(f"The message must be an object (a dict), not {type(data).__name__!r}.")
        message = cast("Mapping[str, Any]", data)
        op = message.get("op", "call")
        if op == "describe":
            return self.describe()
        if op != "call":
            raise ValueError(f"Unsupported op {op!r}; known are 'describe' and 'call'.")
        name = message.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("A call needs the `name` of a tool.")
        arguments = message.get("arguments", {})
        if not isinstance(arguments, dict):
            raise TypeError(
                f"`arguments` must be an object (a dict), not {type(arguments).__name__!r}."
            )
        return self.call(name, cast("dict[str, Any]", arguments))
