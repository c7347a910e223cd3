"""Concurrency: so many calls at once, so many waiting, no more."""

import asyncio  # noqa: TID251 - callers come from several event loops, which anyio cannot bridge
import threading
from collections import deque
from concurrent.futures import Future
from contextvars import ContextVar
from typing import ClassVar

from pegboard.errors import QueueFullError
from pegboard.model import Step, ToolCall
from pegboard.policies.policy import Target

__all__ = ["Concurrency"]

_held: ContextVar[frozenset[int]] = ContextVar("pegboard_held_places", default=frozenset())


class Concurrency:
    """A number of places, shared by every tool this object is given to.

    Given to a registry it bounds all its calls together; given to one tool, the calls of that tool.
    A tool that calls another tool of the same registry keeps its place and needs no second one, so
    nested calls cannot block each other.

    Args:
        limit: how many calls run at once.
        queue: how many may wait for a place; one more is refused with `QueueFullError`.
    """

    needs_loop: ClassVar[bool] = True

    def __init__(self, limit: int, *, queue: int = 1000) -> None:
        if limit < 1 or queue < 0:
            raise ValueError("`limit` must be at least 1 and `queue` at least 0.")
        self.limit = limit
        self.queue = queue
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[Future[None]] = deque()

    def __repr__(self) -> str:
        return f"Concurrency({self.limit!r}, queue={self.queue!r})"

    def wrap(self, step: Step, target: Target) -> Step:
        """Let the step run only while it holds a place."""
        name = target.tool.name

        async def bounded(call: ToolCall) -> object:
            held = _held.get()
            if id(self) in held:
                return await step(call)
            await self._acquire(name)
            mark = _held.set(held | {id(self)})
            try:
                return await step(call)
            finally:
                _held.reset(mark)
                self._release()

        return bounded

    async def _acquire(self, name: str) -> None:
        with self._lock:
            if self._running < self.limit:
                self._running += 1
                return
            if len(self._waiting) >= self.queue:
                raise QueueFullError(name, limit=self.limit, queue=self.queue)
            turn: Future[None] = Future()
            self._waiting.append(turn)
        try:
            await asyncio.wrap_future(turn)
        except BaseException:
            with self._lock:
                granted = turn not in self._waiting
                if not granted:
                    self._waiting.remove(turn)
            # Cancelled in the moment between being granted the place and taking it.
            if granted:
                self._release()
            raise

    def _release(self) -> None:
        with self._lock:
            self._running -= 1
            while self._waiting and self._running < self.limit:
                self._running += 1
                turn = self._waiting.popleft()
                # The waiter that cancelled itself meanwhile gives the place back by itself.
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
