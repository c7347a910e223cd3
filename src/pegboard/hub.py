"""Hub: every server of a configuration, connected, and their tools on one board."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import anyio
import anyio.to_thread
import msgspec

from pegboard.config import LoadedConfig, ServerConfig, load_servers
from pegboard.model import ToolResult, truncate_text
from pegboard.model.naming import NameTable, NamingOption, OnConflict
from pegboard.registry import Registry
from pegboard.registry.background import run_in_background
from pegboard.toolsets import Selection, Toolset
from pegboard.upstream import (
    Board,
    CatalogMemory,
    FileMemory,
    OnProgress,
    Question,
    Questions,
    ServerStatus,
    Supervisor,
    UpstreamServer,
    progress_of_call,
)

__all__ = ["Hub", "HubOptions", "SyncHub"]

logger: logging.Logger = logging.getLogger("pegboard.hub")

Source = str | Path | Mapping[str, Any] | Sequence[ServerConfig] | None


class HubOptions(TypedDict, total=False):
    """What a hub can be told besides its configuration."""

    servers: Mapping[str, object]
    """Further servers: objects of the MCP SDK that live in this process, by name."""
    registry: Registry
    """The board to use, perhaps with local tools on it; without one, a new one."""
    naming: NamingOption
    """How tools are named: ``"mcp"``, ``"double_underscore"``, ``"plain"``, a template such as
    ``"{server}.{tool}"``, or a function of server and tool."""
    on_conflict: OnConflict
    """When two tools want one name: ``"rename"``, ``"skip"``, ``"override"`` or ``"raise"``."""
    memory: CatalogMemory
    """Where definitions are remembered between runs; a file in the user's cache directory."""
    strict: bool
    """Refuse a configuration with a bad entry, instead of leaving the entry out."""
    max_starts: int
    """How many servers may be starting at the same time."""
    elicitation: Question
    """Answers a server's questions to the person."""
    sampling: Question
    """Answers a server's requests to the model."""
    roots: Question
    """Tells a server which directories it may look at."""
    on_login: Callable[[str, str], object]
    """Shows a person the login page of a server (name, address); without it a browser is opened."""


