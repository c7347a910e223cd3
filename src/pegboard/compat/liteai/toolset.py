"""LiteAI's toolsets: the tools of one MCP server, or the methods of a Python class."""

import dataclasses
import inspect
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, ClassVar, Self, TypedDict, TypeVar, Unpack

import anyio
from pydantic import AnyUrl, ValidationError

from pegboard.compat.liteai.client import (
    LocalMcpClient,
    LocalServerParams,
    McpClient,
    McpSessionNotEstablishedError,
    RemoteMcpClient,
    RemoteServerParams,
    Tool,
    ToolResult,
)
from pegboard.compat.liteai.prepare import TOOL_FLAG, ToolDef
from pegboard.compat.server_calls import Turns

__all__ = [
    "LocalMcpToolset",
    "McpToolDef",
    "McpToolset",
    "PythonToolset",
    "RemoteMcpToolset",
    "Toolset",
    "ToolsetOptions",
    "python_tool",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

F = TypeVar("F", bound=Callable[..., Any])


class ToolsetOptions(TypedDict, total=False):
    """Options of a toolset besides its server."""

    tool_filter: Callable[[Tool], bool] | None
    """Tells which tools of the server to offer."""
    tool_prefix: str
    """The prefix of the name of each function; the server never sees it."""
    auto_reconnect: bool
    """When a call fails, connect again and repeat the call once, even if it may have run."""


class _Namespace(ABC):
    @property
    @abstractmethod
    def name(self) -> str:
        """The namespace of the tools."""

    def format_tool_name(self, tool_name: str) -> str:
        """Return the name by which a model calls a tool: ``{toolset}__{tool}``."""
        return f"{self.name}__{tool_name}"


class Toolset(_Namespace):
    """Several tools under one name. An `McpToolset` counts as one, too."""

    @abstractmethod
    def get_tools(self) -> list[ToolDef]:
        """Return the tools."""


def python_tool(func: F) -> F:
    """Mark a method of a `PythonToolset` as a tool."""
    setattr(func, TOOL_FLAG, True)
    return func


class PythonToolset(Toolset):
    """A class whose methods are tools: those that `python_tool` marks."""

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def get_tools(self, namespaced_tool_name: bool = True) -> list[ToolDef]:  # noqa: FBT001, FBT002 - as LiteAI has it
        """Return a tool for each marked method, ordered by name."""
        methods = [it for _, it in inspect.getmembers(self, inspect.ismethod)]
        tools = [ToolDef.from_tool_fn(it) for it in methods if getattr(it, TOOL_FLAG, False)]
        for tool in tools:
            tool.name = self.format_tool_name(tool.name) if namespaced_tool_name else tool.name
        return tools


@dataclasses.dataclass(repr=False, eq=False)
class McpToolDef(ToolDef):
    """A `ToolDef`, as LiteAI has it, and the coroutine function that its document describes.

    Its ``name`` is LiteAI's, its ``__name__`` the document's: the server's own, after the prefix.
    """

    namespaced_name: ClassVar[str | None] = None
    """While this is its ``name``, a model is given the ``__name__`` instead."""

    def __post_init__(self) -> None:
        self.__signature__: inspect.Signature = inspect.signature(self.execute)
        # `inspect` takes an object with these for a function.
        for name in ("__code__", "__defaults__", "__kwdefaults__", "__doc__"):
            setattr(self, name, getattr(self.execute, name, None))
        setattr(self, TOOL_FLAG, True)

    @property
    def __name__(self) -> str:
        return self.execute.__qualname__

    @property
    def _mcp_tool(self) -> Tool:
        return vars(self.execute)["_mcp_tool"]

    def __call__(self, /, **kwargs: Any) -> Coroutine[Any, Any, str]:
        """Call the tool on its server."""
        return self.execute(**kwargs)


# A user who prints it sees a `ToolDef`.
McpToolDef.__name__ = McpToolDef.__qualname__ = "ToolDef"  # pyright: ignore[reportAttributeAccessIssue]


class McpToolset(_Namespace):
    """The tools of one MCP server: `connect`, then `get_tools`.

    Give it a client, or derive from it and write `_create_client`. Connections of our own clients
    run on Pegboard's background loop, so the tools can be called from any event loop, or without
    one by `execute_tool_sync`.
    """

    def __init__(
        self,
        client: McpClient | None = None,
        *,
        tool_filter: Callable[[Tool], bool] | None = None,
        tool_prefix: str = "",
        auto_reconnect: bool = False,
    ) -> None:
        if client is None and type(self)._create_client is McpToolset._create_client:
            raise TypeError(f"{type(self).__name__} needs a `client`, or a `_create_client`.")
        self._name: str | None = None
        self._given = client
        self._client = client
        self._tools_cache: list[McpToolDef] | None = None
        self._connected = False
        self._tool_filter = tool_filter
        self._tool_prefix = tool_prefix
        self._auto_reconnect = auto_reconnect
        self._turns = Turns()

    def _create_client(self) -> McpClient:
        """Return a new client, not connected yet; a toolset without a client has to write it."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the server."""
        if self._name is not None:
            return self._name
        return type(self).__name__ if self._client is None else self._client.name

    @property
    def is_connected(self) -> bool:
        """True from `connect` to `disconnect`, unless the server was lost meanwhile."""
        return self._connected and self._client is not None and self._client.is_connected

    @property
    def description(self) -> str:
        """The server's instructions for a model; empty before `connect`."""
        return "" if self._client is None else self._client.instructions

    async def connect(self) -> None:
        """Connect and fetch the list of tools, unless connected; a given client is asked again.

        Raises:
            ServerUnavailableError: when the server cannot be started or reached.
        """
        async with self._turns.next():
            if self._given is None:
                if self.is_connected:
                    return
                await self._drop_client()
                self._client = self._create_client()
            assert self._client is not None
            try:
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
                error = await self._drop_client()
                if error is not None and self._given is not None:
                    raise error

    async def refresh_tools(self) -> None:
        """Fetch the list of tools again.

        Raises:
            RuntimeError: when not connected.
        """
        client = self._client
        if client is None:
            raise self._not_connected("Not connected to MCP server. Call await connect() first.")
        tools = await client.list_tools()
        if self._tool_filter is not None:
            tools = [tool for tool in tools if self._tool_filter(tool)]
        if self._client is client:
            self._tools_cache = [self._create_tool_wrapper(tool) for tool in tools]

    def get_tools(self, namespaced_tool_name: bool | None = None) -> list[McpToolDef]:  # noqa: FBT001 - as LiteAI has it
        """Return the tools. Each is a `ToolDef`, and also a coroutine function.

        Args:
            namespaced_tool_name: ``True`` lets a model call them ``{toolset}__{tool}``. By default
                this is only the ``name``, and the document's `prepare_tools` gives a model the
                server's own name.

        Raises:
            RuntimeError: before `connect`.
        """
        if self._tools_cache is None:
            words = f"Call await {type(self).__name__}(...).connect() first."
            raise self._not_connected(f"Not connected to MCP server. {words}")
        if namespaced_tool_name is False:
            return list(self._tools_cache)
        tools = [
            dataclasses.replace(tool, name=self.format_tool_name(tool.name))
            for tool in self._tools_cache
        ]
        if namespaced_tool_name is None:
            for tool in tools:
                vars(tool)["namespaced_name"] = tool.name
        return tools

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

    def _create_tool_wrapper(self, mcp_tool: Tool) -> McpToolDef:
        async def wrapper(**kwargs: Any) -> str:
            result = await self._call_with_retry(mcp_tool.name, kwargs)
            return self._format_tool_result(result)

        wrapper.__qualname__ = name = f"{self._tool_prefix}{mcp_tool.name}"
        wrapper.__doc__ = words = mcp_tool.description or f"MCP tool: {mcp_tool.name}"
        wrapper._mcp_tool = mcp_tool  # pyright: ignore[reportFunctionMemberAccess]
        return McpToolDef(name, words, wrapper, mcp_tool.inputSchema)

    async def _call_with_retry(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        client = self._client
        if client is None:
            name = type(self).__name__
            raise self._not_connected(
                f"MCP Toolset not connected. Call await {name}.connect() first."
            )
        try:
            return await client.call_tool(tool_name, arguments)
        except Exception:
            # A caller that disconnected on purpose does not want the connection back.
            if not self._auto_reconnect or not self._connected:
                raise
            client = await self._reconnected(tool_name)
            return await client.call_tool(tool_name, arguments)

    async def _reconnected(self, tool_name: str) -> McpClient:
        async with self._turns.next(tool=tool_name):
            client = self._client
            if client is None or not self._connected:
                raise self._not_connected("MCP Toolset was disconnected during the call.")
            await client.connect()
            return client

    def _not_connected(self, words: str) -> McpSessionNotEstablishedError:
        return McpSessionNotEstablishedError(words, server=self.name)

    def _format_tool_result(self, result: Any) -> str:
        if not hasattr(result, "is_error"):
            # The client of the document returns the blocks themselves.
            return "\n".join(_text_or_json(block) for block in result)
        parts = ["Error executing tool:"] if result.is_error else []
        return "\n\n".join(parts + [it for it in map(_text_of, result.content) if it is not None])

    async def _drop_client(self) -> Exception | None:
        client, self._client = self._client, self._given
        self._tools_cache = None
        self._connected = False
        if client is None:
            return None
        try:
            with anyio.CancelScope(shield=True):
                await client.disconnect()
        except Exception as error:
            # The toolset is disconnected either way.
            logger.exception("disconnect_failed: toolset=%r", self.name)
            return error
        return None


Toolset.register(McpToolset)


class LocalMcpToolset(McpToolset):
    """The tools of a server that is a process of this machine."""

    def __init__(
        self, name: str, params: LocalServerParams, **options: Unpack[ToolsetOptions]
    ) -> None:
        super().__init__(**options)
        self._name = name
        self._params = params

    def _create_client(self) -> McpClient:
        return LocalMcpClient(self.name, self._params)


class RemoteMcpToolset(McpToolset):
    """The tools of a server behind HTTP."""

    def __init__(
        self, name: str, params: RemoteServerParams, **options: Unpack[ToolsetOptions]
    ) -> None:
        super().__init__(**options)
        self._name = name
        self._params = params

    def _create_client(self) -> McpClient:
        return RemoteMcpClient(self.name, self._params)


def _text_of(block: Any) -> str | None:
    """Return what a model reads of a block; ``None`` for a block of an unknown type."""
    field = _fields_of(block)
    match field("type"):
        case "text":
            return field("text")
        case "image" | "audio" as kind:
            return f"[Generated {kind.title()}: {field('mimeType')}]"
        case "resource_link":
            lines = {
                "Resource Reference: {}": _normal(field("uri")),
                "Type: {}": field("mimeType"),
                "Size: {} bytes": field("size"),
                "Description: {}": field("description"),
            }
            return "\n".join(words.format(it) for words, it in lines.items() if it)
        case "resource":
            inner = _fields_of(field("resource"))
            text = inner("text")
            words = f"[Binary data: {inner('mimeType')}]" if text is None else text
            return f"Resource ({_normal(inner('uri'))}):\n{words}"
        case kind:
            logger.warning("unknown_block: a model does not see a block of type %r", kind)
            return None


def _fields_of(block: Any) -> Callable[[str], Any]:
    """Return a function that reads a field of a block of ours, or of either MCP SDK."""

    def field(name: str) -> Any:
        other = {"mimeType": "mime_type"}.get(name, name)
        return getattr(block, name, getattr(block, other, None))

    return field


def _normal(uri: object) -> str:
    # LiteAI's objects hold URIs in this form: a host in small letters, a path, no spaces.
    with suppress(ValidationError):
        return str(AnyUrl(str(uri)))
    return str(uri)


def _text_or_json(block: Any) -> str:
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return text
    dump = getattr(block, "model_dump", None)
    fields = dump() if callable(dump) else block
    return json.dumps(fields, ensure_ascii=False, default=str)
