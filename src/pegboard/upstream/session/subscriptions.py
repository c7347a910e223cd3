"""Subscriptions: changes of lists and resources, of servers of both eras, over any session."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any, cast
from weakref import WeakValueDictionary

import anyio

from pegboard.config import ServerConfig
from pegboard.errors import PegboardError, ProtocolError, ServerTimeoutError, UpstreamError
from pegboard.upstream.backoff import Backoff
from pegboard.upstream.connection import (
    Changed,
    Negotiated,
    OnChanged,
    Request,
    ServerState,
    Session,
    WatchedResources,
)
from pegboard.upstream.connections.delivery import deliver
from pegboard.upstream.connections.stateful import StatefulConnection
from pegboard.upstream.messages.failures import FailedError
from pegboard.upstream.messages.jsonrpc import ServerRpcError
from pegboard.upstream.messages.protocol import METHOD_NOT_FOUND
from pegboard.upstream.session.incoming import OnEvent

__all__ = ["Listen", "ResourceSubscriptions", "watch_lists", "watch_resources"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

Listen = Callable[[Mapping[str, Any], OnEvent], Awaitable[None]]
"""Listens for what a filter names until the server ends the stream; see `Session.listen`."""

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_UPDATED = "notifications/resources/updated"
_LISTS: dict[str, Changed] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}


async def watch_lists(
    listen: Listen, negotiated: Negotiated, *, name: str, on_changed: OnChanged
) -> None:
    """Report changed lists, for as long as the server supports that."""
    kinds: list[Changed] = [
        kind for kind in _LISTS.values() if _offers(negotiated.capabilities, kind)
    ]

    def heard(method: str, _: Mapping[str, Any]) -> None:
        kind = _LISTS.get(method)
        if kind is not None and kind in kinds:
            on_changed(kind, "")

    backoff = Backoff()
    while kinds:
        began = monotonic()
        try:
            await listen({f"{kind}ListChanged": True for kind in kinds}, heard)
        except (ServerRpcError, FailedError) as error:
            if not _may_help(error, name):
                return
        # Also for a server that ends every stream at once.
        backoff.ended(began=began)
        await anyio.sleep(backoff.pause)
        # Changes in between were not reported.
        for kind in kinds:
            on_changed(kind, "")


async def watch_resources(
    listen: Listen, watched: WatchedResources, *, name: str, on_changed: OnChanged
) -> None:
    """Report changes of the subscribed resources, also of those that are added meanwhile."""
    nothing: frozenset[str] = frozenset()
    watched.answered(nothing, nothing)
    async with anyio.create_task_group() as group:
        listening: anyio.CancelScope | None = None
        while True:
            before, listening = listening, anyio.CancelScope()
            uris, opened = watched.uris, anyio.Event()
            if uris:
                listener = _ResourceListener(listen, watched, name=name, on_changed=on_changed)
                group.start_soon(listener.run, uris, listening, opened)
                # The new stream first, so that nothing is missed in between.
                await opened.wait()
            else:
                watched.answered(nothing, nothing)
            if before is not None:
                before.cancel()
            if watched.uris == uris:
                await watched.changed()


class _ResourceListener:
    def __init__(
        self, listen: Listen, watched: WatchedResources, *, name: str, on_changed: OnChanged
    ) -> None:
        self._listen = listen
        self._watched = watched
        self._name = name
        self._on_changed = on_changed

    async def run(
        self, uris: frozenset[str], scope: anyio.CancelScope, opened: anyio.Event
    ) -> None:
        def heard(method: str, params: Mapping[str, Any]) -> None:
            if method == _ACKNOWLEDGED:
                self._watched.answered(uris, _granted(params))
                opened.set()
            elif method == _UPDATED:
                self._on_changed("resource", str(params.get("uri", "")))

        backoff = Backoff()
        with scope:
            while True:
                began = monotonic()
                try:
                    await self._listen({"resourceSubscriptions": sorted(uris)}, heard)
                except (ServerRpcError, FailedError) as error:
                    self._watched.answered(uris, frozenset())
                    opened.set()
                    if not _may_help(error, self._name):
                        return
                else:
                    if not opened.is_set():
                        # It ended the stream without granting anything.
                        self._watched.answered(uris, frozenset())
                        opened.set()
                backoff.ended(began=began)
                await anyio.sleep(backoff.pause)
                # Changes in between were not reported.
                for uri in uris:
                    self._on_changed("resource", uri)


def _granted(params: Mapping[str, Any]) -> frozenset[str]:
    honored: object = params.get("notifications")
    if not isinstance(honored, Mapping):
        return frozenset()
    uris: object = cast("Mapping[str, object]", honored).get("resourceSubscriptions")
    if not isinstance(uris, list):
        return frozenset()
    return frozenset(it for it in cast("list[object]", uris) if isinstance(it, str))


def _offers(capabilities: Mapping[str, object], kind: str) -> bool:
    offered = capabilities.get(kind)
    return isinstance(offered, Mapping) and bool(
        cast("Mapping[str, object]", offered).get("listChanged")
    )


def _may_help(error: Exception, name: str) -> bool:
    """Tell whether listening again may help."""
    if isinstance(error, ServerRpcError) and error.code == METHOD_NOT_FOUND:
        return False
    if isinstance(error, FailedError) and error.failure.status == 404:
        # The HTTP spelling of a missing method.
        return False
    context = {"server": name, "reason": str(error)}
    logger.debug("watch_interrupted: server %r: %s", name, error, extra=context)
    return True


logger: logging.Logger = logging.getLogger("pegboard.upstream")

_SECONDS_TO_TAKE_BACK = 1.0


class ResourceSubscriptions:
    """Subscribes to each resource once, for any number of subscribers."""

    def __init__(
        self,
        config: ServerConfig,
        connection: Callable[[], StatefulConnection],
        *,
        watched: WatchedResources,
        on_updated: Callable[[str], None],
    ) -> None:
        self.watched: WatchedResources = watched
        self._config = config
        self._connection = connection
        self._on_updated = on_updated
        self._turns: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        """A lock for each URI, for as long as a task holds it or waits for it."""

    async def subscribe(self, uri: str) -> None:
        """Subscribe to the changes of a resource.

        Raises:
            UpstreamError: when the server cannot be reached, or refuses.
        """
        name, limit = self._config.name, self._config.timeouts.call
        try:
            uri.encode()
        except UnicodeEncodeError:
            # Sending it would end the session for all clients.
            problem = f"The URI for server {name!r} has half of a character in it."
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
        """Undo one `subscribe`."""
        async with self._turn(uri):
            if self.watched.remove(uri) and self._is_legacy():
                await self._unsubscribe_at_server(uri, limit=self._config.timeouts.call)

    async def renew(self, session: Session) -> None:
        """Subscribe again over a new session, and report each resource as changed."""
        for uri in self.watched.uris:
            if session.negotiated.era == "legacy":
                try:
                    await session.request("resources/subscribe", {"uri": uri})
                except PegboardError as error:
                    context = {"server": self._config.name, "reason": str(error)}
                    logger.warning("subscription_lost: %s", error, extra=context)
            # Changes in between were not reported.
            self._on_updated(uri)

    def _turn(self, uri: str) -> anyio.Lock:
        return self._turns.setdefault(uri, anyio.Lock())

    async def _ask_for(self, uri: str, *, is_first: bool) -> None:
        connection = self._connection()
        await connection.open()
        if self._is_legacy():
            if is_first:
                await deliver(connection, _request("resources/subscribe", uri))
        elif not await self.watched.granted(uri):
            raise ProtocolError(
                f"Server {self._config.name!r} does not report changes of {uri!r}.",
                server=self._config.name,
            )

    async def _take_back(self, uri: str) -> None:
        """Undo a subscription without a response: the server may still accept it later."""
        if self._is_legacy():
            with anyio.CancelScope(shield=True):
                await self._unsubscribe_at_server(uri, limit=_SECONDS_TO_TAKE_BACK)

    async def _unsubscribe_at_server(self, uri: str, *, limit: float) -> None:
        connection = self._connection()
        if connection.state != ServerState.READY:
            return
        with anyio.move_on_after(limit):
            try:
                await deliver(connection, _request("resources/unsubscribe", uri))
            except PegboardError as error:
                # The server may go on sending; its notifications are ignored.
                context = {"server": self._config.name, "reason": str(error)}
                logger.debug("unsubscribe_failed: %s", error, extra=context)

    def _is_legacy(self) -> bool:
        said = self._connection().negotiated
        return said is not None and said.era == "legacy"


def _request(method: str, uri: str) -> Request:
    return Request(method=method, params={"uri": uri}, tool=method)
