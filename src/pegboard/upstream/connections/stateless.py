"""StatelessConnection: each call has a session of its own, unless the server keeps none."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio

from pegboard.config import ServerConfig
from pegboard.errors import ConnectionLostError, PegboardError, ServerTimeoutError
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import (
    ConnectionCallbacks,
    ConnectionDeps,
    Negotiated,
    ServerState,
    Session,
)
from pegboard.upstream.connections.session_attempt import as_unavailable, session_opener
from pegboard.upstream.connections.stateful import StatefulConnection

__all__ = ["StatelessConnection"]


class StatelessConnection:
    """Gives every request a session of its own, unless the server keeps none anyway.

    A server of the modern era has no sessions, and some legacy servers create none: for these,
    each request is one exchange over shared HTTP connections, and costs no more than a stateful
    call. If the server requires a session, each request opens and ends one.
    """

    def __init__(
        self,
        config: ServerConfig,
        deps: ConnectionDeps,
        callbacks: ConnectionCallbacks | None = None,
    ) -> None:
        self.config: ServerConfig = config
        self._deps = deps
        self._first = StatefulConnection(config, deps, callbacks)

    @property
    def state(self) -> ServerState:
        """The state of the server."""
        return self._first.state

    @property
    def negotiated(self) -> Negotiated | None:
        """What the server said about itself."""
        return self._first.negotiated

    @property
    def last_error(self) -> str | None:
        """Why the server was last unreachable."""
        return self._first.last_error

    @property
    def failure(self) -> PegboardError | None:
        """The error with which connecting last failed."""
        return self._first.failure

    @property
    def startup_seconds(self) -> float | None:
        """How long the first exchange took."""
        return self._first.startup_seconds

    @property
    def starts(self) -> int:
        """How often the server was connected."""
        return self._first.starts

    @property
    def in_flight(self) -> int:
        """How many requests are running over the shared connection."""
        return self._first.in_flight

    async def open(self, *, tool: str = "") -> None:
        """Find out which era the server speaks, and whether it keeps sessions.

        Raises:
            ServerUnavailableError: when it cannot be reached.
        """
        await self._first.open(tool=tool)

    async def close(self) -> None:
        """Forget the server; any number of times."""
        await self._first.close()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        context: CallContext | None = None,
    ) -> dict[str, Any]:
        """Send one request in a session of its own and return its raw result.

        Raises:
            UpstreamError: when it failed; its ``sent`` says whether the server may have acted.
        """
        session = await self._first.session(tool=tool)
        if not session.keeps_session:
            return await self._first.request(method, params, tool=tool, context=context)
        exchange = partial(self._in_own_session, session, method, params, tool, context)
        try:
            try:
                return await exchange()
            except _NotOpenedError as error:
                if not isinstance(error.reason, ConnectionLostError):
                    raise
                # A server may close a kept connection just when the next handshake is on its way.
                # Only the handshake was sent, so it can be sent again.
                return await exchange()
        except _NotOpenedError as error:
            raise as_unavailable(error.reason, self.config) from error

    async def _in_own_session(
        self,
        first: Session,
        method: str,
        params: Mapping[str, Any] | None,
        tool: str,
        context: CallContext | None,
    ) -> dict[str, Any]:
        limit = self.config.timeouts.connect
        opener = await session_opener()
        answer: dict[str, Any] | None = None
        failure: PegboardError | None = None
        opened = False
        with anyio.CancelScope(deadline=anyio.current_time() + limit) as scope:
            try:
                async with opener(
                    self._first.config,
                    pool=self._deps.pool(),
                    greeting="legacy" if first.negotiated.era == "legacy" else "trust",
                    questions=self._deps.questions,
                    on_lost=_ignore,
                    on_changed=_ignore,
                ) as own:
                    opened = True
                    scope.deadline = float("inf")
                    try:
                        answer = await own.request(method, params, tool=tool, context=context)
                    except PegboardError as error:
                        failure = error
                    finally:
                        scope.deadline = anyio.current_time() + limit
            except PegboardError as error:
                if not opened:
                    raise _NotOpenedError(error) from error
                raise
        # The outcome counts, even if the server is so slow to close that the scope is cancelled.
        if failure is not None:
            raise failure
        if answer is not None:
            return answer
        # Only here if the scope was cancelled before the request was sent.
        raise ServerTimeoutError(
            f"Server {self.config.name!r} did not answer within {limit:g} s.",
            server=self.config.name,
            tool=tool,
        )

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list.

        Raises:
            UpstreamError: when it failed.
        """
        return await self._first.list_all(method)

    async def notify(self, method: str) -> None:
        """Send a notification, if there is a session."""
        await self._first.notify(method)

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on.

        Raises:
            ConfigError: when a header is invalid or reserved.
        """
        self._first.set_headers(headers)

    def use_cached(self, negotiated: Negotiated) -> None:
        """Use what an earlier run negotiated until the first session."""
        self._first.use_cached(negotiated)

    def blame(self, reason: str | None) -> None:
        """Set the last error of a server that is connected all the same."""
        self._first.blame(reason)


class _NotOpenedError(Exception):
    """The session for the request could not be opened."""

    def __init__(self, reason: PegboardError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _ignore(*_: object) -> None:
    pass
