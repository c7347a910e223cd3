"""BackgroundLogin: an OAuth login that goes on after the call that started it."""

import copy
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import httpx2

from pegboard.errors import ServerAuthenticationError

__all__ = ["BackgroundLogin", "Send"]

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class BackgroundLogin:
    """Runs one login at a time, in a background task.

    Args:
        start_soon: starts work in a background task.
        send: sends a request of the login, without credentials of the server.
    """

    def __init__(
        self, start_soon: Callable[[Callable[[], Awaitable[object]]], object], send: Send
    ) -> None:
        self.send: Send = send
        self._start_soon = start_soon
        self._over: anyio.Event | None = None
        self._error: ServerAuthenticationError | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a login is running."""
        return self._over is not None

    def begin(self, log_in: Callable[[], Awaitable[None]]) -> None:
        """Start a login, unless one is running."""
        if self._over is None:
            self._over, self._error = anyio.Event(), None
            self._start_soon(partial(self._run, log_in, self._over))

    async def wait(self, seconds: float) -> bool:
        """Wait for the end of the login; return false if it takes longer.

        Raises:
            ServerAuthenticationError: when the login failed.
        """
        with anyio.move_on_after(seconds):
            if self._over is not None:
                await self._over.wait()
            if self._error is not None:
                # A copy for each caller: each may add to its traceback.
                raise copy.copy(self._error)
            return True
        return False

    async def _run(self, log_in: Callable[[], Awaitable[None]], over: anyio.Event) -> None:
        try:
            await log_in()
        except ServerAuthenticationError as error:
            self._error = error
        finally:
            self._over = None
            over.set()
