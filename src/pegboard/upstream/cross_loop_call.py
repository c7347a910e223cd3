"""CrossLoopCall: work that one event loop does for another, which may end or block meanwhile."""

import asyncio  # noqa: TID251 - two event loops are the matter of this file
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Generic, TypeVar

from pegboard.errors import ConnectionLostError, NotConnectedError, ToolTimeoutError, UpstreamError

__all__ = ["CrossLoopCall"]

T = TypeVar("T")

ROUND = 1.0
"""How often whoever waits looks whether the other loop still runs."""


class CrossLoopCall(Generic[T]):
    """One piece of work for another loop, on behalf of whoever awaits `run`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]) -> None:
        self._loop = loop
        self._work = work
        self._has_begun = False
        self._silent_since: float | None = monotonic()

    async def run(self, *, server: str, tool: str, limit: float) -> T:
        """Have it done and return its result; a caller who is cancelled cancels it.

        Raises:
            NotConnectedError: when the loop ended before it began.
            ConnectionLostError: when the loop ended after that.
            ToolTimeoutError: when the loop was blocked for longer than the limit.
        """
        work = self._begin()
        try:
            future = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except RuntimeError:
            work.close()
            raise self.ended(server=server, tool=tool) from None
        try:
            while not (await asyncio.wait([future], timeout=min(ROUND, limit)))[0]:
                if not self._is_alive():
                    raise self.ended(server=server, tool=tool)
                if self._silent_for() > limit:
                    remedy = "do not block the event loop of its hub, or raise `timeouts.call`"
                    raise ToolTimeoutError(tool, seconds=limit, remedy=remedy)
        finally:
            if not self._loop.is_closed():
                future.cancel()
        if future.cancelled():
            # Not by us: whoever ends a loop cancels what is left on it.
            raise self.ended(server=server, tool=tool)
        return future.result()

    async def _begin(self) -> T:
        self._has_begun = True
        self._hear()
        return await self._work()

    def _hear(self) -> None:
        self._silent_since = None

    def _silent_for(self) -> float:
        return 0.0 if self._silent_since is None else monotonic() - self._silent_since

    def _is_alive(self) -> bool:
        if not self._loop.is_running():
            return False
        if self._silent_since is None:
            self._silent_since = monotonic()
            try:
                self._loop.call_soon_threadsafe(self._hear)
            except RuntimeError:
                return False
        return True

    def ended(self, *, server: str, tool: str) -> UpstreamError:
        """Return the error for a loop that does not run any more."""
        if self._has_begun:
            return ConnectionLostError(
                "The event loop on which the connections live has ended meanwhile. The call may "
                "have run all the same: look before you repeat it.",
                server=server,
                tool=tool,
            )
        return NotConnectedError(
            "The event loop on which the connections were opened does not run any more. "
            "Open them again.",
            server=server,
            tool=tool,
        )
