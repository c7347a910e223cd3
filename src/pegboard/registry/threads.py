"""A thread pool for synchronous tools, so that they never block an event loop.

Not anyio's or the standard library's pool: both wait at exit for a thread that never returns, and
both let abandoned threads use up the limit. Ours are daemons, and an abandoned one stops counting.
"""

import asyncio  # noqa: TID251 - results are handed to whichever event loop waits for them
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

__all__ = ["context_of_asyncio", "run_in_thread"]

T = TypeVar("T")

LIMIT = 64
IDLE_SECONDS = 10.0

_nested: ContextVar[bool] = ContextVar("pegboard_in_tool_thread", default=False)


async def run_in_thread(function: Callable[[T], object], argument: T) -> object:
    """Run a synchronous function in a thread of the pool and wait for it without blocking.

    When the waiting task is cancelled, a function that has not begun never runs, and one that has
    is abandoned: it goes on, and its result is dropped.
    """
    job = _Job(partial(function, argument))
    _pool.submit(job)
    try:
        value, error = await asyncio.wrap_future(job.done)
    except BaseException:
        _pool.abandon(job)
        raise
    if error is not None:
        raise error
    return value


def context_of_asyncio() -> Context:
    """Return a context in which anyio knows the event loop although no task is running.

    Where `sniffio` is installed, anyio asks it, and it looks at the running task. What the event
    loop calls is none, so that no task could be started for a message.
    """
    context = copy_context()
    # anyio has imported it where it is installed.
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


class _Job:
    __slots__ = ("context", "done", "function", "nested", "released")

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.nested = _nested.get()
        self.context = copy_context()
        self.context.run(_nested.set, True)  # noqa: FBT003
        # Where sniffio is installed, anyio believes it, and a tool could run no loop of its own.
        sniffio = sys.modules.get("sniffio")
        if sniffio is not None:
            self.context.run(sniffio.current_async_library_cvar.set, None)
        # The outcome is a pair, because a Future refuses to carry some exceptions.
        self.done: Future[tuple[object, BaseException | None]] = Future()
        self.released = False
        """True once it no longer counts as one of the busy threads."""

    def run(self) -> None:
        if not self.done.set_running_or_notify_cancel():
            return
        try:
            self.done.set_result((self.context.run(self.function), None))
        except BaseException as error:  # noqa: BLE001
            self.done.set_result((None, error))


class _Pool:
    def __init__(self) -> None:
        # Re-entrant, because the garbage collector may close a waiting coroutine at any moment.
        self._lock = threading.RLock()
        self._depth = 0
        self._busy = 0
        self._pending: dict[_Job, None] = {}
        self._idle: list[SimpleQueue[_Job]] = []
        self._unstarted: deque[_Job] = deque()

    def submit(self, job: _Job) -> None:
        if sys.is_finalizing():
            raise RuntimeError("The interpreter is shutting down; no more tools can be run.")
        with self._changing():
            # A tool that calls a tool holds a thread while it waits: making the inner call wait for
            # one of the same threads could block both for ever.
            if self._busy >= LIMIT and not job.nested:
                self._pending[job] = None
            else:
                self._start(job)

    def abandon(self, job: _Job) -> None:
        with self._changing():
            if job in self._pending:
                del self._pending[job]
            else:
                self._release(job)

    @contextmanager
    def _changing(self) -> Generator[None]:
        with self._lock:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            outermost = self._depth == 0
        # Never with the lock held: starting waits for the new thread, which may wait for the lock.
        while outermost and self._unstarted:
            with suppress(IndexError):
                self._spawn(self._unstarted.popleft())

    def _start(self, job: _Job) -> None:
        self._busy += 1
        try:
            inbox = self._idle.pop()
        except IndexError:
            self._unstarted.append(job)
        else:
            inbox.put(job)

    def _spawn(self, job: _Job) -> None:
        inbox: SimpleQueue[_Job] = SimpleQueue()
        inbox.put(job)
        worker = threading.Thread(
            target=self._work, args=(inbox,), name="pegboard-tool", daemon=True
        )
        try:
            worker.start()
        except RuntimeError as error:  # the system has no more threads to give
            if job.done.set_running_or_notify_cancel():
                job.done.set_result((None, error))
            with self._changing():
                self._release(job)

    def _release(self, job: _Job) -> None:
        if job.released:
            return
        job.released = True
        self._busy -= 1
        if self._pending and self._busy < LIMIT:
            waiting = next(iter(self._pending))
            del self._pending[waiting]
            self._start(waiting)

    def _work(self, inbox: SimpleQueue[_Job]) -> None:
        while True:
            try:
                job = inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                # Another thread gave this one work in the last moment.
                job = inbox.get()
            job.run()
            with self._changing():
                self._idle.append(inbox)
                self._release(job)
            del job


_pool = _Pool()


def _forget() -> None:
    # A forked child has the objects but not the threads.
    global _pool  # noqa: PLW0603
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
