"""LiteAI's `McpClient` for a local or remote server, and the objects it returns."""

import codecs
import copy
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from pegboard.compat.server_calls import (
    in_background,
    reading_result,
    shown_target,
    starting_program,
)
from pegboard.config import OAuthConfig, ServerConfig, Timeouts
from pegboard.errors import ConfigError, NotConnectedError, ServerUnavailableError
from pegboard.model.result import result_of
from pegboard.model.schema.schema import check_output_schema
from pegboard.model.schema.validator import compile_schema
from pegboard.upstream.standalone import StandaloneClient

__all__ = [
    "ContentBlock",
    "InMemoryTokenStorage",
    "LocalMcpClient",
    "LocalServerParams",
    "McpClient",
    "McpConnectionError",
    "McpSessionNotEstablishedError",
    "McpTool",
    "McpToolResult",
    "OAuthParams",
    "RemoteMcpClient",
    "RemoteServerParams",
    "Tool",
    "ToolResult",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

McpConnectionError: TypeAlias = ServerUnavailableError
"""The error of a client that cannot connect; its ``code`` names the kind of failure."""

# LiteAI sets no limit for a call; a day is the limit for servers that never answer.
_NO_HURRY = Timeouts(call=24 * 60 * 60)


class McpSessionNotEstablishedError(NotConnectedError):
    """The client or the toolset is not connected."""

    def __init__(
        self,
        message: str = "MCP Session not established, please call connect() first.",
        *,
        server: str = "",
    ) -> None:
        super().__init__(message, server=server)


# Fields whose value is an object, too.
_NESTED = {"annotations", "execution", "resource"}


class _WireObject:
    annotations: Any
    meta: dict[str, Any] | None

    def __init__(self, fields: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._fields = {**(fields or {}), **more}

    def __getattr__(self, name: str) -> Any:
        # Before the constructor has run, as in a copy, there are no fields.
        fields: dict[str, Any] = self.__dict__.get("_fields", {})
        for key in (name, _camel_case(name), "_meta" if name == "meta" else name):
            if key in fields:
                is_inner = name in _NESTED and isinstance(fields[key], Mapping)
                return _WireObject(fields[key]) if is_inner else fields[key]
        if any(name in inspect.get_annotations(it) for it in type(self).__mro__):
            # A server may leave it out.
            return None
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

    title: str | None
    outputSchema: dict[str, Any] | None  # noqa: N815 - as the protocol spells it
    icons: list[Any] | None
    execution: Any

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


class ToolResult(NamedTuple):
    """The result of a call: whether the tool reported a failure, and its content blocks."""

    is_error: bool
    content: list[Any]


McpTool: TypeAlias = Tool
"""The definition of a tool of a server."""

McpToolResult: TypeAlias = ToolResult
"""The result of a call."""


class InMemoryTokenStorage:
    """Keeps a login until the program ends. Another storage has the same four methods."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client_info: Any = None

    async def get_tokens(self) -> Any:
        """Return the tokens of the last login."""
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        """Keep the tokens of a login."""
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        """Return how this client is registered."""
        return self.client_info

    async def set_client_info(self, client_info: Any) -> None:
        """Keep how this client is registered."""
        self.client_info = client_info


@dataclass
class OAuthParams:
    """How to log in to a remote server with a browser."""

    oauth_scopes: list[str] | None = None
    oauth_timeout: int = 120
    """How many seconds the user may take to log in."""
    oauth_token_storage: Annotated[Any, Field(exclude=True)] = field(
        default_factory=InMemoryTokenStorage, repr=False
    )


class _ServerParams(BaseModel):
    # A message about a wrong value must not show a token beside it.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, hide_input_in_errors=True
    )

    timeouts: Timeouts = Field(default=_NO_HURRY, exclude=True)

    def config(self, name: str) -> ServerConfig:
        """Return the server as the core of Pegboard knows it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._target!r}>"

    __str__ = __repr__

    def __rich_repr__(self) -> Iterable[Any]:
        # Without this, Rich shows every field.
        return [("target", self._target)]

    @property
    def _target(self) -> str:
        return shown_target(lambda: self.config("server"))


class StdioServerParameters(_ServerParams):
    """The parameters of a server that is started on this machine."""

    command: str
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, str] | None = None
    cwd: str | Path | None = None
    encoding: str = "utf-8"
    """The protocol knows UTF-8 alone; a connection with another encoding is refused."""
    encoding_error_handler: Literal["strict", "ignore", "replace"] = "strict"

    def config(self, name: str) -> ServerConfig:
        """Return the server as the core of Pegboard knows it.

        Raises:
            ConfigError: when its encoding is not UTF-8.
        """
        if codecs.lookup(self.encoding).name != "utf-8":
            raise ConfigError(
                f"Server {name!r} cannot be used with the encoding {self.encoding!r}: MCP is UTF-8."
            )
        return ServerConfig(
            name=name,
            transport="stdio",
            command=self.command,
            args=tuple(self.args),
            env=self.env or {},
            cwd=None if self.cwd is None else str(self.cwd),
            timeouts=self.timeouts,
        )


