"""Hub: every server of a configuration, connected, and their tools on one board."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Never, Self, TypedDict, Unpack

import anyio
import anyio.to_thread
import msgspec

from pegboard.config import LoadedConfig, ServerConfig, load_servers
from pegboard.errors import (
    ConfigError,
    NotConnectedError,
    PegboardError,
    ServerUnavailableError,
    ToolNotFoundError,
)
from pegboard.model import ToolResult, truncate_text
from pegboard.model.naming import NameTable, NamingOption, OnConflict, naming_of
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
from pegboard.upstream.nursery import Nursery

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
    inputs: Mapping[str, str]
    """Answers to VS Code's ``${input:ID}`` in the file."""
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
        # Not `or`: an empty registry counts as false, and may hold policies all the same.
        registry, memory = options.get("registry"), options.get("memory")
        self.registry: Registry = Registry() if registry is None else registry
        """The board with all tools, to which local ones can be added."""
        self._is_up: object = None
        self._starting: anyio.CancelScope | None = None
        self._lock: tuple[object, anyio.Lock] | None = None
        self.loaded: LoadedConfig = LoadedConfig()
        """Which file was read, and what was wrong in it."""
        on_conflict = options.get("on_conflict", "rename")
        self._naming = naming_of(options.get("naming", "mcp"))
        names = NameTable(
            self._name, on_conflict=on_conflict, taken=lambda name: name in self.registry
        )
        self._names = names
        self._supervisor = Supervisor(
            Board(
                registry=self.registry,
                names=names,
                on_conflict=on_conflict,
                policies={},
                memory=FileMemory() if memory is None else memory,
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

    def __enter__(self) -> Never:
        raise TypeError("Enter it with `async with`, or use `with Hub.open_sync(...)`.")

    def __exit__(self, *_: object) -> None:
        """Never reached; only there so that `with` gets as far as the words above."""

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
        await self._nursery.open()
        await self._nursery.at_home(self._start_alone)

    async def _start_alone(self) -> None:
        async with self._turn():
            if self._is_up is not None and self._is_up is self._nursery.opening:
                return
            with anyio.CancelScope() as self._starting:
                try:
                    await self._supervisor.open(await self._configs())
                    self._supervisor.raise_conflict()
                    self._is_up = self._nursery.opening
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await self._supervisor.close()
                    raise
            if self._starting.cancelled_caught:
                raise NotConnectedError("The hub was closed while it was starting.", server="")

    async def close(self) -> None:
        """Stop all servers; from any task, any number of times. `start` opens the hub again."""
        if self._nursery.is_open and self._nursery.is_guest():
            # The caller is called by a session that has to end first.
            self._nursery.start_aside(self._close_alone)
            return
        with anyio.CancelScope(shield=True):  # every wait in it has a limit
            if self._nursery.is_open:
                await self._nursery.at_home(self._close_alone)
            else:
                await self._supervisor.close()

    async def _close_alone(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        async with self._turn():
            self._is_up = None
            await self._supervisor.close()

    def _turn(self) -> anyio.Lock:
        """Return what starting and closing wait for: one at a time, on the loop of the hub."""
        home = self._nursery.home
        if self._lock is None or self._lock[0] is not home:
            self._lock = (home, anyio.Lock())
        return self._lock[1]

    async def reload(self) -> None:
        """Read the configuration again: new servers are started, missing ones stopped.

        Raises:
            ConfigError: when the file cannot be used; then everything stays as it is.
            NotConnectedError: when the hub is not open.
        """
        if not self._nursery.is_open:
            raise self._closed()
        configs = await self._configs()
        await self._nursery.at_home(lambda: self._supervisor.replace(configs))

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

        ``meta`` is for the records of this process, and not sent to the server.

        Raises:
            ToolNotFoundError: when there is no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when it took too long.
            UpstreamError: when its server could not do its part, or the hub is not open.
        """
        try:
            if on_progress is None:
                return ToolResult.of(await self.registry.acall(name, arguments, meta))
            token = progress_of_call.set(on_progress)
            try:
                return ToolResult.of(await self.registry.acall(name, arguments, meta))
            finally:
                progress_of_call.reset(token)
        except ToolNotFoundError as error:
            raise self._explained(error, name) from None

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
        """Return a chosen, renamed, filtered view of the tools; see `Toolset`.

        Raises:
            ServerNotFoundError: when it is to show tools of a server that there is not.
        """
        servers = selection.get("servers", ())
        for name in () if isinstance(servers, str) else servers:
            self._supervisor.find(name)
        return Toolset(self.registry, **selection)

    @property
    def _nursery(self) -> Nursery:
        return self._supervisor.nursery

    def _closed(self) -> NotConnectedError:
        return NotConnectedError(
            "This hub is not open: enter it with `async with`, or `await hub.start()`.", server=""
        )

    def _explained(self, error: ToolNotFoundError, name: str) -> PegboardError:
        """Return the reason why there is no such tool, if it is not just a wrong name."""
        if not self._nursery.is_open:
            return self._closed()
        for server in self._supervisor.servers.values():
            status = server.status
            if not server.is_known and name.startswith(self._name(status.name, "")):
                reason = status.last_error or "nothing is known of its tools."
                return ServerUnavailableError(
                    f"Tool {name!r} is not there, because server {status.name!r} is "
                    f"{status.state.value}: {reason}",
                    server=status.name,
                    tool=name,
                )
        return error

    def _name(self, server: str, tool: str) -> str:
        known = self._supervisor.servers.get(server)
        prefix = None if known is None else known.config.prefix
        return self._naming(server, tool) if prefix is None else prefix + tool

    async def _configs(self) -> list[ServerConfig]:
        source = self._source
        if isinstance(source, Sequence) and not isinstance(source, str):
            self.loaded = LoadedConfig(servers=_checked(source), origin="explicit")
        else:
            strict = self._options.get("strict", False)
            self.loaded = await anyio.to_thread.run_sync(
                lambda: load_servers(source, strict=strict, inputs=self._options.get("inputs"))
            )
            for problem in self.loaded.problems:
                place = self.loaded.path or "configuration"
                context = {"problem": str(problem)}
                logger.warning("config_problem: %s: %s", place, problem, extra=context)
        return _distinct([*self.loaded.servers, *self._in_memory()])

    def _in_memory(self) -> list[ServerConfig]:
        return [
            msgspec.structs.replace(it, name=name)
            if isinstance(it, ServerConfig)
            else ServerConfig(name=name, transport="memory", server=it)
            for name, it in self._options.get("servers", {}).items()
        ]


def _checked(configs: Sequence[object]) -> tuple[ServerConfig, ...]:
    found = tuple(it for it in configs if isinstance(it, ServerConfig))
    if len(found) != len(configs):
        raise TypeError(
            "A list of servers holds `ServerConfig` objects; pass what is in a file as a dict: "
            '{"mcpServers": {...}}.'
        )
    return found


def _distinct(configs: list[ServerConfig]) -> list[ServerConfig]:
    names = [config.name for config in configs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"Two servers are named {twice[0]!r}; give each a name of its own.")
    return configs


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

    def render(self, name: str, result: ToolResult) -> str:
        """Return a result as text for a model, cut with a mark at its server's limit.

        Raises:
            ToolNotFoundError: when there is no such tool.
        """
        return self._hub.render(name, result)

    def toolset(self, **selection: Unpack[Selection]) -> Toolset:
        """Return a chosen, renamed, filtered view of the tools; take its `sync_functions`."""
        return self._hub.toolset(**selection)
