"""AgentScope's `MCPClientBase`, and what its stateful and stateless clients share."""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, get_args

from pegboard.compat.agentscope.blocks import Block, ToolResponse, blocks_of
from pegboard.compat.agentscope.function import check_options
from pegboard.config import OAuthConfig, ServerConfig, Timeouts
from pegboard.config.servers import Protocol
from pegboard.errors import ConfigError, ToolNotFoundError
from pegboard.model.tool_names import nearest_names

__all__ = [
    "ClientOptions",
    "HttpTransport",
    "MCPClientBase",
    "http_config",
    "sdk_tools",
    "tool_named",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")


class _TransportError(ConfigError, AssertionError):
    """AgentScope asserts what the transport is."""


HttpTransport = Literal["streamable_http", "sse"]
"""The HTTP transport of a server."""


class ClientOptions(TypedDict, total=False):
    """Options of an HTTP client besides its address, headers and time limits."""

    bearer_token: str | None
    oauth: OAuthConfig | None
    protocol: Protocol


class MCPClientBase:
    """A named client of one server."""

    def __init__(self, name: str) -> None:
        self.name: str = name

    async def list_tools(self) -> list[Any]:
        """Return the tools of the server as the SDK's ``Tool`` objects."""
        raise NotImplementedError(f"{type(self).__name__} does not list its tools.")

    @abstractmethod
    async def get_callable_function(
        self,
        func_name: str,
        wrap_tool_result: bool = True,  # noqa: FBT001, FBT002 - the document's signature
        execution_timeout: float | None = None,
    ) -> Callable[..., Awaitable[ToolResponse | Any]]:
        """Return a tool of the server as a function.

        Args:
            func_name: the server's own name of the tool.
            wrap_tool_result: return a `ToolResponse` instead of the SDK's ``CallToolResult``.
            execution_timeout: after this many seconds, a call ends with `ToolTimeoutError`.

        Raises:
            ValueError: when the server has no such tool.
            UpstreamError: when the server cannot list its tools.
        """
        raise NotImplementedError(f"{type(self).__name__} does not make functions of its tools.")

    @staticmethod
    def _convert_mcp_content_to_as_blocks(mcp_content_blocks: Iterable[object]) -> list[Block]:
        return blocks_of(mcp_content_blocks)


def http_config(
    name: str,
    transport: HttpTransport,
    *,
    url: str,
    headers: Mapping[str, str] | None,
    seconds: tuple[float, float],
    options: ClientOptions,
) -> ServerConfig:
    """Return the core's configuration of a server behind HTTP.

    Raises:
        ConfigError: when the transport is not an HTTP transport, or an option is unknown.
    """
    if transport not in get_args(HttpTransport):
        raise _TransportError(
            f"The transport of client {name!r} must be 'streamable_http' or 'sse', not "
            f"{transport!r}."
        )
    check_options(options, ClientOptions)
    timeout, read_timeout = seconds
    return ServerConfig(
        name=name,
        transport=transport,
        url=url,
        headers=headers or {},
        timeouts=Timeouts(connect=timeout, list=timeout, call=read_timeout),
        **options,
    )


def sdk_tools(found: Iterable[dict[str, Any]]) -> list[Any]:
    """Return definitions as the SDK's objects; an invalid one is logged and left out."""
    # The SDK is imported only after a server has answered.
    from pegboard.upstream.session.sdk_sessions import sdk_tool  # noqa: PLC0415

    tools: list[Any] = []
    for raw in found:
        try:
            tools.append(sdk_tool(raw))
        except (ValueError, TypeError):
            logger.warning("tool_skipped: the definition is broken: %.200r", raw)
    return tools


def tool_named(name: str, tools: Iterable[Any]) -> Any:
    """Return the tool of that name.

    Raises:
        ToolNotFoundError: when there is no such tool; it is a `ValueError`.
    """
    by_name = {tool.name: tool for tool in tools}
    if name not in by_name:
        raise ToolNotFoundError(name, nearest=nearest_names(name, by_name))
    return by_name[name]
