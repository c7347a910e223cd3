"""Nursery: a task group with a task of its own, so that any task may open and close it."""

import asyncio  # noqa: TID251 - a task that no caller's task group owns is the matter of this file
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import anyio

from pegboard.errors import NotConnectedError, WouldDeadlockError
from pegboard.model.forks import start_anew_in_children
from pegboard.policies.concurrency import blocked_threads

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ["PATIENCE", "Nursery"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger: logging.Logger = logging.getLogger("pegboard.upstream")

PATIENCE = 30.0
"""The longest that closing waits: far more than ending the most stubborn process takes."""


class Nursery:
    """Holds the tasks that own connections; knows the event loop they live on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._group: TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._ready = anyio.Event()
        self._is_ending = False
        self._guests: set[asyncio.Task[Any] | None] = set()
        self._asides: set[asyncio.Task[None]] = set()
        self.after_fork()
        start_anew_in_children(self)

    def after_fork(self) -> None:
        """Start anew: a forked child has neither the threads nor the event loops of its parent."""
        self._deciding = threading.Lock()
        self._loop = self._task = self._group = None

    @property
    def is_open(self) -> bool:
        """True while tasks can be started: it was opened, and its event loop runs."""
        return self._group is not None and not self._is_ending and not self._is_gone()

    async def open(self) -> None:
        """Start the task, unless it runs or is being started, on this loop or another."""
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

    def start_aside(self, work: Callable[[], Awaitable[object]]) -> None:
        """Start work that ends the others, and so cannot be one of them."""
        aside = asyncio.get_running_loop().create_task(
            _contained(work), context=contextvars.Context()
        )
        # A task that nobody holds may be collected before it has ended.
        self._asides.add(aside)
        aside.add_done_callback(self._asides.discard)

    async def close(self) -> None:
        """Cancel everything and wait for its end; from any task or loop, any number of times."""
        task, loop = self._task, self._loop
        if task is None or loop is None or not (loop.is_running() or self.is_home()):
            self._group = self._task = None
            return
        await self.at_home(self._end)

    async def at_home(self, work: Callable[[], Awaitable[T]], *, tool: str = "") -> T:
        """Run work on the loop that the tasks live on, wherever the caller is.

        Raises:
            NotConnectedError: when that loop is gone.
            WouldDeadlockError: when that loop is blocked by the caller's own blocking call.
        """
        loop = self._loop
        if loop is asyncio.get_running_loop():
            return await work()
        if loop is None or not loop.is_running():
            problem = (
                "Nothing is connected yet. Connect first."
                if loop is None
                else "The event loop on which the connections were opened does not run any more. "
                "Open them again."
            )
            raise NotConnectedError(problem, server=self._name, tool=tool)
        if self._thread in blocked_threads.get():
            raise WouldDeadlockError(tool)
        future = asyncio.run_coroutine_threadsafe(_as_coroutine(work), loop)
        return await asyncio.wrap_future(future)

    @contextmanager
    def guest(self) -> Generator[None]:
        """Run code of others inside one of the tasks: it must not wait for the end of them all."""
        task = asyncio.current_task()
        self._guests.add(task)
        try:
            yield
        finally:
            self._guests.discard(task)

    def is_guest(self) -> bool:
        """Tell whether the caller is such code."""
        return bool(self._guests) and asyncio.current_task() in self._guests

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
        logger.exception("task_failed")


async def _as_coroutine(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
