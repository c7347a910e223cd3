"""Watches: the resources that clients want to hear of, and the servers that tell of them."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

import anyio
import anyio.lowlevel
from mcp_types import INVALID_PARAMS

from pegboard.errors import PegboardError
from pegboard.gateway.exchange import RpcError
from pegboard.gateway.listener import Listener
from pegboard.gateway.objects import object_in
from pegboard.gateway.own_tool import Visit
from pegboard.gateway.resources import Resources
from pegboard.hub import Hub

__all__ = ["Watches", "watched_in"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

MOST = 1000
"""So many resources one client may want to hear of,"""
LONGEST = 100_000
"""with addresses of so many characters together: they are kept for as long as it listens."""
_AT_ONCE = 16
"""So many a server is asked for at a time by one request."""


class Watches:
    """Subscribes to resources of one hub for its clients.

    Args:
        hub: whose servers tell.
        seconds: how long a client waits until they have agreed.
    """

    def __init__(self, hub: Hub, *, seconds: float) -> None:
        self._hub = hub
        self._seconds = seconds

    async def add(self, listener: Listener, uri: str, origin: tuple[str, str]) -> None:
        """Have a listener told when a resource changes.

        Raises:
            RpcError: when it would watch too many.
            UpstreamError: when its server cannot be asked, or does not agree.
        """
        server = self._hub.server(origin[0])
        # A server that was removed, and is back, knows nothing of it any more.
        if uri in listener.uris and origin[1] in server.watched.uris:
            return
        _check_amount({*listener.uris, uri})
        listener.uris[uri] = origin
        try:
            await server.subscribe(origin[1])
        except BaseException:
            listener.uris.pop(uri, None)
            raise

    async def add_all(
        self, listener: Listener, uris: Iterable[str], resources: Resources, visit: Visit
    ) -> None:
        """Have a listener told of those that exist for it, and whose servers agree in time."""
        tell = visit.exchange.on_watched or _tell_nobody
        turns = defaultdict[str, anyio.Semaphore](lambda: anyio.Semaphore(_AT_ONCE))

        async def add(uri: str) -> None:
            try:
                origin = await resources.usable(uri, visit)
                if origin is not None:
                    async with turns[origin[0]]:
                        await self.add(listener, uri, origin)
            except (RpcError, PegboardError) as error:
                # What is not acknowledged is not promised.
                logger.debug("not_watched: %s: %s", uri, error)
                tell(uri, error)
            except BaseException as error:
                tell(uri, error)
                raise
            else:
                tell(uri, None)

        with anyio.move_on_after(self._seconds):
            async with anyio.create_task_group() as group:
                for uri in uris:
                    group.start_soon(add, uri)
                    # Others have a turn between two; all are started, for each is told of.
                    await anyio.lowlevel.cancel_shielded_checkpoint()

    async def remove(self, listener: Listener, uris: Iterable[str]) -> None:
        """Have a listener told no more of these."""
        for uri in uris:
            origin = listener.uris.pop(uri, None)
            if origin is None:
                continue
            try:
                await self._hub.server(origin[0]).unsubscribe(origin[1])
            except PegboardError as error:
                logger.debug("not_unsubscribed: %s: %s", uri, error)


def watched_in(params: Mapping[str, Any]) -> list[str]:
    """Return the resources that a request to listen asks to watch, each once.

    Raises:
        RpcError: when they are too many.
    """
    asked: object = object_in(params.get("notifications")).get("resourceSubscriptions")
    uris = cast("list[object]", asked) if isinstance(asked, list) else []
    watched = list(dict.fromkeys(uri for uri in uris if isinstance(uri, str)))
    _check_amount(watched)
    return watched


def _check_amount(uris: Collection[str]) -> None:
    if len(uris) > MOST or sum(map(len, uris)) > LONGEST:
        words = f"A client may watch {MOST} resources, whose addresses have {LONGEST} characters "
        raise RpcError(INVALID_PARAMS, f"{words}together, and no more.")


def _tell_nobody(_: str, __: BaseException | None) -> None:
    pass
