"""Hub: all servers of a configuration, connected, with their tools on one board."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Never, Self, Unpack
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import current_token
from msgspec.structs import replace

from pegboard.config import LoadedConfig, ServerConfig
from pegboard.errors import PegboardError, ServerNotFoundError, ToolNotFoundError
from pegboard.hub.lifecycle import HubLifecycle, HubStorage, not_open
from pegboard.hub.missing_tools import UnavailableServer, unavailable_servers, why_missing
from pegboard.hub.options import HubOptions, Source, check_options, questions_of
from pegboard.hub.sources import configs_of, load, load_again
from pegboard.hub.sync_hub import SyncHub
from pegboard.hub.tool_mapping import HubTool, ToolMapping
from pegboard.model import Tool, ToolResult, truncate_text
from pegboard.model.fork_guard import ForkGuard
from pegboard.model.tool_names import NameTable, naming_of
from pegboard.registry import Registry
from pegboard.search import SearchOptions, SearchResponse
from pegboard.search.options import DEFAULT_METHOD
from pegboard.toolsets import Selection, Toolset
from pegboard.upstream import (
    Board,
    CallContext,
    OnProgress,
    OnServerEvent,
    ServerStatus,
    Supervisor,
    UpstreamServer,
    context_of_call,
)
from pegboard.upstream.owner_loop import OwnerLoop

__all__ = ["Hub"]

_SEARCH_THREADS = 4
"""How many slow searches run at once, so that a flood of them leaves threads for other work."""


class Hub:
    """All servers of a configuration; a server that fails does not affect the others.

    Use it as ``async with Hub.open(...) as hub``, or with `start` and `close` from any task. A
    forked child of its process cannot use it: every method but `close` raises `ForkedProcessError`
    there.

    Args:
        config: a file, a mapping of the same form, or a list of `ServerConfig`. Without it the file
            is looked for: ``PEGBOARD_CONFIG``, ``./mcp.json``, ``./.pegboard/mcp.json``, the user's
            configuration directory.
        options: see `HubOptions`.
    """

    def __init__(self, config: Source = None, **options: Unpack[HubOptions]) -> None:
        check_options(config, options)
        self._guard = ForkGuard("hub")
        self._source = config
        self._options = options
        # Not `or`: an empty registry counts as false, and may hold policies all the same.
        registry, catalog_cache = options.get("registry"), options.get("catalog_cache")
        self.registry: Registry = Registry() if registry is None else registry
        """The board with all tools; local tools can be added to it."""
        # One for each event loop, because those that wait for it belong to one.
        self._limiters: WeakKeyDictionary[Any, anyio.CapacityLimiter] = WeakKeyDictionary()
        storage = HubStorage(self.registry, options.get("storage"), tenant=options.get("tenant"))
        self.loaded: LoadedConfig = LoadedConfig()
        """The file that was read, and the problems in it."""
        on_conflict = options.get("on_conflict", "rename")
        self._naming = naming_of(options.get("naming", "mcp"))
        self._names = NameTable(self._name, on_conflict=on_conflict, taken=self.registry.runs)
        self._supervisor = Supervisor(
            Board(
                registry=self.registry,
                names=self._names,
                on_conflict=on_conflict,
                policies={},
                catalog_cache=storage.catalog_cache() if catalog_cache is None else catalog_cache,
            ),
            max_starts=options.get("max_starts", 8),
            questions=questions_of(options),
            on_login=options.get("on_login"),
            tenant=options.get("tenant") or "",
            log=options.get("server_log"),
        )
        self._lifecycle = HubLifecycle(self._supervisor, storage, self._configs)

    @classmethod
    def open(cls, config: Source = None, **options: Unpack[HubOptions]) -> "Hub":
        """Return a hub to enter with ``async with``; nothing is opened before."""
        return cls(config, **options)

    @classmethod
    def open_sync(cls, config: Source = None, **options: Unpack[HubOptions]) -> "SyncHub":
        """Return a hub for synchronous programs, to enter with ``with``."""
        return SyncHub(cls(config, **options))

    def __repr__(self) -> str:
        return f"<Hub of {len(self._supervisor.servers)} servers, {len(self.registry)} tools>"

    def __enter__(self) -> Never:
        raise TypeError("Enter it with `async with`, or use `with Hub.open_sync(...)`.")

    def __exit__(self, *_: object) -> None:
        """Never run; it exists so that `with` gets to the message of `__enter__`."""

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

    async def start(self, *, wait: bool = True) -> None:
        """Read the configuration and start the servers that need it; a second call does nothing.

        Args:
            wait: until each server is up or has failed. Otherwise the hub is open at once, and
                tools appear on the board as soon as their server is up: see `starting`.

        Raises:
            ConfigError: when the file cannot be used at all, or with ``strict``.
            ToolConflictError: when two tools want one name, with ``on_conflict="raise"`` and
                ``wait``.
            StorageError: when the storage cannot be opened or read.
        """
        self._guard.check()
        await self._lifecycle.start(wait=wait)
        if wait:
            await self.started()

    @property
    def starting(self) -> list[str]:
        """The servers that are starting and whose tools are still unknown."""
        self._guard.check()
        return self._supervisor.starting()

    def starting_for(self, tool: str) -> list[str]:
        """Return the `starting` servers that may have a tool of this name."""
        self._guard.check()
        return self._supervisor.starting(tool)

    async def started(
        self, servers: Iterable[str] | None = None, *, until: float = math.inf
    ) -> None:
        """Wait until servers are up or have failed, after a `start` without ``wait``.

        Args:
            servers: their names; ``None`` for all.
            until: stop waiting this many seconds after the hub was opened.
        """
        self._guard.check()
        names = list(self._supervisor.servers) if servers is None else servers
        await self._supervisor.wait_started(names, until=until)

    async def stop_starting(self) -> None:
        """Stop the servers that are not up yet, so that calls that wait for them fail."""
        self._guard.check()
        await self._supervisor.stop_starting()

    async def close(self) -> None:
        """Stop all servers; from any task, any number of times. `start` opens the hub again.

        In a forked child it does nothing: the servers belong to the parent.
        """
        if self._guard.in_child:
            return
        await self._lifecycle.close()

    async def reload(self, *, wait: bool = True) -> None:
        """Read the configuration again: new servers are started, missing ones stopped.

        A server whose entry cannot be used now stays as it was. Once the file is read, the servers
        are replaced even if the caller is cancelled.

        Args:
            wait: until each new server is up or has failed; see `start`.

        Raises:
            ConfigError: when the file cannot be used, or has no section for servers; then nothing
                changes.
            NotConnectedError: when the hub is not open, or was closed meanwhile.
        """
        self._guard.check()
        if not self._owner_loop.is_open:
            raise not_open()
        loaded = await load_again(self._source, self._options, before=self.loaded)
        configs = configs_of(loaded, self._options)
        self.loaded = loaded
        await self._owner_loop.run(lambda: self._supervisor.replace(configs, wait=wait))

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The present status of each server, by name; a wrong name is a `ServerNotFoundError`."""
        self._guard.check()
        return _Statuses((name, it.status) for name, it in self._supervisor.servers.items())

    def enabled_servers(self) -> list[UpstreamServer]:
        """Return the servers that the configuration does not switch off."""
        self._guard.check()
        return [it for it in self._supervisor.servers.values() if it.config.enabled]

    def unavailable_servers(self) -> list[UnavailableServer]:
        """Return the configured servers of which no tool is known, and why."""
        self._guard.check()
        problems, servers = self.loaded.problems, self._supervisor.servers.values()
        if not problems and all(it.config.enabled and it.listing.is_known for it in servers):
            # Each search asks, and nearly always there are none.
            return []
        return unavailable_servers(
            servers,
            problems,
            starting=self._supervisor.starting(),
            naming=self._name,
        )

    def server(self, name: str) -> UpstreamServer:
        """Return one server, to start, stop or refresh it, or to send it other requests.

        Raises:
            ServerNotFoundError: when there is none of that name.
        """
        self._guard.check()
        servers = self._supervisor.servers
        try:
            return servers[name]
        except (KeyError, TypeError):
            raise ServerNotFoundError(name, known=list(servers)) from None

    def on_change(self, subscriber: OnServerEvent) -> Callable[[], None]:
        """Call a subscriber for each server event; call the returned function to unsubscribe.

        For changes of tools, use ``hub.registry.subscribe``.
        """
        self._guard.check()
        return self._supervisor.on_change(subscriber)

    async def forget_client(self, client: str) -> None:
        """Close the connections of a client that is gone; see `CallContext`."""
        self._guard.check()
        async with anyio.create_task_group() as group:
            for server in self._supervisor.servers.values():
                group.start_soon(server.forget_client, client)

    async def roots_changed(self, client: str) -> None:
        """Notify the servers with a connection for this client that its roots have changed."""
        self._guard.check()
        async with anyio.create_task_group() as group:
            for server in self._supervisor.servers.values():
                group.start_soon(server.roots_changed, client)

    def origin(self, tool: str) -> tuple[str, str]:
        """Return the server of a tool, and the name of the tool on that server.

        Raises:
            ToolNotFoundError: when no server has such a tool.
        """
        self._guard.check()
        return self._names.origin(tool)

    def exposed_name(self, server: str, name: str) -> str:
        """Return the exposed name of something of a server, such as a prompt."""
        return self._name(server, name)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Call a tool, of a server or of this process, and return its result.

        ``meta`` is for the records of this process; it is not sent to the server.

        Raises:
            ToolNotFoundError: when there is no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when it took too long.
            UpstreamError: when its server failed, or the hub is not open.
        """
        self._guard.check()
        token = None
        if on_progress is not None:
            context = context_of_call.get() or CallContext()
            token = context_of_call.set(replace(context, on_progress=on_progress))
        try:
            return ToolResult.of(await self.registry.acall(name, arguments, meta))
        except ToolNotFoundError as error:
            raise self._why_missing(error, name) from None
        finally:
            if token is not None:
                context_of_call.reset(token)

    async def search(
        self,
        text: str,
        *,
        where: Callable[[Tool], bool] | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchResponse:
        """Return what `Registry.search` returns, without blocking other tasks.

        A quick search runs at once. Any other, such as the first one, runs in a thread.

        Raises:
            InvalidQueryError: when the query is invalid; see `SearchOptions`.
        """
        self._guard.check()
        search = partial(self.registry.search, text, where=where, **options)
        if self.registry.is_search_quick(text, method=options.get("method", DEFAULT_METHOD)):
            return search()
        return await anyio.to_thread.run_sync(search, limiter=self._search_threads())

    async def search_many(
        self,
        texts: Iterable[str],
        *,
        where: Callable[[Tool], bool] | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[SearchResponse]:
        """Search for many texts at once, in a thread.

        Raises:
            InvalidQueryError: when one of the queries is invalid.
        """
        self._guard.check()
        search = partial(self.registry.search_many, texts, where=where, **options)
        return await anyio.to_thread.run_sync(search, limiter=self._search_threads())

    def _search_threads(self) -> anyio.CapacityLimiter:
        limiter = anyio.CapacityLimiter(_SEARCH_THREADS)
        return self._limiters.setdefault(current_token().native_token, limiter)

    @property
    def tools(self) -> ToolMapping[HubTool]:
        """The visible tools by name: ``await hub.tools[name](**arguments)`` is `call`."""
        return ToolMapping(
            self.registry, lambda tool: HubTool(tool, self.call), why_missing=self._why_missing
        )

    def render(self, name: str, result: ToolResult) -> str:
        """Return a result as text for a model, truncated with a mark at its server's limit.

        Raises:
            ToolNotFoundError: when there is no such tool.
        """
        self._guard.check()
        server = self._supervisor.servers.get(self.registry.get(name).server or "")
        text = result.text()
        return text if server is None else truncate_text(text, server.config.max_result_chars)

    def toolset(self, **selection: Unpack[Selection]) -> Toolset:
        """Return a selected, renamed, filtered view of the tools; see `Toolset`.

        Raises:
            ServerNotFoundError: when the selection names an unknown server.
        """
        self._guard.check()
        servers = selection.get("servers")
        if servers is not None and not isinstance(servers, str):
            # A list, because it may be an iterator.
            selection["servers"] = servers = list(servers)
            for name in servers:
                self.server(name)
        return Toolset(self.registry, why_missing=self._why_missing, **selection)

    @property
    def _owner_loop(self) -> OwnerLoop:
        return self._supervisor.owner_loop

    def _why_missing(self, error: ToolNotFoundError, name: str) -> PegboardError:
        if not self._owner_loop.is_open:
            return not_open()
        servers = self._supervisor.servers.values()
        return why_missing(error, name, servers=servers, naming=self._name)

    def _name(self, server: str, tool: str) -> str:
        known = self._supervisor.servers.get(server)
        if known is None:
            return self._naming(server, tool)
        return known.config.tool_name(tool, self._naming)

    async def _configs(self) -> list[ServerConfig]:
        self.loaded = await load(self._source, self._options)
        return configs_of(self.loaded, self._options)


class _Statuses(dict[str, ServerStatus]):
    """Raises an error with the known names for a wrong one."""

    def __missing__(self, name: object) -> Never:
        raise ServerNotFoundError(name, known=list(self))
