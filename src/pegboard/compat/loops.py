"""Work that tasks of several event loops share: done on one loop, or in turn."""

import asyncio  # noqa: TID251 - reaching one loop from another is the matter of this file
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio.to_thread

from pegboard.errors import WouldDeadlockError
from pegboard.policies.concurrency import blocked_threads
from pegboard.registry.background_loop import on_background_loop, run_in_background

__all__ = ["Turns", "in_background"]

T = TypeVar("T")


async def in_background(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do work on Pegboard's background loop and wait for it, from whichever loop."""
    if on_background_loop():
        return await work()
    loop = await anyio.to_thread.run_sync(lambda: run_in_background(_current_loop, tool=""))
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))


class Turns:
    """A lock for tasks of any event loop: one at a time, in the order they came."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: list[_Ticket] = []

    @asynccontextmanager
    async def next(self, *, tool: str = "") -> AsyncGenerator[None]:
        """Wait for a turn; it lasts as long as the context.

        Raises:
            WouldDeadlockError: when the caller blocks a loop whose turn comes first.
        """
        mine = _Ticket()
        with self._guard:
            if any(ticket.thread in blocked_threads.get() for ticket in self._queue):
                raise WouldDeadlockError(tool)
            self._queue.append(mine)
            self._call_first()
        try:
            await asyncio.wrap_future(mine.called)
            yield
        finally:
            with self._guard:
                self._queue.remove(mine)
                self._call_first()

    def _call_first(self) -> None:
        if self._queue and not self._queue[0].called.done():
            self._queue[0].called.set_result(None)


class _Ticket:
    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.called: Future[None] = Future()
        # From now on it cannot be cancelled: who gives up leaves the queue instead.
        self.called.set_running_or_notify_cancel()


async def _current_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
