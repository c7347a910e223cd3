"""LiteAI's `McpToolset`: connect to one MCP server, and offer its tools as functions."""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import anyio

from pegboard.compat.liteai.client import (
    LocalMcpClient,
    LocalServerParams,
    McpClient,
    RemoteMcpClient,
    RemoteServerParams,
    Tool,
    ToolResult,
)
from pegboard.compat.liteai.prepare import TOOL_FLAG, ToolFn
from pegboard.compat.server_calls import Turns
from pegboard.errors import NotConnectedError

__all__ = ["LocalMcpToolset", "McpToolset", "RemoteMcpToolset", "ToolsetOptions"]

logger: logging.Logger = logging.getLogger("pegboard.compat")


class ToolsetOptions(TypedDict, total=False):
    """Options of a toolset besides its server."""

    tool_filter: Callable[[Tool], bool] | None
    """Tells which tools of the server to offer."""
    tool_prefix: str
    """The prefix of the name of each function; the server never sees it."""
    auto_reconnect: bool
    """When a call fails, connect again and repeat the call once, even if it may have run."""


class McpToolset(ABC):
    """The tools of one MCP server: `connect`, then `get_tools`.

    Connections of our own clients run on Pegboard's background loop, so the functions can be called
    from any event loop, or without one by `call_tool_fn_sync`.
    """

    def __init__(
        self,
        *,
        tool_filter: Callable[[Tool], bool] | None = None,
        tool_prefix: str = "",
        auto_reconnect: bool = False,
    ) -> None:
        self._name = ""
        self._client: McpClient | None = None
        self._tools_cache: list[Tool] | None = None
        self._connected = False
        self._tool_filter = tool_filter
        self._tool_prefix = tool_prefix
        self._auto_reconnect = auto_reconnect
        self._turns = Turns()

    @abstractmethod
    def _create_client(self) -> McpClient:
        """Return a new client, not connected yet."""

    @property
    def is_connected(self) -> bool:
        """True from `connect` to `disconnect`, unless the server was lost meanwhile."""
        return self._connected and self._client is not None and self._client.is_connected

    @property
    def description(self) -> str:
        """The server's instructions for a model; empty before `connect`."""
        return "" if self._client is None else self._client.instructions

    async def connect(self) -> None:
        """Connect and fetch the list of tools, unless connected.

        Raises:
            ServerUnavailableError: when the server cannot be started or reached.
        """
        async with self._turns.next():
            if self.is_connected:
                return
            await self._drop_client()
            try:
                self._client = self._create_client()
                await self._client.connect()
                self._connected = True
                await self.refresh_tools()
            except BaseException:
                await self._drop_client()
                raise

    async def disconnect(self) -> None:
        """Disconnect and forget the tools."""
        # Even a cancelled caller leaves nothing behind.
        with anyio.CancelScope(shield=True):
            async with self._turns.next():
                await self._drop_client()

    async def refresh_tools(self) -> None:
        """Fetch the list of tools again.

        Raises:
            RuntimeError: when not connected.
        """
        client = self._client
        if not self._connected or client is None:
            raise self._not_connected("Not connected to MCP server. Call await connect() first.")
        tools = await client.list_tools()
        if self._tool_filter is not None:
            tools = [tool for tool in tools if self._tool_filter(tool)]
        if self._client is client:
            self._tools_cache = tools

    def get_tools(self, *, namespaced_tool_name: bool = False) -> list[ToolFn]:
        """Return one coroutine function for each tool.

        Args:
            namespaced_tool_name: name them ``{toolset}__{tool}``.

        Raises:
            RuntimeError: before `connect`.
        """
        if not self._connected or self._tools_cache is None:
            raise self._not_connected("Not connected to MCP server. Call await connect() first.")
        namespace = f"{self._name}__" if namespaced_tool_name else ""
        return [self._create_tool_wrapper(tool, namespace) for tool in self._tools_cache]

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.disconnect()

    def _create_tool_wrapper(self, mcp_tool: Tool, namespace: str = "") -> ToolFn:
        async def wrapper(**kwargs: Any) -> str:
            result = await self._call_with_retry(mcp_tool.name, kwargs)
            return self._format_tool_result(result)

        wrapper.__name__ = wrapper.__qualname__ = f"{namespace}{self._tool_prefix}{mcp_tool.name}"
        wrapper.__doc__ = mcp_tool.description or f"MCP tool: {mcp_tool.name}"
        setattr(wrapper, TOOL_FLAG, True)
        wrapper._mcp_tool = mcp_tool  # pyright: ignore[reportFunctionMemberAccess]
        return wrapper

    async def _call_with_retry(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        client = self._client
        if not self._connected or client is None:
            name = self.__class__.__name__
            raise self._not_connected(
                f"MCP Toolset not connected. Call await {name}.connect() first."
            )
        try:
            return await client.call_tool(tool_name, arguments)
        except Exception:
            # A caller that disconnected on purpose does not want the connection back.
            if not self._auto_reconnect or self._client is None:
                raise
            client = await self._reconnected(tool_name)
            return await client.call_tool(tool_name, arguments)

    async def _reconnected(self, tool_name: str) -> McpClient:
        async with self._turns.next(tool=tool_name):
            client = self._client
            if client is None:
                raise self._not_connected("MCP Toolset was disconnected during the call.")
            await client.connect()
            return client

    def _not_connected(self, words: str) -> NotConnectedError:
        return NotConnectedError(words, server=self._name)

    def _format_tool_result(self, result: ToolResult) -> str:
        text = "\n".join(_text_of(block) for block in result)
        # The flag is ours; another client may return a plain list.
        failed = getattr(result, "is_error", False)
        return f"Error executing tool: {text}" if failed else text

    async def _drop_client(self) -> None:
        client, self._client = self._client, None
        self._tools_cache = None
        self._connected = False
        if client is None:
            return
        try:
            with anyio.CancelScope(shield=True):
                await client.disconnect()
        except Exception:
            # The toolset is disconnected either way, and the caller can do nothing about it.
            logger.exception("disconnect_failed: toolset=%r", self._name)


class LocalMcpToolset(McpToolset):
    """The tools of a server that is a process of this machine."""

    def __init__(
        self, name: str, params: LocalServerParams, **options: Unpack[ToolsetOptions]
    ) -> None:
        super().__init__(**options)
        self._name = name
        self._params = params

    def _create_client(self) -> McpClient:
        return LocalMcpClient(self._name, self._params)


class RemoteMcpToolset(McpToolset):
    """The tools of a server behind HTTP."""

    def __init__(
        self, name: str, params: RemoteServerParams, **options: Unpack[ToolsetOptions]
    ) -> None:
        super().__init__(**options)
        self._name = name
        self._params = params

    def _create_client(self) -> McpClient:
        return RemoteMcpClient(self._name, self._params)


def _text_of(block: Any) -> str:
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return text
    dump = getattr(block, "model_dump", None)
    fields = dump() if callable(dump) else block
    return json.dumps(fields, ensure_ascii=False, default=str)
