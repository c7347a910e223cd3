"""Concurrency: limit how many calls run at once, and how many wait in the queue."""

import asyncio  # noqa: TID251 - callers come from several event loops, which anyio cannot bridge
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from time import perf_counter
from typing import ClassVar

from pegboard.errors import QueueFullError, WouldDeadlockError
from pegboard.model import Step, ToolCall
from pegboard.model.call import Phases
from pegboard.model.fork_guard import GuardedLock
from pegboard.policies.policy import Target

__all__ = ["Concurrency", "blocked_threads"]

blocked_threads: ContextVar[frozenset[int]] = ContextVar("pegboard_blocked", default=frozenset())
"""Threads that wait for the current call, each with an event loop that is blocked meanwhile."""


class _Slot:
    """One of the slots, while a call holds it."""

    __slots__ = ("active", "pool", "thread")

    def __init__(self, pool: "Concurrency") -> None:
        self.pool = pool
        self.active = True
        self.thread = threading.get_ident()


_held: ContextVar[tuple[_Slot, ...]] = ContextVar("pegboard_slots", default=())


class Concurrency:
    """A number of slots, shared by every tool that this object is given to.

    Given to a registry, it limits all calls of the registry together; given to one tool, the calls
    of that tool. A tool that calls other tools of the same registry keeps its slot, and they need
    none, so nested calls cannot block each other. How many tools a tool calls at once is not
    limited. It belongs to the process that made it: a forked child makes its own.

    Args:
        limit: how many calls run at once.
        queue: how many calls may wait for a slot; one more is refused with `QueueFullError`.
    """

    needs_loop: ClassVar[bool] = True

    def __init__(self, limit: int, *, queue: int = 1000) -> None:
        if limit < 1 or queue < 0:
            raise ValueError("`limit` must be at least 1, and `queue` at least 0.")
        self.limit = limit
        self.queue = queue
        # Re-entrant, because the garbage collector may close a waiting coroutine at any moment.
        self._lock = GuardedLock("concurrency limit")
        self._slots: set[_Slot] = set()
        self._waiting: dict[Future[None], asyncio.AbstractEventLoop] = {}
        self._granted = 0

    def __repr__(self) -> str:
        return f"Concurrency({self.limit!r}, queue={self.queue!r})"

    def wrap(self, step: Step, target: Target) -> Step:
        """Run the step only while it holds a slot."""
        name = target.tool.name

        async def bounded(call: ToolCall) -> object:
            # A task that a tool leaves behind inherits its slot, for as long as the tool has it.
            held = tuple(slot for slot in _held.get() if slot.active)
            if any(slot.pool is self for slot in held):
                return await step(call)
            slot = await self._acquire(name, call.phases)
            mark = _held.set((*held, slot))
            try:
                return await step(call)
            finally:
                self._release(slot)
                # A coroutine that is closed from elsewhere ends in another context.
                with suppress(ValueError):
                    _held.reset(mark)

        return bounded

    async def _acquire(self, name: str, phases: Phases | None = None) -> _Slot:
        slot = _Slot(self)
        turn: Future[None] = Future()
        loop = asyncio.get_running_loop()
        with self._lock:
            if len(self._slots) + self._granted < self.limit:
                self._slots.add(slot)
                return slot
            if len(self._waiting) >= self.queue:
                raise QueueFullError(name, limit=self.limit, queue=self.queue)
            if self._only_held_by(blocked_threads.get()):
                raise WouldDeadlockError(name)
            self._waiting[turn] = loop
        began = perf_counter()
        try:
            await asyncio.wrap_future(turn)
        except BaseException:
            with self._lock:
                if turn in self._waiting:
                    del self._waiting[turn]
                else:
                    # Cancelled in the moment between being granted a slot and taking it.
                    self._granted -= 1
                    self._grant()
            raise
        finally:
            if phases is not None:
                phases.queued += perf_counter() - began
        with self._lock:
            self._granted -= 1
            self._slots.add(slot)
        return slot

    def _release(self, slot: _Slot) -> None:
        with self._lock:
            slot.active = False
            self._slots.discard(slot)
            self._grant()

    def _grant(self) -> None:
        while self._waiting and len(self._slots) + self._granted < self.limit:
            turn = next(iter(self._waiting))
            loop = self._waiting.pop(turn)
            if loop.is_closed():
                continue
            self._granted += 1
            # A waiter that was cancelled meanwhile gives the slot back by itself.
            if turn.set_running_or_notify_cancel():
                turn.set_result(None)

    def _only_held_by(self, threads: frozenset[int]) -> bool:
        """Tell whether no slot can become free, because the loops of all holders are blocked."""
        return bool(threads) and all(slot.thread in threads for slot in self._slots)