LocalServerParams: TypeAlias = StdioServerParameters
"""The parameters of a local server. LiteAI takes the class, and its name, from the MCP SDK."""


class RemoteServerParams(_ServerParams):
    """The address of a remote server, and its credentials."""

    url: str
    bearer_token: str | None = None
    oauth_params: OAuthParams | OAuthConfig | None = None
    """An `OAuthConfig` logs in as Pegboard does, for instance with client credentials."""
    http_headers: dict[str, str] | None = None
    transport: Literal["streamable_http", "sse"] = Field(default="streamable_http", exclude=True)

    def config(self, name: str) -> ServerConfig:
        """Return the server as the core of Pegboard knows it."""
        oauth = self.oauth_params
        if isinstance(oauth, OAuthParams):
            scopes = tuple(oauth.oauth_scopes or ())
            oauth = OAuthConfig(scopes=scopes, login_timeout=oauth.oauth_timeout)
        return ServerConfig(
            name=name,
            transport=self.transport,
            url=self.url,
            bearer_token=self.bearer_token,
            headers=self.http_headers or {},
            oauth=oauth,
            timeouts=self.timeouts,
        )


class McpClient(ABC):
    """The interface of a client that a toolset uses."""

    @property
    def name(self) -> str:
        """The name of the server; the tools of a toolset begin with it."""
        return type(self).__name__

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
    _storage: Any = None

    def __init__(self, name: str, params: _ServerParams) -> None:
        self._name = name
        self._params = params
        self._client: StandaloneClient | None = None
        self._outputs: dict[str, dict[str, Any]] = {}

    @property
    def name(self) -> str:
        return self._name

    async def connect(self) -> None:
        if self._client is None:
            config = self._params.config(self._name)
            self._client = StandaloneClient(config, token_storage=self._storage)
        try:
            # On the background loop, because the caller's loop may end before the toolset is
            # used, as in `asyncio.run(toolset.connect())`.
            await in_background(self._client.connect)
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def list_tools(self) -> list[Tool]:
        tools = _tools(await self._connected().list_tools())
        self._outputs = {it.name: it.outputSchema for it in tools if it.outputSchema is not None}
        return tools

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None = None
    ) -> ToolResult:
        raw = await self._connected().call_tool(tool_name, arguments)
        with reading_result(server=self._name, tool=tool_name):
            is_error = result_of(raw).is_error
            if not is_error and tool_name in self._outputs:
                # As the MCP SDK did for LiteAI: a result that breaks its schema is an error.
                schema = self._outputs[tool_name]
                check_output_schema(schema, tool=tool_name)
                compile_schema(schema).validate(raw.get("structuredContent"))
        return ToolResult(is_error, [ContentBlock(it) for it in raw.get("content") or ()])

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def instructions(self) -> str:
        negotiated = None if self._client is None else self._client.negotiated
        return "" if negotiated is None else negotiated.instructions

    def _connected(self) -> StandaloneClient:
        if self._client is None:
            raise McpSessionNotEstablishedError(server=self._name)
        return self._client


class LocalMcpClient(_ServerClient):
    """A client for a server that is a process of this machine."""

    def __init__(self, name: str, params: LocalServerParams) -> None:
        # Also the SDK's own class, which a program may have taken from there.
        self._local = LocalServerParams.model_validate(params, from_attributes=True)
        super().__init__(name, self._local)

    async def connect(self) -> None:
        """Start the program and connect, unless connected."""
        async with starting_program(self._local.config(self.name)):
            await super().connect()


class RemoteMcpClient(_ServerClient):
    """A client for a server behind HTTP.

    ``storage`` is where the tokens of a login are, instead of in ``params.oauth_params``.
    """

    def __init__(self, name: str, params: RemoteServerParams, storage: Any = None) -> None:
        super().__init__(name, params)
        if isinstance(params.oauth_params, OAuthParams):
            if storage is not None:
                params.oauth_params.oauth_token_storage = storage
            self._storage = params.oauth_params.oauth_token_storage


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


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
