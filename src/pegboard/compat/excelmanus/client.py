"""ExcelManus's client of one server, and its tools as the host has them: names, calls, texts."""

import json
import logging
import re
import reprlib
from collections.abc import Callable, Coroutine, Mapping
from time import monotonic
from typing import Any, cast

import anyio

from pegboard.compat.excelmanus.config import MCPServerConfig
from pegboard.compat.excelmanus.tools import ToolDef, WriteEffect
from pegboard.compat.server_calls import in_background, reading_result
from pegboard.config import ServerConfig
from pegboard.errors import (
    NotConnectedError,
    ProtocolError,
    ToolExecutionError,
    ToolTimeoutError,
    UpstreamError,
)
from pegboard.model.result import result_of
from pegboard.model.tool_names import mcp
from pegboard.registry.background_loop import run_in_background
from pegboard.upstream.connection import ServerState
from pegboard.upstream.standalone import StandaloneClient

__all__ = [
    "MCPClientWrapper",
    "add_tool_prefix",
    "client_of",
    "format_tool_result",
    "infer_mcp_write_effect",
    "make_tool_def",
    "make_tool_func",
    "normalize_server_name",
    "parse_tool_prefix",
    "prefixed_names",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

_CLIENT = "_mcp_client"
"""The attribute of a function that names its client."""
prefixed_names: dict[str, tuple[str, str]] = {}
"""Names that `add_tool_prefix` made: the server, with `_` for `-`, and the tool's own name."""

_PREFIX = "mcp_"
# fmt: off
_WRITING = {
    "append", "commit", "copy", "create", "delete", "destroy", "drop", "edit", "insert", "modify",
    "move", "mutate", "patch", "post", "publish", "put", "remove", "rename", "replace", "save",
    "send", "update", "upload", "write",
}
# fmt: on
_WRITING_IN_CHINESE = ("写入", "删除", "更新", "创建", "保存", "修改", "重命名")
_OUTSIDE = {"email", "http", "https", "slack", "smtp", "telegram", "tweet", "url", "webhook"}
_READING_SCOPES = ("search", "readonly", "read-only", "read")


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
            whose = f"Tool {tool_name!r} of server {server!r}"
            reason = _extract_error_text(raw)
            raise ToolExecutionError(f"{whose} failed (执行失败): {reason}", result=result)
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
        # A client of another kind has no configuration.
        config: ServerConfig | None = getattr(client, "config", None)
        # A server may repeat a token that it was given.
        reason = str(failure) if config is None else config.redact(str(failure))
        logger.error(words, config and config.name, original_name, reason)
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
    original: str = _field(mcp_tool, "name")
    description: str = _field(mcp_tool, "description") or ""
    schema = _field(mcp_tool, "inputSchema", "input_schema")
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


def normalize_server_name(server_name: str) -> str:
    """Return a server's name as it stands in the names of its tools."""
    return server_name.replace("-", "_")


def add_tool_prefix(server_name: str, tool_name: str) -> str:
    """Return the name by which a tool is registered, and remember where it came from."""
    prefixed = mcp(server_name, tool_name)
    prefixed_names[prefixed] = (normalize_server_name(server_name), tool_name)
    return prefixed


def parse_tool_prefix(prefixed_name: str) -> tuple[str, str]:
    """Return the server, with `_` for `-`, and the tool's own name.

    A name that `add_tool_prefix` did not make is split at its second `_`. `MCPManager.origin`
    tells the server's name as it is written.

    Raises:
        ValueError: when it is not the name of a remote tool.
    """
    if not prefixed_name.startswith(_PREFIX):
        raise ValueError(f"Tool name {prefixed_name!r} has no prefix (不以 '{_PREFIX}' 开头).")
    if prefixed_name in prefixed_names:
        return prefixed_names[prefixed_name]
    server, underscore, tool = prefixed_name.removeprefix(_PREFIX).partition("_")
    if not server or not underscore:
        raise ValueError(f"Tool name {prefixed_name!r} is not `mcp_SERVER_TOOL` (格式不合法).")
    return server, tool


def format_tool_result(mcp_result: Any) -> str:
    """Return a result as text: its texts, else its structured content, else what blocks it has.

    It takes a result of an MCP SDK, one in the form of the protocol, or a text, which it returns.
    """
    if isinstance(mcp_result, str):
        return mcp_result
    texts: list[str] = []
    others: list[str] = []
    for block in _field(mcp_result, "content") or ():
        form = _field(block, "type")
        if form == "text":
            texts.append(_text_of(block))
        elif form == "resource":
            others.append(_shown_resource(_field(block, "resource")))
        elif form:
            others.append(f"[{form} content]")
    if any(texts):
        return "\n".join(filter(None, texts))
    structured = _field(mcp_result, "structuredContent", "structured_content")
    if structured in (None, ""):
        return "\n".join(others)
    try:
        return json.dumps(structured, ensure_ascii=False, indent=2, sort_keys=True)
    except TypeError:
        return str(structured)


def infer_mcp_write_effect(
    *,
    original_name: str,
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    auto_approved: bool = False,
    scope: str = "",
) -> WriteEffect:
    """Guess from its words what a call of a tool changes; only a scope makes it read-only.

    Args:
        original_name: the server's own name of the tool.
        description: the server's description.
        input_schema: its properties count as words, too.
        auto_approved: changes nothing; a tool may write without being asked about.
        scope: the ``scope`` of the server.
    """
    properties = input_schema.get("properties") if isinstance(input_schema, dict) else None
    named = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    text = " ".join([original_name, description, *named])
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).replace("_", " ").lower()
    words = set(re.findall(r"\w+", spaced))
    if words & _WRITING or any(it in description for it in _WRITING_IN_CHINESE):
        return "external_write" if words & _OUTSIDE else "workspace_write"
    return "none" if scope.strip().lower().replace("_", "-") in _READING_SCOPES else "unknown"


def _make_async_tool_func(
    client: MCPClientWrapper, original_name: str
) -> Callable[..., Coroutine[Any, Any, str]]:
    async def async_tool_func(**kwargs: Any) -> str:
        return format_tool_result(await client.call_tool(original_name, kwargs))

    return async_tool_func


def _server_config(config: MCPServerConfig | ServerConfig) -> ServerConfig:
    return config if isinstance(config, ServerConfig) else config.server_config()


def _extract_error_text(mcp_result: Any) -> str:
    blocks = _field(mcp_result, "content") or ()
    texts = [_text_of(block) for block in blocks if _field(block, "type") == "text"]
    return "\n".join(filter(None, texts)) or "未知错误"


def _field(thing: Any, *names: str) -> Any:
    # A value of the protocol, or an object of an MCP SDK.
    if isinstance(thing, Mapping):
        fields = cast("Mapping[str, Any]", thing)
        found = (fields.get(name) for name in names)
    else:
        found = (getattr(thing, name, None) for name in names)
    return next((it for it in found if it is not None), None)


def _text_of(block: Any) -> str:
    text = _field(block, "text")
    return text if isinstance(text, str) else ""


def _shown_resource(resource: Any) -> str:
    if text := _text_of(resource).strip():
        return text
    uri, kind = _field(resource, "uri"), _field(resource, "mimeType", "mime_type")
    words = ["resource", f"uri={uri}" if uri else "", f"mime={kind}" if kind else ""]
    return f"[{' '.join(filter(None, words))}]"
