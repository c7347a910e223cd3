"""Resource subscriptions: subscribe once per resource, and again over each new session."""

import logging
from collections.abc import Callable
from weakref import WeakValueDictionary

import anyio

from pegboard.config import ServerConfig
from pegboard.errors import PegboardError, ProtocolError, ServerTimeoutError, UpstreamError
from pegboard.upstream.connection import Connection, ServerState, Session, WatchedResources

__all__ = ["ResourceSubscriptions"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_SECONDS_TO_TAKE_BACK = 1.0


class ResourceSubscriptions:
    """Subscribes to each resource once, for any number of subscribers."""

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
                await connection.request("resources/subscribe", {"uri": uri})
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
                await connection.request("resources/unsubscribe", {"uri": uri})
            except PegboardError as error:
                # The server may go on sending; its notifications are ignored.
                context = {"server": self._config.name, "reason": str(error)}
                logger.debug("unsubscribe_failed: %s", error, extra=context)

    def _is_legacy(self) -> bool:
        said = self._connection().negotiated
        return said is not None and said.era == "legacy"
