"""ResourceWatches: the resources that clients watch, and their subscriptions at the servers."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import anyio
import anyio.lowlevel
from mcp_types import INVALID_PARAMS

from pegboard.errors import LimitReachedError, PegboardError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.passthrough.resources import Resources
from pegboard.gateway.request import RpcError, object_in
from pegboard.gateway.sessions import Listener
from pegboard.hub import Hub
from pegboard.policies.fair_share import FairShare, Holder

__all__ = ["SOON", "ResourceWatches", "watched_in"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

MOST = 1000
"""How many resources one client may watch."""
LONGEST = 100_000
"""How many characters their URIs may have together: the gateway keeps them all the time."""
SOON = 30.0
"""Seconds after which a client that exceeded a share of listening may try again."""
_AT_ONCE = 4
"""How many subscriptions of one request are made at the same time."""


class ResourceWatches:
    """Subscribes to resources of one hub for its clients.

    Args:
        hub: its servers send the updates.
        seconds: how long a client waits until the servers have accepted.
        shares: how many resources each caller watches.
    """

    def __init__(self, hub: Hub, *, seconds: float, shares: FairShare) -> None:
        self._hub = hub
        self._seconds = seconds
        self._shares = shares
        self._watchers: dict[tuple[str, str], dict[tuple[Listener, str], None]] = {}

    def watchers(self, origin: tuple[str, str]) -> list[tuple[Listener, str]]:
        """Return the listeners of a resource, each with the URI that it knows."""
        return list(self._watchers.get(origin, ()))

    async def add(self, listener: Listener, uri: str, origin: tuple[str, str]) -> None:
        """Subscribe a listener to updates of a resource.

        Raises:
            RpcError: when it would watch too many.
            LimitReachedError: when its caller watches too many.
            UpstreamError: when its server cannot be reached, or refuses.
        """
        if uri not in listener.uris:
            _check_amount(len(listener.uris) + 1, listener.uri_chars + len(uri))
            self._check_share(_holder_of(listener))
        await self._add(listener, uri, origin)

    async def add_all(
        self, listener: Listener, uris: Sequence[str], resources: Resources, caller: CallerContext
    ) -> None:
        """Subscribe a listener to the resources it may see, if their servers accept in time.

        Raises:
            LimitReachedError: when its caller would watch too many.
        """
        if not uris:
            return
        tell, holder = caller.request.on_watched or _ignore_outcome, _holder_of(listener)
        self._check_share(holder, len(uris))
        left = iter(uris)
        # All of them count at once, so that many requests at a time do not exceed the limit.
        self._shares.add(holder, len(uris))
        counted = 0

        async def work() -> None:
            nonlocal counted
            for uri in left:
                # Other tasks run in between.
                await anyio.lowlevel.checkpoint()
                self._shares.remove(holder)
                counted += 1
                tell(uri, await self._try_to_add(listener, uri, resources, caller))

        try:
            with anyio.move_on_after(self._seconds):
                async with anyio.create_task_group() as group:
                    for _ in range(min(_AT_ONCE, len(uris))):
                        group.start_soon(work)
        finally:
            if counted < len(uris):
                self._shares.remove(holder, len(uris) - counted)
            for uri in uris[counted:]:
                tell(uri, anyio.get_cancelled_exc_class()())

    async def _try_to_add(
        self, listener: Listener, uri: str, resources: Resources, caller: CallerContext
    ) -> BaseException | None:
        try:
            origin = await resources.usable(uri, caller)
            if origin is not None:
                await self._add(listener, uri, origin)
        except (RpcError, PegboardError) as error:
            # The acknowledgement leaves this resource out.
            logger.debug("not_watched: %s: %s", uri, error)
            return error
        return None

    async def remove(self, listener: Listener, uris: Iterable[str]) -> None:
        """Unsubscribe a listener from these resources."""
        for uri in uris:
            origin = self._forget(listener, uri)
            if origin is None:
                continue
            try:
                await self._hub.server(origin[0]).unsubscribe(origin[1])
            except PegboardError as error:
                logger.debug("not_unsubscribed: %s: %s", uri, error)

    async def _add(self, listener: Listener, uri: str, origin: tuple[str, str]) -> None:
        server = self._hub.server(origin[0])
        # A server that was removed and came back has lost its subscriptions.
        if uri in listener.uris and origin[1] in server.watched:
            return
        self._forget(listener, uri)
        listener.uris[uri] = origin
        listener.uri_chars += len(uri)
        self._watchers.setdefault(origin, {})[listener, uri] = None
        self._shares.add(_holder_of(listener))
        try:
            await server.subscribe(origin[1])
        except BaseException:
            self._forget(listener, uri)
            raise

    def _forget(self, listener: Listener, uri: str) -> tuple[str, str] | None:
        origin = listener.uris.pop(uri, None)
        if origin is None:
            return None
        listener.uri_chars -= len(uri)
        self._shares.remove(_holder_of(listener))
        watchers = self._watchers[origin]
        del watchers[listener, uri]
        if not watchers:
            del self._watchers[origin]
        return origin

    def _check_share(self, holder: Holder, amount: int = 1) -> None:
        if not self._shares.admits(holder, amount):
            setting = self._shares.setting
            words = f"You watch too many resources (`{setting}`). End some subscriptions."
            raise LimitReachedError(words, setting=setting, retry_after=SOON)


def watched_in(params: Mapping[str, Any]) -> list[str]:
    """Return the resources that a request to listen wants to watch, without duplicates.

    Raises:
        RpcError: when they are too many.
    """
    asked: object = object_in(params.get("notifications")).get("resourceSubscriptions")
    uris = cast("list[object]", asked) if isinstance(asked, list) else []
    watched = list(dict.fromkeys(uri for uri in uris if isinstance(uri, str)))
    _check_amount(len(watched), sum(map(len, watched)))
    return watched


def _check_amount(count: int, chars: int) -> None:
    if count > MOST or chars > LONGEST:
        words = f"A client may watch at most {MOST} resources, whose URIs have at most {LONGEST} "
        raise RpcError(INVALID_PARAMS, f"{words}characters together.")


def _holder_of(listener: Listener) -> Holder:
    principal = listener.client.principal
    return principal.tenant, principal.subject


def _ignore_outcome(_: str, __: BaseException | None) -> None:
    pass
