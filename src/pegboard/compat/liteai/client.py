"""McpClient: one MCP server, local or remote, as LiteAI talks to it."""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec

from pegboard.compat.liteai.wire import ContentBlock, Tool, ToolResult
from pegboard.compat.loops import in_background
from pegboard.compat.unusual_servers import reading_answer, shown_target
from pegboard.config import OAuthConfig, ServerConfig, Timeouts
from pegboard.errors import ServerUnavailableError
from pegboard.upstream.messages.tool_results import result_of
from pegboard.upstream.standalone import StandaloneClient

__all__ = [
    "LocalMcpClient",
    "LocalServerParams",
    "McpClient",
    "McpConnectionError",
    "RemoteMcpClient",
    "RemoteServerParams",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

McpConnectionError: TypeAlias = ServerUnavailableError
"""Whatever keeps a client from connecting; its ``code`` says which kind of failure it is."""

# The document sets no limit for a call; a day is for servers that will never answer.
_NO_HURRY = Timeouts(call=24 * 60 * 60)


class LocalServerParams(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a server on this machine."""

    command: str
    args: Sequence[str] | None = None
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    timeouts: Timeouts = _NO_HURRY

    def __repr__(self) -> str:
        return f"<LocalServerParams {self._target!r}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Without this, Rich shows every field.
        return [("target", self._target)]

    def config(self, name: str) -> ServerConfig:
        """Return the server as the core of Pegboard knows it."""
        return ServerConfig(
            name=name,
            transport="stdio",
            command=self.command,
            args=tuple(self.args or ()),
            env=self.env or {},
            cwd=self.cwd,
            timeouts=self.timeouts,
        )

    @property
    def _target(self) -> str:
        return shown_target(lambda: self.config("local"))


class RemoteServerParams(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is, and what to show at its door."""

    url: str
    bearer_token: str | None = None
    headers: Mapping[str, str] | None = None
    oauth: OAuthConfig | None = None
    transport: Literal["streamable_http", "sse"] = "streamable_http"
    timeouts: Timeouts = _NO_HURRY

    def __repr__(self) -> str:
        return f"<RemoteServerParams {self._target!r}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Without this, Rich shows every field.
        return [("target", self._target)]

    def config(self, name: str) -> ServerConfig:
        """Return the server as the core of Pegboard knows it."""
        return ServerConfig(
            name=name,
            transport=self.transport,
            url=self.url,
            bearer_token=self.bearer_token,
            headers=self.headers or {},
            oauth=self.oauth,
            timeouts=self.timeouts,
        )

    @property
    def _target(self) -> str:
        return shown_target(lambda: self.config("remote"))


class McpClient(ABC):
    """What a toolset needs of a client."""

    @abstractmethod
    async def connect(self) -> None:
        """Connect, unless connected; also again, after the connection was lost."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Disconnect; also when not connected."""

    @abstractmethod
    async def list_tools(self) -> list[Tool]:
        """Return all tools of the server."""

    @abstractmethod
    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None = None
    ) -> ToolResult:
        """Call a tool by the name the server has for it."""

    @property
    def is_connected(self) -> bool:
        """False when the connection is known to be lost."""
        return True

    @property
    def instructions(self) -> str:
        """What the server says of itself to a model."""
        return ""


class _ServerClient(McpClient):
    def __init__(self, config: ServerConfig) -> None:
        self._client = StandaloneClient(config)

    async def connect(self) -> None:
        # On the background loop, because the caller's may end before the toolset is used: that of
        # `asyncio.run(toolset.connect())` does.
        await in_background(self._client.connect)

    async def disconnect(self) -> None:
        await self._client.close()

    async def list_tools(self) -> list[Tool]:
        return _tools(await self._client.list_tools())

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None = None
    ) -> ToolResult:
        raw = await self._client.call_tool(tool_name, arguments)
        with reading_answer(server=self._client.config.name, tool=tool_name):
            result = result_of(raw)
        blocks = raw.get("content") or _as_text(result.structured_content)
        return ToolResult(map(ContentBlock, blocks), is_error=result.is_error)

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    @property
    def instructions(self) -> str:
        negotiated = self._client.negotiated
        return "" if negotiated is None else negotiated.instructions


class LocalMcpClient(_ServerClient):
    """A client for a server that is a process of this machine."""

    def __init__(self, name: str, params: LocalServerParams) -> None:
        super().__init__(params.config(name))


class RemoteMcpClient(_ServerClient):
    """A client for a server behind HTTP."""

    def __init__(self, name: str, params: RemoteServerParams) -> None:
        super().__init__(params.config(name))


def _tools(found: Iterable[object]) -> list[Tool]:
    tools: list[Tool] = []
    for raw in found:
        # It came over a wire, so it may be anything, and must not cost anybody the other tools.
        try:
            msgspec.convert(raw, _Definition)
        except msgspec.ValidationError as error:
            logger.warning("tool_skipped: the definition is broken (%s): %.200r", error, raw)
        else:
            tools.append(Tool(cast("dict[str, Any]", raw)))
    return tools


class _Definition(msgspec.Struct, rename="camel"):
    """What a tool must have for a function to be made of it."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    description: str | None = None
    input_schema: dict[str, Any] | None = None


def _as_text(structured: object) -> list[dict[str, Any]]:
    if structured is None:
        return []
    return [{"type": "text", "text": json.dumps(structured, ensure_ascii=False)}]