class Hub:
    """All servers of a configuration; a server that fails is reported, and harms no other.

    Use it as ``async with Hub.open(...) as hub``, or with `start` and `close` from any task.

    Args:
        config: a file, a mapping of the same form, or a list of `ServerConfig`. Without it the file
            is looked for: ``PEGBOARD_CONFIG``, ``./mcp.json``, ``./.pegboard/mcp.json``, the user's
            configuration directory.
        options: see `HubOptions`.
    """

    def __init__(self, config: Source = None, **options: Unpack[HubOptions]) -> None:
        unknown = set(options) - HubOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"Unknown options: {', '.join(sorted(unknown))}.")
        self._source = config
        self._options = options
        self.registry: Registry = options.get("registry") or Registry()
        """The board with all tools, to which local ones can be added."""
        self.loaded: LoadedConfig = LoadedConfig()
        """Which file was read, and what was wrong in it."""
        on_conflict = options.get("on_conflict", "rename")
        names = NameTable(
            options.get("naming", "mcp"), on_conflict=on_conflict, taken=self._is_local
        )
        self._names = names
        self._supervisor = Supervisor(
            Board(
                registry=self.registry,
                names=names,
                on_conflict=on_conflict,
                policies={},
                memory=options.get("memory") or FileMemory(),
            ),
            max_starts=options.get("max_starts", 8),
            questions=Questions(
                elicitation=options.get("elicitation"),
                sampling=options.get("sampling"),
                roots=options.get("roots"),
            ),
            on_login=options.get("on_login"),
        )

    @classmethod
    def open(cls, config: Source = None, **options: Unpack[HubOptions]) -> "Hub":
        """Return a hub to be entered with ``async with``; nothing is opened before."""
        return cls(config, **options)

    @classmethod
    def open_sync(cls, config: Source = None, **options: Unpack[HubOptions]) -> "SyncHub":
        """Return a hub for synchronous programs, to be entered with ``with``."""
        return SyncHub(cls(config, **options))

    def __repr__(self) -> str:
        return f"<Hub of {len(self.servers)} servers, {len(self.registry)} tools>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Read the configuration and start the servers that are to be started; once is enough.

        Raises:
            ConfigError: when the file cannot be used at all, or with ``strict``.
            ToolConflictError: when two tools want one name, with ``on_conflict="raise"``.
        """
        if self._supervisor.nursery.is_open:
            return
        try:
            await self._supervisor.open(await self._configs())
            self._supervisor.raise_conflict()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop all servers; from any task, any number of times. `start` opens the hub again."""
        with anyio.CancelScope(shield=True):  # every wait in it has a limit
            await self._supervisor.close()

    async def reload(self) -> None:
        """Read the configuration again: new servers are started, missing ones stopped.

        Raises:
            ConfigError: when the file cannot be used; then everything stays as it is.
        """
        configs = await self._configs()
        await self._supervisor.nursery.at_home(lambda: self._supervisor.replace(configs))

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """How every server is now, by name."""
        return {name: it.status for name, it in self._supervisor.servers.items()}

    def server(self, name: str) -> UpstreamServer:
        """Return one server, to start, stop, refresh it, or to ask it for more than tools.

        Raises:
            ServerNotFoundError: when there is none of that name.
        """
        return self._supervisor.find(name)

    def origin(self, tool: str) -> tuple[str, str]:
        """Return the server of a tool, and the name the tool has there.

        Raises:
            ToolNotFoundError: when no server has such a tool.
        """
        return self._names.origin(tool)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Call a tool, of a server or of this process, and return what it answered.

        Raises:
            ToolNotFoundError: when there is no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when it took too long.
            UpstreamError: when its server could not do its part.
        """
        if on_progress is None:
            return ToolResult.of(await self.registry.acall(name, arguments, meta))
        token = progress_of_call.set(on_progress)
        try:
            return ToolResult.of(await self.registry.acall(name, arguments, meta))
        finally:
            progress_of_call.reset(token)

    def render(self, name: str, result: ToolResult) -> str:
        """Return a result as text for a model, cut with a mark at its server's limit.

        Raises:
            ToolNotFoundError: when there is no such tool.
        """
        server = self.registry.get(name).server
        text = result.text()
        if server not in self._supervisor.servers:
            return text
        return truncate_text(text, self._supervisor.servers[server].config.max_result_chars)

    def toolset(self, **selection: Unpack[Selection]) -> Toolset:
        """Return a chosen, renamed, filtered view of the tools; see `Toolset`."""
        return Toolset(self.registry, **selection)

    def _is_local(self, name: str) -> bool:
        return name in self.registry and self.registry.get(name).server is None

    async def _configs(self) -> list[ServerConfig]:
        source = self._source
        if isinstance(source, Sequence) and not isinstance(source, str):
            self.loaded = LoadedConfig(servers=tuple(source), origin="explicit")
        else:
            strict = self._options.get("strict", False)
            self.loaded = await anyio.to_thread.run_sync(
                lambda: load_servers(source, strict=strict)
            )
            for problem in self.loaded.problems:
                logger.warning("config_problem", extra={"problem": str(problem)})
        return [*self.loaded.servers, *self._in_memory()]

    def _in_memory(self) -> list[ServerConfig]:
        return [
            msgspec.structs.replace(it, name=name)
            if isinstance(it, ServerConfig)
            else ServerConfig(name=name, transport="memory", server=it)
            for name, it in self._options.get("servers", {}).items()
        ]


class SyncHub:
    """A hub for programs without an event loop: it lives on the background loop of Pegboard."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def __repr__(self) -> str:
        return repr(self._hub)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def registry(self) -> Registry:
        """The board with all tools."""
        return self._hub.registry

    @property
    def loaded(self) -> LoadedConfig:
        """Which file was read, and what was wrong in it."""
        return self._hub.loaded

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """How every server is now, by name."""
        return self._hub.servers

    def origin(self, tool: str) -> tuple[str, str]:
        """Return the server of a tool, and the name the tool has there.

        Raises:
            ToolNotFoundError: when no server has such a tool.
        """
        return self._hub.origin(tool)

    def start(self) -> None:
        """Read the configuration and start the servers that are to be started.

        Raises:
            ConfigError: when the file cannot be used at all, or with ``strict``.
        """
        run_in_background(self._hub.start, tool="")

    def close(self) -> None:
        """Stop all servers; any number of times."""
        run_in_background(self._hub.close, tool="")

    def reload(self) -> None:
        """Read the configuration again."""
        run_in_background(self._hub.reload, tool="")

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Call a tool and wait for its answer.

        Raises:
            ToolNotFoundError: when there is no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when it took too long.
            UpstreamError: when its server could not do its part.
        """
        return run_in_background(
            lambda: self._hub.call(name, arguments, meta=meta, on_progress=on_progress), tool=name
        )

    def request(
        self, server: str, method: str, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a server any request of the protocol, and return its raw result.

        Raises:
            ServerNotFoundError: when there is no such server.
            UpstreamError: whatever went wrong.
        """
        found = self._hub.server(server)
        return run_in_background(lambda: found.request(method, params), tool=method)

    def toolset(self, **selection: Unpack[Selection]) -> Toolset:
        """Return a chosen, renamed, filtered view of the tools; take its `sync_functions`."""
        return self._hub.toolset(**selection)
