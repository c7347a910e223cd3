"""Supervisor: start, stop, replace and close all servers of a hub."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from pegboard.config import ServerConfig
from pegboard.errors import NotConnectedError, PegboardError
from pegboard.upstream.catalog.cache import CachedCatalog
from pegboard.upstream.connection import ConnectionDeps, ServerState, WatchedResources
from pegboard.upstream.events import OnServerEvent, ServerEvent, ServerLogger
from pegboard.upstream.owner_loop import PATIENCE, OwnerLoop
from pegboard.upstream.server import Board, UpstreamServer
from pegboard.upstream.server_requests import Questions
from pegboard.upstream.startup_queue import StartupQueue

if TYPE_CHECKING:
    from pegboard.upstream.http.pool import OnLogin

__all__ = ["Supervisor"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_CLOSED = "is closed; open its hub again"
_REMOVED = "was removed from the configuration"


class Supervisor:
    """Starts, stops and replaces servers. One that fails never takes another with it."""

    def __init__(
        self,
        board: Board,
        *,
        max_starts: int = 8,
        questions: Questions,
        on_login: "OnLogin | None" = None,
        tenant: str = "",
        log: ServerLogger | None = None,
    ) -> None:
        self._board = board
        self._on_login = on_login
        self._tenant = tenant
        self._log = log
        self._max_starts = max_starts
        self._questions = questions
        self._owner_loop = OwnerLoop("hub")
        self._deps: ConnectionDeps | None = None
        self._pool: Any = None
        self.servers: dict[str, UpstreamServer] = {}
        self._subscribers: tuple[tuple[OnServerEvent], ...] = ()
        self._startup_queue = StartupQueue(board.names)
        self._opened = 0.0
        self._leaving: set[UpstreamServer] = set()
        self._replacing = anyio.Lock()
        self._replacement: anyio.CancelScope | None = None

    @property
    def owner_loop(self) -> OwnerLoop:
        """The event loop that owns the connections of the servers."""
        return self._owner_loop

    async def open(self, configs: Iterable[ServerConfig], *, wait: bool = True) -> None:
        """Put the cached tools on the board, start the servers that need it, and wait for these.

        A server that cannot be started raises nothing; its status says why. For ``wait`` see
        `replace`.
        """
        for server in self.servers.values():
            # It is left from an earlier opening, perhaps on an event loop that is gone.
            server.feed.retire()
        self.servers = {}
        self._leaving = set()
        self._pool = None
        await self._owner_loop.open()
        self._replacing = anyio.Lock()
        self._startup_queue = StartupQueue(self._board.names)
        self._opened = monotonic()
        self._deps = ConnectionDeps(
            owner_loop=self._owner_loop,
            starts=anyio.CapacityLimiter(self._max_starts),
            pool=self._http_pool,
            questions=self._questions.answered_on(self._owner_loop),
            announce=self._announce,
            log=self._log,
        )
        await self.replace(configs, wait=wait)

    async def close(self) -> None:
        """Stop all servers at once; from any task or loop, any number of times.

        Do not call it from a callback of a running call: see `OwnerLoop.run_shutdown`.
        """
        if self._owner_loop.is_open:
            await self._owner_loop.run(self._stop_all)
        servers = [*self.servers.values(), *self._leaving]
        await self._owner_loop.close()
        for server in servers:
            # Also if its event loop ended before we could stop it.
            await server.leave(_CLOSED)
            server.feed.retire()

    async def replace(self, configs: Iterable[ServerConfig], *, wait: bool = True) -> None:
        """Have exactly these servers: stop the others, start the new ones, leave the rest alone.

        If the caller is cancelled, the servers are replaced all the same.

        Args:
            configs: the servers.
            wait: until each new server is up or has failed; then their tools are on the board in
                the order of the configuration. Otherwise tools come as soon as their server is up.

        Raises:
            NotConnectedError: when the hub was closed meanwhile.
        """
        wanted = {config.name: config for config in configs}
        done = await self._owner_loop.run_to_end(lambda: self._replace_alone(wanted, in_order=wait))
        if wait:
            deps = self._deps
            await self._owner_loop.run(done.wait)
            if deps is None or deps is not self._deps:
                raise _closed_meanwhile()

    async def wait_started(self, servers: Iterable[str], *, until: float = math.inf) -> None:
        """Wait until these servers are up or have failed for the first time.

        Args:
            servers: their names.
            until: stop waiting this many seconds after the hub was opened.
        """
        names = [name for name in servers if name in self.servers]

        async def wait() -> None:
            with anyio.move_on_after(self._opened + until - monotonic()):
                # A server that is replaced meanwhile is started again.
                while awaited := self._under_way(names):
                    await self._startup_queue.wait(awaited)

        if names:
            await self._owner_loop.run(wait)

    def _under_way(self, names: Iterable[str]) -> list[UpstreamServer]:
        servers = [self.servers[name] for name in names if name in self.servers]
        return [it for it in servers if self._startup_queue.is_under_way(it)]

    async def stop_starting(self) -> None:
        """Stop the servers that are starting; calls that wait for one of them fail."""
        under_way = self._under_way(list(self.servers))
        self._startup_queue.give_up(under_way)
        async with anyio.create_task_group() as group:
            for server in list(self.servers.values()):
                if server in under_way or server.connection.state == ServerState.STARTING:
                    group.start_soon(_stop, server)

    def starting(self, tool: str = "") -> list[str]:
        """Return the starting servers whose tools are unknown.

        Args:
            tool: only the servers that might have a tool of this name.
        """
        return [
            it.config.name
            for it in self._startup_queue.without_tools()
            if self.servers.get(it.config.name) is it
            and (not tool or self._startup_queue.may_have(it, tool))
        ]

    async def _replace_alone(
        self, wanted: dict[str, ServerConfig], *, in_order: bool
    ) -> anyio.Event:
        async with self._replacing:
            if self._deps is not None:
                with anyio.CancelScope() as self._replacement:
                    return await self._replace(wanted, in_order=in_order)
        raise _closed_meanwhile()

    async def _replace(self, wanted: dict[str, ServerConfig], *, in_order: bool) -> anyio.Event:
        leaving = [it for it in self.servers.values() if wanted.get(it.config.name) != it.config]
        before = {it.config.name: it for it in leaving}
        for server in leaving:
            del self.servers[server.config.name]
            if server.config.name not in wanted:
                server.feed.retire()
        fresh = [
            self._make(it, before.get(name))
            for name, it in wanted.items()
            if name not in self.servers
        ]
        # In the order of the configuration, whichever servers were running before.
        known = {**self.servers, **{it.config.name: it for it in fresh}}
        self.servers = {name: known[name] for name in wanted}
        left = {it: anyio.Event() for it in leaving}
        self._leaving.update(leaving)
        startup_queue, done = self._startup_queue, anyio.Event()
        try:
            # One after the other: reading the cached catalogs takes much memory.
            starting = [
                it for it in fresh if await self._show_what_is_known(it, before.get(it.config.name))
            ]
        except BaseException:
            startup_queue.give_up(fresh)
            raise
        finally:
            for server in leaving:
                server.feed.retire()
        after = {it: left[old] for it in starting if (old := before.get(it.config.name))}

        async def start() -> None:
            try:
                async with anyio.create_task_group() as group:
                    for server in leaving:
                        group.start_soon(self._let_go, server, left[server])
                    await startup_queue.start_all(starting, in_order=in_order, after=after)
                    if leaving:
                        await self._retry_contested()
            finally:
                done.set()

        self._owner_loop.start_soon(start)
        return done

    async def _show_what_is_known(
        self, server: UpstreamServer, before: UpstreamServer | None
    ) -> bool:
        """Put the cached tools of a new server on the board; return whether it has to start.

        Without a cache, the tools of the server that it replaces stay until it is up or has failed.
        """
        cached: Mapping[str, CachedCatalog] = {}
        if server.config.enabled:
            cached = await anyio.to_thread.run_sync(self._load_cached, [server.key])
        if before is not None:
            await before.shown()
        is_cached = server.key in cached
        if before is not None and (is_cached or not server.config.enabled):
            before.feed.retire()
        if is_cached:
            server.use_cached(cached[server.key])
        if not server.config.enabled:
            return False
        if server.config.lazy and server.is_known and not server.watched.uris:
            return False
        # Before anything is borrowed: the server may have tools that are unknown yet.
        self._startup_queue.add(server)
        if before is not None and not is_cached:
            server.take_place_of(before)
        return True

    async def _let_go(self, server: UpstreamServer, left: anyio.Event) -> None:
        try:
            await _leave(server, _REMOVED)
        finally:
            self._leaving.discard(server)
            left.set()

    async def _retry_contested(self) -> None:
        for server in list(self.servers.values()):
            try:
                await server.retry_contested()
            except PegboardError as error:
                context = {"server": server.config.name, "reason": str(error)}
                logger.warning("refresh_failed: %s", error, extra=context)

    def on_change(self, subscriber: OnServerEvent) -> Callable[[], None]:
        """Call a subscriber for each server event; call the returned function to unsubscribe."""
        entry = (subscriber,)
        self._subscribers = (*self._subscribers, entry)

        def unsubscribe() -> None:
            self._subscribers = tuple(it for it in self._subscribers if it is not entry)

        return unsubscribe

    def _announce(self, event: ServerEvent) -> None:
        for (subscriber,) in self._subscribers:
            try:
                subscriber(event)
            except Exception:
                logger.exception("subscriber_failed: %r", event)

    def raise_conflict(self) -> None:
        """Raise the first name conflict, if conflicts are to be raised."""
        for server in self.servers.values():
            if server.feed.conflict is not None:
                raise server.feed.conflict

    def _make(self, config: ServerConfig, before: UpstreamServer | None) -> UpstreamServer:
        assert self._deps is not None
        # The subscriptions of the replaced server go on with this one.
        watched = WatchedResources() if before is None else before.watched
        return UpstreamServer(config, self._deps, self._board, watched=watched)

    def _load_cached(self, keys: list[str]) -> Mapping[str, CachedCatalog]:
        try:
            return self._board.catalog_cache.load(keys)
        except Exception:
            logger.exception("memory_failed: the catalog cache of the servers cannot be read")
            return {}

    def _http_pool(self) -> Any:
        if self._pool is None:
            module = import_module("pegboard.upstream.http.pool")
            self._pool = module.HttpPool(
                on_login=self._on_login,
                tenant=self._tenant,
                start_soon=self._owner_loop.start_soon,
            )
        return self._pool

    async def _stop_all(self) -> None:
        self._deps = None
        if self._replacement is not None:
            self._replacement.cancel()
        with anyio.move_on_after(PATIENCE, shield=True):
            async with self._replacing, anyio.create_task_group() as group:
                for server in (*self.servers.values(), *self._leaving):
                    group.start_soon(_leave, server, _CLOSED)
            if self._pool is not None:
                pool, self._pool = self._pool, None
                await pool.close()


async def _stop(server: UpstreamServer) -> None:
    try:
        await server.stop()
    except Exception:
        name = server.config.name
        logger.exception("stop_failed: server %r", name, extra={"server": name})


async def _leave(server: UpstreamServer, reason: str) -> None:
    try:
        await server.leave(reason)
    except Exception:
        name = server.config.name
        logger.exception("stop_failed: server %r", name, extra={"server": name})


def _closed_meanwhile() -> NotConnectedError:
    return NotConnectedError("The hub was closed meanwhile.", server="")
