"""SessionAttempt: one attempt to open a session, and the session until it has ended."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module

import anyio
import anyio.to_thread

from pegboard.config import ServerConfig
from pegboard.errors import (
    ConnectionLostError,
    PegboardError,
    ProtocolError,
    ServerAuthenticationError,
    ServerUnavailableError,
)
from pegboard.upstream.connection import Session

__all__ = ["SessionAttempt", "Slot", "as_unavailable", "session_opener"]


class SessionAttempt:
    """One session, from the decision to open it until its process or socket is gone."""

    def __init__(self, previous: "SessionAttempt | None") -> None:
        self.previous = previous
        self.settled: anyio.Event = anyio.Event()
        self.error: PegboardError | None = None
        self.over: anyio.Event = anyio.Event()
        self.ended: anyio.Event = anyio.Event()
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.lost_because: str | None = None


class Slot:
    """One of the few slots for servers that start at the same time."""

    def __init__(self, starts: anyio.CapacityLimiter) -> None:
        self._starts = starts
        self._held = False

    async def take(self) -> None:
        """Wait for a free slot."""
        await self._starts.acquire_on_behalf_of(self)
        self._held = True

    def give_back(self) -> None:
        """Free the slot for another server; any number of times."""
        if self._held:
            self._held = False
            self._starts.release_on_behalf_of(self)


def as_unavailable(
    error: Exception, config: ServerConfig, lost: str | None = None
) -> PegboardError:
    """Return the error for a caller that waited for a session that could not be opened.

    ``lost`` says why the server went away, if its transport has noticed.
    """
    if isinstance(error, ServerAuthenticationError) or (
        isinstance(error, ServerUnavailableError) and lost is None
    ):
        return error
    if isinstance(error, ProtocolError) and lost is None:
        # Its message names the server and its response.
        message = str(error)
    else:
        reason = lost or config.redact(str(error))
        if isinstance(error, ConnectionLostError) and lost is None:
            reason = "it closed the connection before it was ready."
        message = f"Server {config.name!r} could not be started: {reason}"
    unavailable = ServerUnavailableError(message, server=config.name)
    unavailable.__cause__ = error
    return unavailable


async def session_opener() -> Callable[..., AbstractAsyncContextManager[Session]]:
    """Return the function that opens a session; import it in a thread if needed."""
    # The HTTP library takes a while to import, and a hub with a cached catalog may never need it.
    module = await anyio.to_thread.run_sync(import_module, "pegboard.upstream.session.session")
    return module.open_session
