"""OwnerLoop: a task group with a task of its own, so that any task may open and close it."""

import asyncio  # noqa: TID251 - a task that no caller's task group owns is the matter of this file
import contextvars
import logging
import math
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import anyio

from pegboard.errors import NotConnectedError, PegboardError, WouldDeadlockError
from pegboard.model.fork_guard import GuardedLock
from pegboard.policies.concurrency import blocked_threads
from pegboard.upstream.cross_loop_call import CrossLoopCall

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ["PATIENCE", "OwnerLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger: logging.Logger = logging.getLogger("pegboard.upstream")

PATIENCE = 30.0
"""The longest that closing waits: far more than ending the most stubborn process takes."""

_visits: contextvars.ContextVar[frozenset[object]] = contextvars.ContextVar(
    "visits", default=frozenset()
)
"""Which questions and progress notes the current code, and every task it started, belongs to."""


class OwnerLoop:
    """Holds the tasks that own connections; knows the event loop they live on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._group: TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._ready = anyio.Event()
        self._is_ending = False
        self._guests: set[object] = set()
        # A task that nobody holds may be collected before it has ended.
        self._asides: set[asyncio.Task[Any]] = set()
        # A forked child has neither the threads nor the event loops of its parent.
        self._deciding = GuardedLock("connection", threading.Lock())

    @property
    def is_open(self) -> bool:
        """True while tasks can be started: it was opened, and its event loop runs."""
        if self._deciding.in_child:
            return False
        return self._group is not None and not self._is_ending and not self._is_gone()

    async def open(self) -> None:
        """Start the task, unless it runs or is being started, on this loop or another.

        Raises:
            ForkedProcessError: in a forked child.
        """
        self._deciding.check()
        loop = asyncio.get_running_loop()
        if self._is_ending and self._loop is loop and self._task is not None:
            await asyncio.wait([self._task])
        with self._deciding:
            if self._task is None or self._task.done() or self._is_gone():
                self._loop = loop
                self._thread = threading.get_ident()
                self._ready = anyio.Event()
                self._is_ending = False
                # A context of its own: the opener's would otherwise live as long as we do.
                self._task = loop.create_task(
                    self._run(self._ready),
                    name=f"pegboard {self._name}",
                    context=contextvars.Context(),
                )
            ready = self._ready
        await self.at_home(ready.wait)

    @property
    def opening(self) -> object:
        """Another object for each time that it is opened."""
        return self._task

    @property
    def home(self) -> object:
        """The event loop that the tasks live on."""
        return self._loop

    def _is_gone(self) -> bool:
        return self._loop is None or not self._loop.is_running()

    def start_soon(self, work: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start work that nobody waits for; what it raises is logged."""
        assert self._group is not None
        self._group.start_soon(_contained, work, *args)

    async def see_through(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run work in a task of its own: a caller who is cancelled leaves, and it goes on."""
        return await self.at_home(lambda: _end_of(self._aside(work)))

    async def end_by(self, work: Callable[[], Awaitable[object]]) -> None:
        """See work through that ends tasks of ours; code that one of them called only begins it."""
        if self.is_guest():
            await self.at_home(lambda: self._begin(work))
        else:
            await self.see_through(work)

    async def _begin(self, work: Callable[[], Awaitable[object]]) -> None:
        self._aside(lambda: _contained(work))

    def _aside(self, work: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        # Of no group, because it may end the groups; and nobody's guest.
        task = asyncio.get_running_loop().create_task(
            _as_coroutine(work), context=contextvars.Context()
        )
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
        return task

    async def close(self) -> None:
        """Cancel everything and wait for its end; from any task or loop, any number of times.

        A forked child does nothing: the tasks are its parent's.
        """
        if self._deciding.in_child:
            return
        task, loop = self._task, self._loop
        if task is None or loop is None or not (loop.is_running() or self.is_home()):
            self._group = self._task = None
            return
        await self.at_home(self._end)

    async def at_home(
        self, work: Callable[[], Awaitable[T]], *, tool: str = "", limit: float = math.inf
    ) -> T:
        """Run work on the loop that the tasks live on, wherever the caller is.

        Args:
            work: what to run.
            tool: for errors: the tool that is called.
            limit: how many seconds that loop may be blocked by somebody.

        Raises:
            NotConnectedError: when that loop is gone.
            ConnectionLostError: when it ended after the work had begun.
            ToolTimeoutError: when it was blocked for longer than the limit.
            WouldDeadlockError: when that loop is blocked by the caller's own blocking call.
            ForkedProcessError: in a forked child.
        """
        self._deciding.check()
        loop = self._loop
        if loop is asyncio.get_running_loop():
            return await work()
        if loop is None:
            problem = "Nothing is connected yet. Connect first."
            raise NotConnectedError(problem, server=self._name, tool=tool)
        errand = CrossLoopCall(loop, work)
        if not loop.is_running():
            raise errand.ended(server=self._name, tool=tool)
        if self._thread in blocked_threads.get():
            raise WouldDeadlockError(tool)
        return await errand.run(server=self._name, tool=tool, limit=limit)

    async def as_guest(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run code of others, in a task of its own.

        It must not wait for the end of our tasks (see `end_by`), nor they for its end: whoever is
        cancelled meanwhile cancels it and leaves, although it may wait for a thread or a person.
        """
        visit = object()

        async def visited() -> T:
            _visits.set(_visits.get() | {visit})
            return await work()

        self._guests.add(visit)
        task = asyncio.get_running_loop().create_task(visited())
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
        task.add_done_callback(lambda _: self._guests.discard(visit))
        try:
            return await _end_of(task)
        finally:
            task.cancel()

    def is_guest(self) -> bool:
        """Tell whether the caller is such code, or was started by it."""
        return not self._guests.isdisjoint(_visits.get())

    def is_home(self) -> bool:
        """Tell whether the caller is on the loop that the tasks live on."""
        return self._loop is asyncio.get_running_loop()

    async def _run(self, ready: anyio.Event) -> None:
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                ready.set()
                await anyio.sleep_forever()
        finally:
            self._group = None
            ready.set()

    async def _end(self) -> None:
        task = self._task
        if task is None or task.done() or task is asyncio.current_task():
            return
        with anyio.move_on_after(PATIENCE, shield=True):
            # It may be just about to be opened.
            await self._ready.wait()
            self._is_ending = True
            if self._group is not None:
                self._group.cancel_scope.cancel()
            await asyncio.wait([task])


async def _contained(work: Callable[..., Awaitable[object]], *args: object) -> None:
    try:
        await work(*args)
    except Exception:
        logger.exception("task_failed: %s", getattr(work, "__qualname__", work))


async def _end_of(task: asyncio.Task[T]) -> T:
    # Not `await task`, which would cancel it with whoever waits, and wait all the same.
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.add_done_callback(_end_unseen)
        raise
    return task.result()


def _end_unseen(task: "asyncio.Task[Any]") -> None:
    """Take note of a failure that nobody waits for; asyncio would tell of it with a traceback."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, PegboardError):
        logger.error("task_failed: %s", task.get_name(), exc_info=error)


async def _as_coroutine(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
