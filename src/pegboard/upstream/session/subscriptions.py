"""Watching a server of the modern era: which lists and resources have changed."""

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import cast
from weakref import WeakValueDictionary

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import (
    ListenNotSupportedError,
    ResourceUpdated,
    Subscription,
    SubscriptionLost,
)

from pegboard.config import ServerConfig
from pegboard.errors import PegboardError, ProtocolError, ServerTimeoutError, UpstreamError
from pegboard.upstream.backoff import Backoff
from pegboard.upstream.connection import (
    Changed,
    Connection,
    Negotiated,
    OnChanged,
    ServerState,
    Session,
    WatchedResources,
)

__all__ = ["ResourceSubscriptions", "watch_lists", "watch_resources"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_SECONDS_TO_TAKE_BACK = 1.0


class ResourceSubscriptions:
    """Subscribes to resources once, for as many as want to hear about each."""

    def __init__(
        self,
        config: ServerConfig,
        connection: Callable[[], Connection],
        *,
        watched: WatchedResources,
        on_updated: Callable[[str], None],
    ) -> None:
        self.watched: WatchedResources = watched
        self._config = config
        self._connection = connection
        self._on_updated = on_updated
        self._turns: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        """Of each address, for as long as somebody has or awaits it."""

    async def subscribe(self, uri: str) -> None:
        """Have the server tell when a resource changes.

        Raises:
            UpstreamError: when it cannot be asked, or does not agree.
        """
        name, limit = self._config.name, self._config.timeouts.call
        try:
            uri.encode()
        except UnicodeEncodeError:
            # It would end the session of everybody.
            problem = f"The address for server {name!r} has half of a character in it."
            raise UpstreamError(problem, server=name) from None
        async with self._turn(uri):
            is_first = self.watched.add(uri)
            try:
                with anyio.fail_after(limit):
                    await self._ask_for(uri, is_first=is_first)
            except BaseException as error:
                is_answer = isinstance(error, PegboardError) and not isinstance(error, TimeoutError)
                if self.watched.remove(uri) and not is_answer:
                    await self._take_back(uri)
                if isinstance(error, TimeoutError):
                    words = f"Server {name!r} did not answer `subscribe` within {limit:g} s."
                    raise ServerTimeoutError(words, server=name) from None
                raise

    async def unsubscribe(self, uri: str) -> None:
        """Take back one `subscribe`."""
        async with self._turn(uri):
            if self.watched.remove(uri) and self._is_legacy():
                await self._say_that_nobody_wants(uri, limit=self._config.timeouts.call)

    async def renew(self, session: Session) -> None:
        """Subscribe again over a new session; whoever subscribed is told to look again."""
        for uri in self.watched.uris:
            if session.negotiated.era == "legacy":
                try:
                    await session.request("resources/subscribe", {"uri": uri})
                except PegboardError as error:
                    context = {"server": self._config.name, "reason": str(error)}
                    logger.warning("subscription_lost: %s", error, extra=context)
            # Nobody told what happened meanwhile.
            self._on_updated(uri)

    def _turn(self, uri: str) -> anyio.Lock:
        return self._turns.setdefault(uri, anyio.Lock())

    async def _ask_for(self, uri: str, *, is_first: bool) -> None:
        connection = self._connection()
        await connection.open()
        if self._is_legacy():
            if is_first:
                await connection.request("resources/subscribe", {"uri": uri})
        elif not await self.watched.granted(uri):
            raise ProtocolError(
                f"Server {self._config.name!r} does not tell about changes of {uri!r}.",
                server=self._config.name,
            )

    async def _take_back(self, uri: str) -> None:
        """Undo what was asked and not answered: the server may agree later, and tell for ever."""
        if self._is_legacy():
            with anyio.CancelScope(shield=True):
                await self._say_that_nobody_wants(uri, limit=_SECONDS_TO_TAKE_BACK)

    async def _say_that_nobody_wants(self, uri: str, *, limit: float) -> None:
        connection = self._connection()
        if connection.state != ServerState.READY:
            return
        with anyio.move_on_after(limit):
            try:
                await connection.request("resources/unsubscribe", {"uri": uri})
            except PegboardError as error:
                # It may go on telling; nobody listens any more.
                context = {"server": self._config.name, "reason": str(error)}
                logger.debug("unsubscribe_failed: %s", error, extra=context)

    def _is_legacy(self) -> bool:
        said = self._connection().negotiated
        return said is not None and said.era == "legacy"


_LISTS = ("tools", "prompts", "resources")


async def watch_lists(
    client: Client, negotiated: Negotiated, *, name: str, on_changed: OnChanged
) -> None:
    """Tell which lists have changed, for as long as the server knows how to."""
    wanted = {kind: _offers(negotiated.capabilities, kind, "listChanged") for kind in _LISTS}
    backoff = Backoff()
    while any(wanted.values()):
        began = monotonic()
        try:
            async with client.listen(
                tools_list_changed=wanted["tools"],
                prompts_list_changed=wanted["prompts"],
                resources_list_changed=wanted["resources"],
            ) as events:
                await _report(events, on_changed)
        except (MCPError, ListenNotSupportedError, SubscriptionLost, TimeoutError) as error:
            if not _may_help(error, name):
                return
        # Also of one who ends every stream at once.
        backoff.ended(began=began)
        await anyio.sleep(backoff.pause)
        # Nobody told what happened meanwhile.
        for kind in _LISTS:
            if wanted[kind]:
                on_changed(cast("Changed", kind), "")


async def watch_resources(
    client: Client, watched: WatchedResources, *, name: str, on_changed: OnChanged
) -> None:
    """Tell which of the watched resources have changed, whichever are watched meanwhile."""
    nothing: frozenset[str] = frozenset()
    watched.answered(nothing, nothing)
    async with anyio.create_task_group() as group:
        listening: anyio.CancelScope | None = None
        while True:
            before, listening = listening, anyio.CancelScope()
            uris, opened = watched.uris, anyio.Event()
            if uris:
                listener = _Listener(client, watched, name=name, on_changed=on_changed)
                group.start_soon(listener.listen, uris, listening, opened)
                # The new stream first, so that nothing is missed in between.
                await opened.wait()
            else:
                watched.answered(nothing, nothing)
            if before is not None:
                before.cancel()
            if watched.uris == uris:
                await watched.changed()


class _Listener:
    def __init__(
        self, client: Client, watched: WatchedResources, *, name: str, on_changed: OnChanged
    ) -> None:
        self._client = client
        self._watched = watched
        self._name = name
        self._on_changed = on_changed

    async def listen(
        self, uris: frozenset[str], scope: anyio.CancelScope, opened: anyio.Event
    ) -> None:
        backoff = Backoff()
        with scope:
            while True:
                began = monotonic()
                try:
                    async with self._client.listen(resource_subscriptions=sorted(uris)) as events:
                        granted = frozenset(events.honored.resource_subscriptions or ())
                        self._watched.answered(uris, granted)
                        opened.set()
                        await _report(events, self._on_changed)
                except (MCPError, ListenNotSupportedError, SubscriptionLost, TimeoutError) as error:
                    self._watched.answered(uris, frozenset())
                    opened.set()
                    if not _may_help(error, self._name):
                        return
                backoff.ended(began=began)
                await anyio.sleep(backoff.pause)
                # Nobody told what happened meanwhile.
                for uri in uris:
                    self._on_changed("resource", uri)


async def _report(events: Subscription, on_changed: OnChanged) -> None:
    async for event in events:
        if isinstance(event, ResourceUpdated):
            on_changed("resource", event.uri)
            continue
        kind = type(event).__name__.removesuffix("ListChanged").lower()
        if kind in _LISTS:
            on_changed(cast("Changed", kind), "")


def _offers(capabilities: Mapping[str, object], kind: str, what: str) -> bool:
    offered = capabilities.get(kind)
    return isinstance(offered, Mapping) and bool(cast("Mapping[str, object]", offered).get(what))


def _may_help(error: Exception, name: str) -> bool:
    """Tell whether asking again may help."""
    if isinstance(error, ListenNotSupportedError):
        return False
    if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
        return False
    reason = type(error).__name__
    context = {"server": name, "reason": reason}
    logger.debug("watch_interrupted: server %r: %s", name, reason, extra=context)
    return True
