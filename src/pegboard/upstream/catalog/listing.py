"""ToolListing: list the tools of one server, again after each change, and show them."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from pegboard.errors import PegboardError
from pegboard.model.garbage_collection import postponed_collections
from pegboard.upstream.backoff import Backoff
from pegboard.upstream.catalog.cache import CachedCatalog, CatalogCache
from pegboard.upstream.catalog.feed import CatalogFeed
from pegboard.upstream.connection import Negotiated, ServerState, Session
from pegboard.upstream.connections.delivery import deliver_list
from pegboard.upstream.connections.stateful import StatefulConnection
from pegboard.upstream.events import ServerEvent
from pegboard.upstream.owner_loop import OwnerLoop

__all__ = ["ToolListing"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MANY_TOOLS = 200
"""From this many definitions on, a thread validates them: each takes a tenth of a ms."""
_LONG_DEFINITIONS = 64 * 1024
"""Definitions of more bytes are validated in a thread, too."""

FIRST_NOTICE, LAST_NOTICE = 0.05, 5.0
"""The shortest and longest pause, in seconds, between two listings of a changing list."""


class ToolListing:
    """Lists the tools of a server when it is up, and whenever it says that they changed."""

    def __init__(
        self,
        name: str,
        feed: CatalogFeed,
        *,
        keep: tuple[CatalogCache, str],
        owner_loop: OwnerLoop,
        connection: Callable[[], StatefulConnection],
        announce: Callable[[ServerEvent], None] = lambda _: None,
    ) -> None:
        self.is_known: bool = False
        """True when the tools are on the board, listed or from the cache."""
        self.error: PegboardError | None = None
        """Why the last listing failed."""
        self._name = name
        self._feed = feed
        self._cache, self._key = keep
        self._owner_loop = owner_loop
        self._connection = connection
        self._announce = announce
        self._held = False
        self._borrows = False
        self._waiting: list[dict[str, Any]] | None = None
        self._reconciled = anyio.Event()
        self._reconciled_for = 0
        self._showing = anyio.Lock()
        self._dirty = False
        self._refreshing = False

    def use_cached(self, cached: CachedCatalog) -> None:
        """Put the cached definitions of an earlier run on the board."""
        self._feed.is_modern = cached.negotiated.era == "modern"
        self._feed.apply(cached.tools, names=cached.names, checked=True)
        # A server that had no tools may have some now, and no call would ever start it.
        self.is_known = bool(cached.tools)

    def borrow(self, other: CatalogFeed) -> None:
        """Show the tools of the replaced server until this one has listed its own."""
        self._feed.borrow(other)
        self._borrows = self.is_known = bool(self._feed.tools)

    def give_back(self) -> None:
        """Take the borrowed tools off the board."""
        if self._borrows:
            self._borrows = self.is_known = False
            self._feed.clear()

    async def reconcile(self, session: Session) -> None:
        """List the tools of a server that has just become ready, and show them."""
        connection = self._connection()
        try:
            self.error = None
            listed = await session.list_all("tools/list") if self._has_tools() else []
            await self._show(listed)
        except PegboardError as error:
            context = {"server": self._name, "reason": str(error)}
            logger.error("list_failed: %s", error, extra=context)  # noqa: TRY400 - says it all
            self._failed(connection, error)
        finally:
            self._reconciled_for = connection.starts
            waiting, self._reconciled = self._reconciled, anyio.Event()
            waiting.set()

    async def reconciled(self) -> None:
        """Wait until the board shows the tools that the present session lists."""
        connection = self._connection()
        wanted = connection.starts
        while self._reconciled_for < wanted and connection.state == ServerState.READY:
            await self._reconciled.wait()

    async def refresh(self) -> None:
        """List the tools again and put them on the board.

        Raises:
            UpstreamError: when listing failed.
        """
        listed = await deliver_list(self._connection(), "tools/list") if self._has_tools() else []
        await self._show(listed)

    def changed(self) -> None:
        """List the tools again soon; further notices that arrive meanwhile count as one."""
        self._dirty = True
        if not self._refreshing:
            self._refreshing = True
            self._owner_loop.start_soon(self._refresh_until_clean)

    def hold(self) -> None:
        """Keep listed tools off the board for now, so that speed does not decide about names."""
        self._held = True

    async def release(self) -> None:
        """Put the tools on the board that were listed meanwhile."""
        self._held = False
        listed, self._waiting = self._waiting, None
        if listed is not None:
            await self._show(listed)

    async def shown(self) -> None:
        """Wait for a long list that a thread may just be putting on the board."""
        while self._showing.locked():
            async with self._showing:
                pass

    def _has_tools(self) -> bool:
        said = self._connection().negotiated
        return said is None or said.era == "modern" or "tools" in said.capabilities

    def _failed(self, connection: StatefulConnection, error: PegboardError) -> None:
        """Report the error, and list again until it succeeds or the session is over."""
        is_news, self.error = self.error is None, error
        connection.blame(str(error))
        if is_news:
            self._owner_loop.start_soon(self._list_again, connection.starts)

    async def _list_again(self, start: int) -> None:
        connection = self._connection()
        backoff = Backoff()
        while self.error is not None:
            backoff.failed()
            await anyio.sleep(backoff.pause)
            if connection.state != ServerState.READY or connection.starts != start:
                return
            try:
                await self.refresh()
            except PegboardError as error:
                self.error = error

    async def _refresh_until_clean(self) -> None:
        pause = FIRST_NOTICE
        connection = self._connection()
        try:
            # Only over the session that sent the notice: a notice is no reason to connect.
            while self._dirty and connection.state == ServerState.READY:
                self._dirty = False
                try:
                    await self.refresh()
                except PegboardError as error:
                    context = {"server": self._name, "reason": str(error)}
                    logger.warning("refresh_failed: %s", error, extra=context)
                    # Otherwise the next session lists them.
                    if connection.state == ServerState.READY:
                        self._failed(connection, error)
                # A server that sends a notice after every listing would be listed without a pause.
                await anyio.sleep(pause)
                pause = min(pause * 2, LAST_NOTICE)
        finally:
            self._refreshing = False

    async def _show(self, listed: list[dict[str, Any]]) -> None:
        self.is_known = True
        if self.error is not None:
            self.error = None
            self._connection().blame(None)
        if self._held:
            self._waiting = listed
            return
        self._borrows = False
        said = self._connection().negotiated
        self._feed.is_modern = said is not None and said.era == "modern"
        async with self._showing:
            if not _is_long(listed):
                self._feed.apply(listed)
            else:
                await anyio.to_thread.run_sync(self._feed.apply, listed)
        changes = self._feed.take_changes()
        if changes is not None:
            self._announce(changes)
        if said is not None:
            await anyio.to_thread.run_sync(self._save, said, listed)
        count = len(self._feed.tools)
        context = {"server": self._name, "tools": count}
        logger.info("server_ready: %r, tools: %d", self._name, count, extra=context)

    def _save(self, negotiated: Negotiated, listed: list[dict[str, Any]]) -> None:
        valid = tuple(raw for raw in listed if self._feed.is_cacheable(raw))
        names = self._feed.changed_names()
        cached = CachedCatalog(negotiated=negotiated, tools=valid, names=names)
        try:
            with postponed_collections(len(valid)):
                self._cache.save(self._key, cached)
        except Exception as error:  # noqa: BLE001 - without a cache the next start is slower, no more
            context = {"server": self._name, "reason": str(error)}
            logger.warning("memory_not_saved: %r: %s", self._name, error, extra=context)


def _is_long(listed: list[dict[str, Any]]) -> bool:
    if len(listed) >= MANY_TOOLS:
        return True
    size = 0
    for raw in listed:
        size += len(msgspec.json.encode(raw))
        if size > _LONG_DEFINITIONS:
            return True
    return False
