"""One event loop in a thread of its own, for blocking callers of asynchronous tools."""

import asyncio  # noqa: TID251 - running an event loop is the matter of this file
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pegboard.errors import WouldDeadlockError

__all__ = ["run_in_background"]

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def run_in_background(work: Callable[[], Awaitable[T]], *, tool: str) -> T:
    """Run asynchronous work on the background loop and wait for it in this thread.

    The work sees the context variables of the caller. Interrupting the caller cancels the work.

    Raises:
        WouldDeadlockError: when this thread is the one that would have to do the work.
    """
    if threading.current_thread() is _thread:
        raise WouldDeadlockError(tool)
    future = asyncio.run_coroutine_threadsafe(_sealed(work), _running_loop())
    try:
        value, error = future.result()
    except BaseException:
        future.cancel()
        raise
    if error is not None:
        try:
            raise error
        finally:
            # The traceback of the error refers to this frame.
            del error
    return value  # pyright: ignore[reportReturnType]


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
                target=loop.run_forever, name="pegboard-background-loop", daemon=True
            )
            thread.start()
            # Only now: a thread that cannot be started must not leave a loop nobody runs.
            _loop, _thread = loop, thread
        return _loop


def _forget() -> None:
    # A forked child has the objects but not the thread.
    global _lock, _loop, _thread  # noqa: PLW0603
    _lock = threading.Lock()
    _loop = _thread = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
