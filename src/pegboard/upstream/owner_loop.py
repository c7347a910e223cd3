"""OwnerLoop: the event loop and the task that own connections, for callers on any loop."""

import asyncio  # noqa: TID251 - tasks outside of every task group, and two event loops
import contextvars
import logging
import math
import threading
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple

import anyio

from pegboard.errors import (
    ConnectionLostError,
    NotConnectedError,
    PegboardError,
    ToolTimeoutError,
    UpstreamError,
    WouldDeadlockError,
)
from pegboard.model.fork_guard import GuardedLock
from pegboard.policies.concurrency import blocked_threads

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ["PATIENCE", "CrossLoopCall", "OwnerLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger: logging.Logger = logging.getLogger("pegboard.upstream")

PATIENCE = 30.0
"""The longest that closing waits: far more than ending the most stubborn process takes."""
ROUND = 1.0
"""Seconds between two checks whether the other loop still runs."""

_callbacks: contextvars.ContextVar[frozenset[object]] = contextvars.ContextVar(
    "pegboard_callbacks", default=frozenset()
)
"""The callbacks that the current code, and every task it started, belongs to."""


class OwnerLoop:
    """Holds the tasks that own connections, and runs work on their event loop.

    Any task, on any event loop, may open and close it: the task group has a task of its own.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._group: TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._ready = anyio.Event()
        self._is_ending = False
        self._running_callbacks: set[object] = set()
        # Python may collect a task without a reference before it has ended.
        self._detached_tasks: set[asyncio.Task[Any]] = set()
        # A forked child has neither the threads nor the event loops of its parent.
        self._deciding = GuardedLock("connection", threading.Lock())

    @property
    def is_open(self) -> bool:
        """True while tasks can be started: it was opened, and its event loop runs."""
        if self._deciding.in_child:
            return False
        return self._group is not None and not self._is_ending and not self._is_gone()

    async def open(self) -> None:
        """Start the task, unless it runs or is starting, on this loop or another.

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
        await self.run(ready.wait)

    @property
    def generation(self) -> object:
        """An object that is different after each opening."""
        return self._task

    @property
    def loop(self) -> object:
        """The event loop of the tasks."""
        return self._loop

    def _is_gone(self) -> bool:
        return self._loop is None or not self._loop.is_running()

    def start_soon(self, work: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start work in the background; what it raises is logged."""
        assert self._group is not None
        self._group.start_soon(_contained, work, *args)

    async def run_to_end(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run work in a task of its own, which goes on if the caller is cancelled."""
        return await self.run(lambda: _end_of(self._detach(work)))

    async def run_shutdown(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run work to its end that ends our tasks; a callback of such a task only starts it."""
        if self.in_callback():
            await self.run(lambda: self._begin(work))
        else:
            await self.run_to_end(work)

    async def _begin(self, work: Callable[[], Awaitable[object]]) -> None:
        self._detach(lambda: _contained(work))

    def _detach(self, work: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        # In no task group, because it may end the groups, and in no callback.
        task = asyncio.get_running_loop().create_task(
            _as_coroutine(work), context=contextvars.Context()
        )
        self._detached_tasks.add(task)
        task.add_done_callback(self._detached_tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel all tasks and wait for their end; from any task or loop, any number of times.

        A forked child does nothing: the tasks belong to its parent.
        """
        if self._deciding.in_child:
            return
        task, loop = self._task, self._loop
        if task is None or loop is None or not (loop.is_running() or self.is_current()):
            self._group = self._task = None
            return
        await self.run(self._end)

    async def run(
        self, work: Callable[[], Awaitable[T]], *, tool: str = "", limit: float = math.inf
    ) -> T:
        """Run work on the loop of the tasks, from any loop.

        Args:
            work: what to run.
            tool: the tool that is called, for errors.
            limit: how many seconds that loop may be blocked.

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
        call = CrossLoopCall(loop, work)
        if not loop.is_running():
            raise call.ended(server=self._name, tool=tool)
        if self._thread in blocked_threads.get():
            raise WouldDeadlockError(tool)
        return await call.run(server=self._name, tool=tool, limit=limit)

    async def run_callback(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a callback of the application in a task of its own.

        The callback must not wait for the end of our tasks (see `run_shutdown`), nor they for its
        end: a caller that is cancelled meanwhile cancels the callback and does not wait for it,
        since it may wait for a thread or a person.
        """
        callback = object()

        async def called() -> T:
            _callbacks.set(_callbacks.get() | {callback})
            return await work()

        self._running_callbacks.add(callback)
        task = asyncio.get_running_loop().create_task(called())
        self._detached_tasks.add(task)
        task.add_done_callback(self._detached_tasks.discard)
        task.add_done_callback(lambda _: self._running_callbacks.discard(callback))
        try:
            return await _end_of(task)
        finally:
            task.cancel()

    def in_callback(self) -> bool:
        """Tell whether the caller is such a callback, or was started by one."""
        return not self._running_callbacks.isdisjoint(_callbacks.get())

    def is_current(self) -> bool:
        """Tell whether the caller is on the loop of the tasks."""
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


class CrossLoopCall(Generic[T]):
    """Work that one event loop does for another, which may end or block meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]) -> None:
        self._loop = loop
        self._work = work
        self._has_begun = False
        self._silent_since: float | None = monotonic()

    async def run(self, *, server: str, tool: str, limit: float) -> T:
        """Run the work on the other loop and return its result; cancelling `run` cancels it.

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
            # Not by us: the end of a loop cancels what is left on it.
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
                "The event loop of the connections has ended meanwhile. The call may have run all "
                "the same: look before you repeat it.",
                server=server,
                tool=tool,
            )
        return NotConnectedError(
            "The event loop on which the connections were opened is no longer running. "
            "Open them again.",
            server=server,
            tool=tool,
        )


async def _contained(work: Callable[..., Awaitable[object]], *args: object) -> None:
    try:
        await work(*args)
    except Exception:
        logger.exception("task_failed: %s", getattr(work, "__qualname__", work))


async def _end_of(task: asyncio.Task[T]) -> T:
    # Not `await task`, which would cancel the task with its caller, and wait all the same.
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.add_done_callback(_log_failure)
        raise
    return task.result()


def _log_failure(task: "asyncio.Task[Any]") -> None:
    """Log a failure that no caller waits for; asyncio would print a traceback."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, PegboardError):
        logger.error("task_failed: %s", task.get_name(), exc_info=error)


async def _as_coroutine(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
