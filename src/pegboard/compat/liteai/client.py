"""LiteAI's `McpClient` for a local or remote server, and the objects it returns."""

import copy
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec

from pegboard.compat.server_calls import in_background, reading_result, shown_target
from pegboard.config import OAuthConfig, ServerConfig, Timeouts
from pegboard.errors import ServerUnavailableError
from pegboard.upstream.messages.tool_results import result_of
from pegboard.upstream.standalone import StandaloneClient

__all__ = [
    "ContentBlock",
    "LocalMcpClient",
    "LocalServerParams",
    "McpClient",
    "McpConnectionError",
    "RemoteMcpClient",
    "RemoteServerParams",
    "Tool",
    "ToolResult",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

McpConnectionError: TypeAlias = ServerUnavailableError
"""The error of a client that cannot connect; its ``code`` names the kind of failure."""

# The document sets no limit for a call; a day is the limit for servers that never answer.
_NO_HURRY = Timeouts(call=24 * 60 * 60)


class _WireObject:
    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __getattr__(self, name: str) -> Any:
        # Before the constructor has run, as in a copy, there are no fields.
        fields = self.__dict__.get("_fields", {})
        for key in (name, _camel_case(name)):
            if key in fields:
                return fields[key]
        raise AttributeError(f"This {type(self).__name__} has no field {name!r}.")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        # It is compared by value, and may contain lists and dicts.
        raise TypeError(f"A {type(self).__name__} cannot be a key.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fields!r})"

    def model_dump(self) -> dict[str, Any]:
        """Return everything that the server sent, as a copy."""
        return copy.deepcopy(self._fields)


class Tool(_WireObject):
    """The definition of a tool; `inputSchema` and `input_schema` are the same."""

    @property
    def name(self) -> str:
        """The server's own name of the tool."""
        return self._fields["name"]

    @property
    def description(self) -> str | None:
        """What it does; ``None`` when the server does not say."""
        return self._fields.get("description")

    @property
    def inputSchema(self) -> dict[str, Any]:  # noqa: N802 - as the document spells it
        """The JSON Schema of the arguments."""
        return self._fields.get("inputSchema") or {}

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.inputSchema


class ContentBlock(_WireObject):
    """One block of a result, with exactly the attributes that the server sent."""


class ToolResult(list[Any]):
    """The content blocks of a result; `is_error` is true when the tool reported a failure."""

    def __init__(self, blocks: Iterable[object] = (), *, is_error: bool = False) -> None:
        super().__init__(blocks)
        self.is_error = is_error


class LocalServerParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a server that is started on this machine."""

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
    """The address of a remote server, and its credentials."""

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
    """The interface of a client that a toolset uses."""

    @abstractmethod
    async def connect(self) -> None:
        """Connect unless connected, also again after the connection was lost."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Disconnect, if connected."""

    @abstractmethod
    async def list_tools(self) -> list[Tool]:
        """Return all tools of the server."""

    @abstractmethod
    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None = None
    ) -> ToolResult:
        """Call a tool by the server's own name."""

    @property
    def is_connected(self) -> bool:
        """False when the connection is known to be lost."""
        return True

    @property
    def instructions(self) -> str:
        """The server's instructions for a model."""
        return ""


class _ServerClient(McpClient):
    def __init__(self, config: ServerConfig) -> None:
        self._client = StandaloneClient(config)

    async def connect(self) -> None:
        # On the background loop, because the caller's loop may end before the toolset is used, as
        # in `asyncio.run(toolset.connect())`.
        await in_background(self._client.connect)

    async def disconnect(self) -> None:
        await self._client.close()

    async def list_tools(self) -> list[Tool]:
        return _tools(await self._client.list_tools())

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None = None
    ) -> ToolResult:
        raw = await self._client.call_tool(tool_name, arguments)
        with reading_result(server=self._client.config.name, tool=tool_name):
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
        # A server may send anything, and one bad definition must not hide the other tools.
        try:
            msgspec.convert(raw, _Definition)
        except msgspec.ValidationError as error:
            logger.warning("tool_skipped: the definition is broken (%s): %.200r", error, raw)
        else:
            tools.append(Tool(cast("dict[str, Any]", raw)))
    return tools


class _Definition(msgspec.Struct, rename="camel"):
    """The fields that a tool needs to become a function."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    description: str | None = None
    input_schema: dict[str, Any] | None = None


def _as_text(structured: object) -> list[dict[str, Any]]:
    if structured is None:
        return []
    return [{"type": "text", "text": json.dumps(structured, ensure_ascii=False)}]


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
