"""Change listener: receive changes of lists and resources from servers of the modern era."""

import logging
from collections.abc import Mapping
from time import monotonic
from typing import cast

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import (
    ListenNotSupportedError,
    ResourceUpdated,
    Subscription,
    SubscriptionLost,
)

from pegboard.upstream.backoff import Backoff
from pegboard.upstream.connection import Changed, Negotiated, OnChanged, WatchedResources

__all__ = ["watch_lists", "watch_resources"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_LISTS = ("tools", "prompts", "resources")


async def watch_lists(
    client: Client, negotiated: Negotiated, *, name: str, on_changed: OnChanged
) -> None:
    """Report changed lists, for as long as the server supports that."""
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
        # Also for a server that ends every stream at once.
        backoff.ended(began=began)
        await anyio.sleep(backoff.pause)
        # Changes in between were not reported.
        for kind in _LISTS:
            if wanted[kind]:
                on_changed(cast("Changed", kind), "")


async def watch_resources(
    client: Client, watched: WatchedResources, *, name: str, on_changed: OnChanged
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
                # Changes in between were not reported.
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
    """Tell whether listening again may help."""
    if isinstance(error, ListenNotSupportedError):
        return False
    if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
        return False
    reason = type(error).__name__
    context = {"server": name, "reason": reason}
    logger.debug("watch_interrupted: server %r: %s", name, reason, extra=context)
    return True
