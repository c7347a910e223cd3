"""Concurrency: so many calls at once, so many waiting, no more."""

import asyncio  # noqa: TID251 - callers come from several event loops, which anyio cannot bridge
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from typing import ClassVar

from pegboard.errors import QueueFullError, WouldDeadlockError
from pegboard.model import Step, ToolCall
from pegboard.model.fork_guard import GuardedLock
from pegboard.policies.policy import Target

__all__ = ["Concurrency", "blocked_threads"]

blocked_threads: ContextVar[frozenset[int]] = ContextVar("pegboard_blocked", default=frozenset())
"""Threads that wait for the current call, each with an event loop that stands still meanwhile."""


class _Place:
    """One of the places, while a call holds it."""

    __slots__ = ("active", "pool", "thread")

    def __init__(self, pool: "Concurrency") -> None:
        self.pool = pool
        self.active = True
        self.thread = threading.get_ident()


_held: ContextVar[tuple[_Place, ...]] = ContextVar("pegboard_places", default=())


class Concurrency:
    """A number of places, shared by every tool this object is given to.

    Given to a registry it bounds all its calls together; given to one tool, the calls of that tool.
    A tool that calls other tools of the same registry keeps its place and they need none, so nested
    calls cannot block each other; how many a tool calls at once is its own business.

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
        # Re-entrant, because the garbage collector may close a waiting coroutine at any moment.
        self._lock = GuardedLock("concurrency limit")
        self._places: set[_Place] = set()
        self._waiting: dict[Future[None], asyncio.AbstractEventLoop] = {}
        self._granted = 0

    def __repr__(self) -> str:
        return f"Concurrency({self.limit!r}, queue={self.queue!r})"

    def wrap(self, step: Step, target: Target) -> Step:
        """Let the step run only while it holds a place."""
        name = target.tool.name

        async def bounded(call: ToolCall) -> object:
            # Tasks that a tool leaves behind inherit its place, but not for longer than it has it.
            held = tuple(place for place in _held.get() if place.active)
            if any(place.pool is self for place in held):
                return await step(call)
            place = await self._acquire(name)
            mark = _held.set((*held, place))
            try:
                return await step(call)
            finally:
                self._release(place)
                # A coroutine that is closed from elsewhere ends in another context.
                with suppress(ValueError):
                    _held.reset(mark)

        return bounded

    async def _acquire(self, name: str) -> _Place:
        place = _Place(self)
        turn: Future[None] = Future()
        loop = asyncio.get_running_loop()
        with self._lock:
            if len(self._places) + self._granted < self.limit:
                self._places.add(place)
                return place
            if len(self._waiting) >= self.queue:
                raise QueueFullError(name, limit=self.limit, queue=self.queue)
            if self._only_held_by(blocked_threads.get()):
                raise WouldDeadlockError(name)
            self._waiting[turn] = loop
        try:
            await asyncio.wrap_future(turn)
        except BaseException:
            with self._lock:
                if turn in self._waiting:
                    del self._waiting[turn]
                else:
                    # Cancelled in the moment between being granted a place and taking it.
                    self._granted -= 1
                    self._grant()
            raise
        with self._lock:
            self._granted -= 1
            self._places.add(place)
        return place

    def _release(self, place: _Place) -> None:
        with self._lock:
            place.active = False
            self._places.discard(place)
            self._grant()

    def _grant(self) -> None:
        while self._waiting and len(self._places) + self._granted < self.limit:
            turn = next(iter(self._waiting))
            loop = self._waiting.pop(turn)
            if loop.is_closed():
                continue
            self._granted += 1
            # A waiter that cancelled itself meanwhile gives the place back by itself.
            if turn.set_running_or_notify_cancel():
                turn.set_result(None)

    def _only_held_by(self, threads: frozenset[int]) -> bool:
        """Tell whether nobody can free a place, because the loops of all holders stand still."""
        return bool(threads) and all(place.thread in threads for place in self._places)
