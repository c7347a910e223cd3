"""One server as ExcelManus sees it: a client, and the blocking functions that call its tools."""

import logging
import reprlib
from collections.abc import Callable
from typing import Any

import anyio

from pegboard.compat.excelmanus.config import MCPServerConfig
from pegboard.compat.loops import in_background
from pegboard.compat.unusual_servers import reading_answer
from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError, ToolExecutionError, ToolTimeoutError, UpstreamError
from pegboard.registry.background_loop import run_in_background
from pegboard.upstream.messages.tool_results import result_of
from pegboard.upstream.standalone import StandaloneClient

__all__ = ["MCPClientWrapper", "client_of", "make_tool_func"]

logger: logging.Logger = logging.getLogger("pegboard.excelmanus")

_CLIENT = "_mcp_client"
"""The attribute that tells whose function it is."""


class MCPClientWrapper:
    """One server: connect, list, call, close, from any task, thread or event loop.

    Besides the configuration of the document it takes a `ServerConfig`, for all the rest that
    Pegboard can reach.
    """

    def __init__(self, config: MCPServerConfig | ServerConfig) -> None:
        self.config: ServerConfig = _server_config(config)
        """The configuration as the core has it."""
        self._client = StandaloneClient(self.config)
        self._tools: list[dict[str, Any]] = []
        self._turn = anyio.Lock()

    @property
    def is_connected(self) -> bool:
        """True while the server is there; false as soon as it has died."""
        return self._client.is_connected

    @property
    def last_error(self) -> str | None:
        """Why the server was last not reached, or lost."""
        return self._client.last_error

    @property
    def tools(self) -> list[dict[str, Any]]:
        """What `discover_tools` found when it was last asked."""
        return self._tools

    async def connect(self) -> None:
        """Start the server, or reach it at its address; nothing happens if it is connected.

        Raises:
            ServerUnavailableError: when that fails, or takes too long.
        """
        await in_background(self._connect)

    async def discover_tools(self) -> list[dict[str, Any]]:
        """Ask for the definitions of all tools, all pages, in the form of the protocol.

        Raises:
            UpstreamError: when the server is not connected, or does not answer well.
        """
        self._tools = await self._client.list_tools()
        return self._tools

    async def call_tool(self, tool_name: str, arguments: dict[str, Any]) -> str:
        """Call a tool by the name the server has for it; the whole result as text.

        Raises:
            ToolTimeoutError: when it took too long.
            ToolExecutionError: when the tool reports a failure.
            UpstreamError: when the server is lost, or answers with a protocol error.
        """
        server = self.config.name
        if logger.isEnabledFor(logging.DEBUG):
            summary = reprlib.repr(arguments)
            logger.debug("mcp_call: server=%r tool=%r arguments=%s", server, tool_name, summary)
        raw = await self._client.call_tool(tool_name, arguments)
        with reading_answer(server=server, tool=tool_name):
            result = result_of(raw)
        return result.raise_for_error().text()

    async def close(self) -> None:
        """End the connection, and the process if there is one; any number of times."""
        await self._client.close()

    async def reconfigure(self, config: MCPServerConfig | ServerConfig) -> None:
        """Close the connection and stand for another server from now on, unless it is the same.

        Functions that call tools through this client call the tools of the other server then.

        Raises:
            ConfigError: when the configuration cannot be used.
        """
        wanted = _server_config(config)
        if wanted == self.config:
            return
        await self.close()
        self.config = wanted
        self._client = StandaloneClient(wanted)

    async def _connect(self) -> None:
        async with self._turn:
            try:
                # On the background loop, which nobody blocks: a host that waits in the very loop
                # from which it connected would otherwise wait for ever.
                await self._client.connect()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._client.close()
                raise


def make_tool_func(
    client: MCPClientWrapper, original_name: str, timeout: float | None
) -> Callable[..., str]:
    """Return a blocking function around an asynchronous call.

    It works in any thread, whether or not an event loop runs in it. A call that takes too long, or
    loses its server, gives a text that says so; a failure that the server reports is raised.

    Args:
        client: who calls the tool.
        original_name: the name the server has for it.
        timeout: how many seconds a call may take; ``None`` asks the client at each call.
    """

    async def call(arguments: dict[str, Any], limit: float) -> str:
        with anyio.fail_after(limit):
            return await client.call_tool(original_name, arguments)

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


def client_of(tool: object) -> MCPClientWrapper | None:
    """Return the client that a tool of a host calls; ``None`` if it is no tool of a server."""
    return getattr(getattr(tool, "func", None), _CLIENT, None)


def _server_config(config: MCPServerConfig | ServerConfig) -> ServerConfig:
    return config if isinstance(config, ServerConfig) else config.server_config()
