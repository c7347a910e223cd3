"""ExcelManus's client of one server, and the functions that call its tools."""

import logging
import reprlib
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, cast

import anyio

from pegboard.compat.excelmanus.config import MCPServerConfig
from pegboard.compat.excelmanus.tool_conversion import (
    add_tool_prefix,
    error_text,
    field_of,
    format_tool_result,
    infer_mcp_write_effect,
)
from pegboard.compat.excelmanus.tools import ToolDef
from pegboard.compat.server_calls import in_background, reading_result
from pegboard.config import ServerConfig
from pegboard.errors import (
    NotConnectedError,
    ProtocolError,
    ToolExecutionError,
    ToolTimeoutError,
    UpstreamError,
)
from pegboard.registry.background_loop import run_in_background
from pegboard.upstream.connection import ServerState
from pegboard.upstream.messages.tool_results import result_of
from pegboard.upstream.standalone import StandaloneClient

__all__ = ["MCPClientWrapper", "client_of", "make_tool_def", "make_tool_func"]

logger: logging.Logger = logging.getLogger("pegboard.compat")

_CLIENT = "_mcp_client"
"""The attribute of a function that names its client."""


class MCPClientWrapper:
    """A client of one server: connect, list, call and close from any task, thread or event loop.

    It accepts the configuration of the document, or a `ServerConfig` for everything else that
    Pegboard supports.
    """

    def __init__(self, config: MCPServerConfig | ServerConfig) -> None:
        self.config: ServerConfig = _server_config(config)
        """The configuration in the form of the core."""
        self._client = StandaloneClient(self.config)
        self._tools: list[dict[str, Any]] = []
        self._listed_at: float | None = None
        self._managed_pids: set[int] = set()
        self._turn = anyio.Lock()

    @property
    def is_connected(self) -> bool:
        """True while the server is connected; false as soon as it has died."""
        return self._client.is_connected

    @property
    def last_error(self) -> str | None:
        """Why the last connection failed or was lost."""
        return self._client.last_error

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The result of the last `discover_tools`."""
        return self._tools

    @property
    def managed_pids(self) -> set[int]:
        """The processes that a host bound to this client."""
        return set(self._managed_pids)

    def bind_managed_pids(self, pids: set[int]) -> None:
        """Bind processes to this client, for `managed_pids`; `close` forgets them."""
        self._managed_pids = {int(pid) for pid in pids if int(pid) > 0}

    async def connect(self) -> None:
        """Start the server or connect to its address, unless it is connected.

        Raises:
            ServerUnavailableError: when that fails, or takes too long.
        """
        await in_background(self._connect)

    async def discover_tools(
        self, *, cache_ttl_seconds: float = 30.0, force_refresh: bool = False
    ) -> list[dict[str, Any]]:
        """Ask for the definitions of all tools, on all pages, in the form of the protocol.

        Args:
            cache_ttl_seconds: how old the last result may be to be returned again; 0 always asks.
            force_refresh: ask in any case.

        Raises:
            UpstreamError: when the server is not connected, or cannot list its tools.
        """
        self._check_connected()
        now = monotonic()
        is_fresh = self._listed_at is not None and now - self._listed_at <= cache_ttl_seconds
        if force_refresh or cache_ttl_seconds <= 0 or not is_fresh or not self._tools:
            self._tools = await self._client.list_tools()
            self._listed_at = now
        return list(self._tools)

    async def call_tool(self, tool_name: str, arguments: dict[str, Any]) -> str:
        """Call a tool by the server's own name, and return the whole result as text.

        Raises:
            ToolTimeoutError: when the call took too long.
            ToolExecutionError: when the tool reports a failure.
            UpstreamError: when the server is lost, or answers with a protocol error.
        """
        server = self.config.name
        self._check_connected()
        if logger.isEnabledFor(logging.DEBUG):
            summary = reprlib.repr(arguments)
            logger.debug("mcp_call: server=%r tool=%r arguments=%s", server, tool_name, summary)
        raw = await self._client.call_tool(tool_name, arguments)
        with reading_result(server=server, tool=tool_name):
            result = result_of(raw)
        if result.is_error:
            told = f"Tool {tool_name!r} of server {server!r} failed (执行失败): {error_text(raw)}"
            raise ToolExecutionError(told, result=result)
        return format_tool_result(raw)

    async def close(self) -> None:
        """Close the connection, and the process if there is one; it may be called repeatedly."""
        self._listed_at = None
        self._managed_pids.clear()
        await self._client.close()

    async def reconfigure(self, config: MCPServerConfig | ServerConfig) -> None:
        """Close the connection and use another configuration, unless it is the same.

        Functions that call tools through this client then call the tools of the other server.

        Raises:
            ConfigError: when the configuration cannot be used.
        """
        wanted = _server_config(config)
        if wanted == self.config:
            return
        await self.close()
        self.config = wanted
        self._client = StandaloneClient(wanted)

    def _check_connected(self) -> None:
        if self._client.state == ServerState.COLD:
            raise NotConnectedError(
                f"Server {self.config.name!r} is not connected (未连接). Call `connect()` first.",
                server=self.config.name,
            )

    async def _connect(self) -> None:
        async with self._turn:
            try:
                if not self.is_connected:
                    self._listed_at = None
                # On the background loop, which no caller blocks: a host that blocks the loop from
                # which it connected would otherwise wait for ever.
                await self._client.connect()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._client.close()
                raise


def make_tool_func(
    client: MCPClientWrapper, original_name: str, timeout: float | None
) -> Callable[..., str]:
    """Return a blocking function around an asynchronous call.

    It works in any thread, with or without an event loop. If a call takes too long or loses its
    server, the function returns a text that says so; a failure that the server reports is raised.

    Args:
        client: the client that calls the tool.
        original_name: the server's own name of the tool.
        timeout: how many seconds a call may take; ``None`` uses the client's limit at each call.
    """

    async def call(arguments: dict[str, Any], limit: float) -> str:
        with anyio.fail_after(limit):
            return format_tool_result(await client.call_tool(original_name, arguments))

    def tool_func(**kwargs: Any) -> str:
        limit = client.config.timeouts.call if timeout is None else timeout
        try:
            return run_in_background(lambda: call(kwargs, limit), tool=original_name)
        except TimeoutError:
            late = ToolTimeoutError(original_name, seconds=limit, remedy="raise its `timeout`")
            kind, failure = "timeout", late
        except ToolExecutionError as error:
            kind, failure = "", error
        except ProtocolError as error:
            kind, failure = "", ToolExecutionError(str(error))
            failure.__cause__ = error
        except (UpstreamError, OSError) as error:
            kind, failure = "connection", error
        words = "mcp_call_failed: server=%r tool=%r reason=%s"
        logger.error(words, client.config.name, original_name, failure)
        if kind:
            return f"Error ({kind}): {failure}"
        raise failure

    setattr(tool_func, _CLIENT, client)
    return tool_func


def make_tool_def(
    server_name: str,
    client: MCPClientWrapper,
    mcp_tool: Any,
    workspace_root: str = ".",
    *,
    auto_approved: bool = False,
    scope: str = "",
) -> ToolDef:
    """Return a server's definition of a tool as one of the host.

    Args:
        server_name: the name of the server.
        client: the client that calls the tool, or another object that can.
        mcp_tool: the definition, in the form of the protocol or of an MCP SDK.
        workspace_root: unused; ExcelManus has it.
        auto_approved: whether the host lets it run without a question.
        scope: the ``scope`` of the server.
    """
    original: str = field_of(mcp_tool, "name")
    description: str = field_of(mcp_tool, "description") or ""
    schema = field_of(mcp_tool, "inputSchema", "input_schema")
    parameters = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    config = getattr(client, "config", None)
    limit = None if config else getattr(getattr(client, "_config", None), "timeout", 30)
    return ToolDef(
        name=add_tool_prefix(server_name, original),
        description=f"[MCP:{server_name}] {description}",
        input_schema=parameters,
        func=make_tool_func(client, original, limit),
        async_func=_make_async_tool_func(client, original),
        max_result_chars=getattr(config, "max_result_chars", 5000),
        write_effect=infer_mcp_write_effect(
            original_name=original,
            description=description,
            input_schema=parameters,
            auto_approved=auto_approved,
            scope=scope,
        ),
        consistency="external_unverified",
    )


def client_of(tool: object) -> MCPClientWrapper | None:
    """Return the client that a tool of a host calls; ``None`` if it is not a remote tool."""
    return getattr(getattr(tool, "func", None), _CLIENT, None)


def _make_async_tool_func(
    client: MCPClientWrapper, original_name: str
) -> Callable[..., Coroutine[Any, Any, str]]:
    async def async_tool_func(**kwargs: Any) -> str:
        return format_tool_result(await client.call_tool(original_name, kwargs))

    return async_tool_func


def _server_config(config: MCPServerConfig | ServerConfig) -> ServerConfig:
    return config if isinstance(config, ServerConfig) else config.server_config()
