"""MCPToolFunction: a tool of a server as a local function."""

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack, cast

import anyio

from pegboard.compat.agentscope.blocks import response_of, wire_of
from pegboard.compat.unusual_servers import reading_answer
from pegboard.errors import ToolTimeoutError, UpstreamError
from pegboard.upstream import OnProgress

__all__ = [
    "ClientGenerator",
    "FunctionOptions",
    "MCPToolFunction",
    "ToolSession",
    "check_options",
    "extract_json_schema",
]


class ToolSession(Protocol):
    """Whatever can call a tool: one of our clients, or a session of the SDK."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool and return its result: the SDK's object, or the JSON it stands for."""
        ...


ClientGenerator: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens something for one call and closes it afterwards: a client, or the streams of a transport.

On the streams that ``stdio_client`` and its kin give, a session is opened for the call.
"""


class FunctionOptions(TypedDict, total=False):
    """What a function can be told besides whether to wrap its results."""

    execution_timeout: float | None
    """After so many seconds a call ends with `ToolTimeoutError`."""
    on_progress: OnProgress | None
    """Told how far the tool is, as far as the server says; not for a session of the SDK's."""


class MCPToolFunction:
    """A tool of a server, to be awaited like any local function.

    Args:
        mcp_name: the name of the client it comes from.
        tool: its definition, an SDK ``Tool``.
        wrap_tool_result: give a `ToolResponse` rather than the SDK's ``CallToolResult``.
        client_gen: opens a new session, or the streams for one, for each call.
        session: a session to use for all calls.
        options: see `FunctionOptions`.

    Raises:
        ValueError: unless exactly one of ``client_gen`` and ``session`` is given.
    """

    def __init__(
        self,
        mcp_name: str,
        tool: Any,
        *,
        wrap_tool_result: bool = True,
        client_gen: ClientGenerator | None = None,
        session: ToolSession | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        if (client_gen is None) == (session is None):
            raise ValueError("Give either `client_gen` or `session`, and not both.")
        self.mcp_name: str = mcp_name
        self.name: str = tool.name
        self.description: str = tool.description or ""
        self.json_schema: dict[str, Any] = extract_json_schema(tool)
        self.wrap_tool_result: bool = wrap_tool_result
        self._client_gen = client_gen
        self._session = session
        check_options(options, FunctionOptions)
        self._execution_timeout = options.get("execution_timeout")
        self._on_progress = options.get("on_progress")
        self.__name__: str = self.name
        self.__doc__ = self.description

    def __repr__(self) -> str:
        return f"<MCPToolFunction {self.name!r} of {self.mcp_name!r}>"

    async def __call__(self, /, **kwargs: Any) -> Any:
        """Call the tool.

        Raises:
            ToolTimeoutError: when the tool did not answer in time.
            AuthenticationError: when the server wants other credentials.
            UpstreamError: whatever else went wrong on the way.
        """
        limit = self._execution_timeout
        with anyio.move_on_after(limit):
            return self._finished(await self._call(kwargs))
        raise ToolTimeoutError(
            self.name, seconds=limit or 0.0, remedy="raise its `execution_timeout`"
        )

    async def _call(self, arguments: dict[str, Any]) -> object:
        if self._session is not None:
            return await self._call_on(self._session, arguments)
        assert self._client_gen is not None
        async with self._client_gen() as given:
            if not isinstance(given, tuple):
                return await self._call_on(given, arguments)
            answer = await self._call_on_streams(cast("tuple[Any, ...]", given), arguments)
        if isinstance(answer, UpstreamError):
            raise answer
        return answer

    async def _call_on_streams(self, streams: tuple[Any, ...], arguments: dict[str, Any]) -> object:
        # Only who brings streams of the SDK needs the SDK here.
        from pegboard.upstream.session.sdk_sessions import call_on_streams  # noqa: PLC0415

        return await call_on_streams(
            streams, self.name, arguments, server=self.mcp_name, on_progress=self._on_progress
        )

    async def _call_on(self, session: Any, arguments: dict[str, Any]) -> object:
        told = {} if self._on_progress is None else {"on_progress": self._on_progress}
        return await session.call_tool(self.name, arguments, **told)

    def _finished(self, answer: object) -> object:
        if not self.wrap_tool_result and not isinstance(answer, Mapping):
            return answer
        wire = wire_of(cast("object", answer))
        with reading_answer(server=self.mcp_name, tool=self.name):
            if self.wrap_tool_result:
                return response_of(wire)
            # Only who wants the SDK's objects needs the SDK here.
            from pegboard.upstream.session.sdk_sessions import sdk_result  # noqa: PLC0415

            return sdk_result({**wire, "content": wire.get("content") or []})


def extract_json_schema(tool: Any) -> dict[str, Any]:
    """Return the definition of an SDK ``Tool`` as a model takes it, the whole schema included."""
    # SDK 2.x has the one, SDK 1.x the other.
    schema = tool.input_schema if hasattr(tool, "input_schema") else tool.inputSchema
    given: dict[str, Any] = copy.deepcopy(schema) or {}
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": {"type": "object", "properties": {}, "required": [], **given},
        },
    }


def check_options(given: Mapping[str, Any], known: type) -> None:
    """Refuse options that a TypedDict does not have.

    Raises:
        TypeError: naming those that it has.
    """
    unknown = set(given) - known.__annotations__.keys()
    if unknown:
        listed = ", ".join(known.__annotations__)
        raise TypeError(f"Unknown options: {', '.join(sorted(unknown))}; known are {listed}.")
