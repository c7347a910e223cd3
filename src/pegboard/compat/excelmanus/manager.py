"""ExcelManus's `MCPManager`: connect all servers, and register their tools with the host."""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any, Literal, TypedDict, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from pegboard.compat.excelmanus.client import (
    MCPClientWrapper,
    add_tool_prefix,
    client_of,
    format_tool_result,
    infer_mcp_write_effect,
    make_tool_def,
    make_tool_func,
    normalize_server_name,
    parse_tool_prefix,
    prefixed_names,
)
from pegboard.compat.excelmanus.config import MCPServerConfig, read_servers
from pegboard.compat.excelmanus.tools import HostRegistry, ToolDef, ToolRegistry, for_host
from pegboard.compat.server_calls import in_background
from pegboard.config import ServerConfig
from pegboard.errors import InvalidToolError, ToolNotFoundError
from pegboard.model import ArgumentSchema, Tool
from pegboard.model.tool_names import mcp, nearest_names

__all__ = [
    "MCPManager",
    "ServerInfo",
    "ServerStatus",
    "add_tool_prefix",
    "format_tool_result",
    "infer_mcp_write_effect",
    "make_tool_def",
    "parse_tool_prefix",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

# ExcelManus's own tests, and the document, know these by private names of this module.
_make_tool_func = make_tool_func
_normalize_server_name = normalize_server_name
_prefix_registry = prefixed_names

ServerStatus = Literal["ready", "connect_failed", "discover_failed", "disconnected"]
"""Connected, not reached, reached without a list of tools, or lost or closed."""


class ServerInfo(TypedDict):
    """The state of a server, from `MCPManager.get_server_info`."""

    name: str
    transport: str
    status: ServerStatus
    tool_count: int
    tools: list[str]
    """The server's own names of its tools that are registered."""
    last_error: str | None
    init_ms: int


class _Attempt:
    """The last attempt to connect one server."""

    def __init__(self) -> None:
        self.transport = ""
        self.failure: ServerStatus | None = None
        self.error: str | None = None
        self.init_ms = 0


class MCPManager:
    """All servers of a host, and their tools in its registry.

    Args:
        workspace_root: the folder where `mcp.json` is searched for.
        app_config: unused; ExcelManus adds servers of its own by it.
        servers: use these instead of a file.
    """

    def __init__(
        self,
        workspace_root: str = ".",
        *,
        app_config: object = None,
        servers: Iterable[MCPServerConfig | ServerConfig] | None = None,
    ) -> None:
        self._workspace_root = workspace_root
        self._servers = None if servers is None else list(servers)
        self._wanted: dict[str, MCPServerConfig | ServerConfig] = {}
        self._clients: dict[str, MCPClientWrapper] = {}
        self._attempts: dict[str, _Attempt] = {}
        self._origins: dict[str, tuple[str, str]] = {}
        self._turn = anyio.Lock()
        self._connecting: anyio.CancelScope | None = None
        self._registering = threading.Lock()
        self._initialized = False

    @property
    def connected_servers(self) -> list[str]:
        """The names of the servers that are connected now."""
        return [name for name, client in list(self._clients.items()) if client.is_connected]

    @property
    def is_initialized(self) -> bool:
        """True from the time that `initialize` has connected to its servers until `shutdown`."""
        return self._initialized

    @property
    def auto_approved_tools(self) -> list[str]:
        """The registered tools that ``autoApprove`` of their server names."""
        found = self._registered()
        return [
            name for name, original, it in found if {"*", original}.intersection(it.auto_approve)
        ]

    @property
    def tool_scopes(self) -> dict[str, str]:
        """The ``scope`` of its server for each registered tool."""
        return {name: it.scope for name, _, it in self._registered()}

    async def initialize(self, registry: HostRegistry) -> None:
        """Connect to all servers at once and register their tools; never fails because of one.

        Once more, it reads the file again: it closes servers that are no longer there, begins anew
        with those that changed, tries those again that failed or were lost, and leaves the others
        alone. A file that cannot be used changes nothing. What servers offer by then takes the
        place of what they offered before in a `ToolRegistry`; a registry of the host's own keeps
        what it has, and gets what is new.
        """
        await in_background(self._connect_all)
        with self._registering:
            # First those that leave: another one may want a name of theirs.
            for name, client in sorted(self._clients.items(), key=lambda it: it[0] in self._wanted):
                if client.is_connected or name not in self._wanted:
                    self._register(registry, name, client)
        if self._wanted:
            ready, tools = len(self.connected_servers), len(self._origins)
            words = "mcp_initialized: %d of %d servers are ready, %d tools are registered"
            logger.info(words, ready, len(self._wanted), tools)

    async def shutdown(self) -> None:
        """Close all connections, even if one of them fails; `initialize` may follow again."""
        await in_background(self._close_all)

    def get_server_info(self) -> list[ServerInfo]:
        """Return the state of each server by name, also of those that failed."""
        return [self._info(name, attempt) for name, attempt in sorted(self._attempts.items())]

    def origin(self, tool_name: str) -> tuple[str, str]:
        """Return the server and the original name of a tool that was registered.

        Raises:
            ToolNotFoundError: when no remote tool has this name.
        """
        found = self._origins.get(tool_name)
        if found is None:
            raise ToolNotFoundError(tool_name, nearest=nearest_names(tool_name, self._origins))
        return found

    async def _connect_all(self) -> None:
        async with self._turn:
            async with anyio.create_task_group() as group:
                await self._start_connecting(group)
            self._initialized = not group.cancel_scope.cancel_called

    async def _start_connecting(self, group: TaskGroup) -> None:
        self._connecting = group.cancel_scope
        found = await anyio.to_thread.run_sync(self._load)
        # By name: of two connections for one name, one would never be closed.
        self._wanted = {config.name: config for config in found}
        await self._close_unwanted()
        for config in self._wanted.values():
            group.start_soon(self._connect_one, config)

    def _load(self) -> Iterable[MCPServerConfig | ServerConfig]:
        if self._servers is not None:
            return self._servers
        found = read_servers(workspace_root=self._workspace_root)
        return self._wanted.values() if found is None else found

    async def _close_unwanted(self) -> None:
        # Before others start: one of them may be the same server under another name.
        for name in self._attempts.keys() - self._wanted.keys():
            del self._attempts[name]
        async with anyio.create_task_group() as group:
            for name in self._clients.keys() - self._wanted.keys():
                group.start_soon(self._close, name, self._clients[name])

    async def _client_for(self, config: MCPServerConfig | ServerConfig) -> MCPClientWrapper:
        client = self._clients.get(config.name)
        if client is None:
            client = self._clients[config.name] = MCPClientWrapper(config)
        else:
            # Not a new one: functions that were given out belong to it.
            await client.reconfigure(config)
        return client

    async def _connect_one(self, config: MCPServerConfig | ServerConfig) -> None:
        attempt = self._attempts.setdefault(config.name, _Attempt())
        attempt.transport = config.transport
        began = monotonic()
        stage: ServerStatus = "connect_failed"
        try:
            client = await self._client_for(config)
            if client.is_connected:
                return
            await client.connect()
            stage = "discover_failed"
            tools = await client.discover_tools()
        except Exception as error:  # noqa: BLE001 - one server must not cost the others
            attempt.failure, attempt.error = stage, str(error)
        else:
            attempt.failure = attempt.error = None
            logger.info("mcp_connected: server=%r tools=%d", config.name, len(tools))
            return
        finally:
            attempt.init_ms = round((monotonic() - began) * 1000)
        logger.error("mcp_%s: server=%r reason=%s", stage, config.name, attempt.error)
        failed = self._clients.get(config.name)
        if failed is not None:
            await self._close(config.name, failed)

    def _register(self, registry: HostRegistry, server: str, client: MCPClientWrapper) -> None:
        offered, origins = self._offered(server, client)
        self._forget_all_but(origins, server)
        outdated = _outdated(registry, client, offered)
        found: list[ToolDef] = []
        for name, made in offered.items():
            origin, there = origins[name], _tool_of(registry, name)
            is_ours = self._origins.get(name, origin) == origin
            if is_ours and (there is None or name in outdated):
                found.append(made)
            elif not is_ours or client_of(there) is not client:
                reason = "mcp_tool_skipped: the name %r is taken (冲突); server=%r tool=%r"
                logger.warning(reason, name, *origin)
        try:
            if isinstance(registry, ToolRegistry):
                registry.register_tools(found, replacing=outdated)
            elif found:
                registry.register_tools([for_host(made, registry) for made in found])
        except Exception:
            logger.exception("mcp_register_failed: server=%r", server)
        else:
            self._origins.update({made.name: origins[made.name] for made in found})

    def _offered(
        self, server: str, client: MCPClientWrapper
    ) -> tuple[dict[str, ToolDef], dict[str, tuple[str, str]]]:
        offered: dict[str, ToolDef] = {}
        origins: dict[str, tuple[str, str]] = {}
        for tool in client.tools if server in self._wanted else ():
            made = self._make_tool_def(server, client, tool)
            if made is not None:
                offered[made.name] = made
                origins[made.name] = (server, tool["name"])
        return offered, origins

    def _forget_all_but(self, kept: Iterable[str], server: str) -> None:
        known = [name for name, origin in self._origins.items() if origin[0] == server]
        for name in set(known).difference(kept):
            del self._origins[name]

    def _make_tool_def(
        self, server_name: str, client: MCPClientWrapper, tool: dict[str, Any]
    ) -> ToolDef | None:
        """Return a definition of the protocol as one of the host; ``None`` if it is broken."""
        config = self._wanted.get(server_name)
        scope = config.scope if isinstance(config, MCPServerConfig) else ""
        try:
            _check(server_name, tool)
            return make_tool_def(server_name, client, tool, scope=scope)
        except InvalidToolError as error:
            problem = str(error)
        logger.warning(
            "mcp_tool_skipped: server=%r: %s", server_name, client.config.redact(problem)
        )
        return None

    async def _close_all(self) -> None:
        # A server that is still connecting would otherwise be connected after this.
        if self._connecting is not None:
            self._connecting.cancel()
        async with self._turn:
            async with anyio.create_task_group() as group:
                for name, client in self._clients.items():
                    group.start_soon(self._close, name, client)
            self._attempts.clear()
            self._initialized = False

    async def _close(self, name: str, client: MCPClientWrapper) -> None:
        try:
            await client.close()
        except Exception:
            logger.warning("mcp_close_failed (关闭): server=%r", name, exc_info=True)

    def _info(self, name: str, attempt: _Attempt) -> ServerInfo:
        client = self._clients.get(name)
        is_connected = client is not None and client.is_connected
        tools = [tool for server, tool in list(self._origins.values()) if server == name]
        return ServerInfo(
            name=name,
            transport=attempt.transport,
            status=attempt.failure or ("ready" if is_connected else "disconnected"),
            tool_count=len(tools),
            tools=tools,
            last_error=attempt.error or (client.last_error if client is not None else None),
            init_ms=attempt.init_ms,
        )

    def _registered(self) -> Iterator[tuple[str, str, MCPServerConfig]]:
        """Yield the tools of servers from the file, each with its own name."""
        for name, (server, original) in list(self._origins.items()):
            config = self._wanted.get(server)
            if isinstance(config, MCPServerConfig):
                yield name, original, config


def _tool_of(registry: HostRegistry, name: str) -> Any:
    try:
        return registry.get_tool(name)
    except Exception:
        # The host may raise for a name that is free; if it is not, registering will tell.
        logger.warning("mcp_host_failed: `get_tool(%r)` of the host raised", name, exc_info=True)
        return None


def _outdated(
    registry: HostRegistry, client: MCPClientWrapper, offered: Mapping[str, ToolDef]
) -> set[str]:
    """Return the tools that a client no longer offers or has changed, in a registry of ours."""
    if not isinstance(registry, ToolRegistry):
        return set()
    known = [tool for tool in registry.get_all_tools() if client_of(tool) is client]
    return {tool.name for tool in known if not _says_the_same(tool, offered.get(tool.name))}


def _says_the_same(tool: ToolDef, other: ToolDef | None) -> bool:
    if other is None:
        return False
    return replace(tool, func=other.func, async_func=other.async_func) == other


def _check(server: str, tool: dict[str, Any]) -> None:
    # It came over a wire, so it may be anything.
    original = tool.get("name") if isinstance(tool, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if not isinstance(original, str) or not original:
        raise InvalidToolError("A tool has no name.")
    # Making one of ours checks the rest.
    checked = Tool(
        name=mcp(server, original),
        description=tool.get("description") or "",
        input_schema=cast("dict[str, Any]", tool.get("inputSchema")),
    )
    ArgumentSchema(checked.input_schema, tool=checked.name)
    if checked.input_schema.get("type", "object") != "object":
        raise InvalidToolError(f"The input schema of tool {original!r} is not that of an object.")
