"""The background event loop: it runs asynchronous tools for blocking callers, in its own thread."""

import asyncio  # noqa: TID251 - running an event loop is the matter of this file
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

from pegboard.errors import WouldDeadlockError
from pegboard.policies.concurrency import blocked_threads

__all__ = ["on_background_loop", "run_in_background"]

logger: logging.Logger = logging.getLogger("pegboard.registry")

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def on_background_loop() -> bool:
    """Tell whether the current thread is the one that runs the background loop."""
    return threading.current_thread() is _thread


def run_in_background(work: Callable[[], Awaitable[T]], *, tool: str) -> T:
    """Run asynchronous work on the background loop and wait for it in this thread.

    The work sees the context variables of the caller. Interrupting the caller cancels the work.

    Raises:
        WouldDeadlockError: when this thread is the one that would have to do the work.
    """
    if on_background_loop():
        raise WouldDeadlockError(tool)
    if sys.is_finalizing():
        raise RuntimeError("The interpreter is shutting down; no more tools can be run.")
    context = copy_context()
    if _has_running_loop():
        blocked = context.run(blocked_threads.get)
        context.run(blocked_threads.set, blocked | {threading.get_ident()})
    loop = _running_loop()
    # Before anything runs: an interrupt may come at any moment, and has to find what to cancel.
    done: Future[tuple[T | None, BaseException | None]] = Future()
    try:
        loop.call_soon_threadsafe(_start, work, done, context=context)
        value, error = done.result()
    except BaseException:
        done.cancel()
        raise
    if error is not None:
        raise error
    return value  # pyright: ignore[reportReturnType]


def _start(
    work: Callable[[], Awaitable[T]], done: Future[tuple[T | None, BaseException | None]]
) -> None:
    if done.cancelled():
        return
    loop = asyncio.get_running_loop()
    task = loop.create_task(_sealed(work))

    def finish(_: object) -> None:
        if not task.cancelled() and done.set_running_or_notify_cancel():
            done.set_result(task.result())

    def cancel(_: object) -> None:
        if done.cancelled():
            loop.call_soon_threadsafe(task.cancel)

    task.add_done_callback(finish)
    done.add_done_callback(cancel)


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(loop: asyncio.AbstractEventLoop) -> None:
    # For ever: a task that a tool left behind may raise SystemExit or stop the loop.
    while True:
        try:
            loop.run_forever()
        except BaseException:
            logger.exception("background_loop_interrupted")


async def _sealed(work: Callable[[], Awaitable[T]]) -> tuple[T | None, BaseException | None]:
    # As a value, because SystemExit or KeyboardInterrupt raised in a task would end the loop for
    # every other caller.
    try:
        return await work(), None
    except BaseException as error:  # noqa: BLE001
        return None, error


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_run, args=(loop,), name="pegboard-background-loop", daemon=True
            )
            thread.start()
            # Only now: a thread that cannot be started must not leave a loop that no thread runs.
            _loop, _thread = loop, thread
        return _loop


def _forget() -> None:
    # A forked child has the objects but not the thread.
    global _lock, _loop, _thread  # noqa: PLW0603
    _lock = threading.Lock()
    _loop = _thread = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
