"""AgentScope's `MCPToolFunction`: a tool of a server as a local function."""

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack, cast

import anyio

from pegboard.compat.agentscope.blocks import response_of, wire_of
from pegboard.compat.server_calls import reading_result
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
    """An object that can call a tool: one of our clients, or a session of the SDK."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool and return its result: the SDK's object, or its JSON."""
        ...


ClientGenerator: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens a client, or the streams of a transport, for one call, and closes it afterwards.

On streams such as those of ``stdio_client``, a session is opened for the call.
"""


class FunctionOptions(TypedDict, total=False):
    """Options of a function besides whether to wrap its results."""

    execution_timeout: float | None
    """After this many seconds, a call ends with `ToolTimeoutError`."""
    on_progress: OnProgress | None
    """Receives the progress that the server reports; not supported by a session of the SDK."""


class MCPToolFunction:
    """A tool of a server that is awaited like any local function.

    Args:
        mcp_name: the name of the client that the tool comes from.
        tool: the definition, an SDK ``Tool``.
        wrap_tool_result: return a `ToolResponse` instead of the SDK's ``CallToolResult``.
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
            raise ValueError("Give either `client_gen` or `session`, but not both.")
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
            ServerAuthenticationError: when the server requires other credentials.
            UpstreamError: when the call fails for another reason.
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
        # The SDK is imported only for a caller that passes streams of the SDK.
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
        with reading_result(server=self.mcp_name, tool=self.name):
            if self.wrap_tool_result:
                return response_of(wire)
            # The SDK is imported only for a caller that wants the SDK's objects.
            from pegboard.upstream.session.sdk_sessions import sdk_result  # noqa: PLC0415

            return sdk_result({**wire, "content": wire.get("content") or []})


def extract_json_schema(tool: Any) -> dict[str, Any]:
    """Return the definition of an SDK ``Tool`` for a model, with the whole schema."""
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
        TypeError: when an option is unknown; the message lists the known ones.
    """
    unknown = set(given) - known.__annotations__.keys()
    if unknown:
        listed = ", ".join(known.__annotations__)
        raise TypeError(
            f"Unknown options: {', '.join(sorted(unknown))}; the known ones are {listed}."
        )
