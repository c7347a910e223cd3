"""The life of one session, from the wish to have it until its process or socket is gone."""

import anyio

from pegboard.config import ServerConfig
from pegboard.errors import (
    ConnectionLostError,
    PegboardError,
    ProtocolError,
    ServerAuthenticationError,
    ServerUnavailableError,
)

__all__ = ["SessionAttempt", "Slot", "as_unavailable"]


class SessionAttempt:
    """One session from the wish to have it until its process or socket is gone."""

    def __init__(self, previous: "SessionAttempt | None") -> None:
        self.previous = previous
        self.settled: anyio.Event = anyio.Event()
        self.error: PegboardError | None = None
        self.over: anyio.Event = anyio.Event()
        self.ended: anyio.Event = anyio.Event()
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.lost_because: str | None = None


class Slot:
    """One of the few places for servers that are starting."""

    def __init__(self, starts: anyio.CapacityLimiter) -> None:
        self._starts = starts
        self._held = False

    async def take(self) -> None:
        """Wait for a place."""
        await self._starts.acquire_on_behalf_of(self)
        self._held = True

    def give_back(self) -> None:
        """Let somebody else start; any number of times."""
        if self._held:
            self._held = False
            self._starts.release_on_behalf_of(self)


def as_unavailable(
    error: Exception, config: ServerConfig, lost: str | None = None
) -> PegboardError:
    """Return the error for somebody who waited for a session that could not be opened.

    ``lost`` says why the server went away, where its transport has noticed.
    """
    if isinstance(error, ServerAuthenticationError) or (
        isinstance(error, ServerUnavailableError) and lost is None
    ):
        return error
    if isinstance(error, ProtocolError) and lost is None:
        # It says itself which server answered what.
        message = str(error)
    else:
        reason = lost or config.redact(str(error))
        if isinstance(error, ConnectionLostError) and lost is None:
            reason = "it closed the connection before it was ready."
        message = f"Server {config.name!r} could not be started: {reason}"
    unavailable = ServerUnavailableError(message, server=config.name)
    unavailable.__cause__ = error
    return unavailable
