"""Calls of C++ that no thread may be in the middle of when the program ends."""

import atexit
import os
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["call_native", "under_way"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_LONGEST_WAIT = 3.0
_LOOK_EVERY = 0.001

under_way: set[object] = set()
"""A mark for each call of a daemon thread that has not come back."""
_ending = threading.Event()


def call_native(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Call a function of C++ that lets other threads run meanwhile.

    A daemon thread that comes back from there after the interpreter has ended is thrown out of
    C++ code, which aborts the whole process. So the end waits for those that are in it, and no
    other one gets in.
    """
    if not threading.current_thread().daemon:
        return function(*args, **kwargs)
    mark = object()
    # Marked first, looked second; the end does it the other way round, and none slips through.
    under_way.add(mark)
    try:
        if not _ending.is_set():
            return function(*args, **kwargs)
    finally:
        under_way.discard(mark)
    while True:
        # There is nobody left to give an answer to.
        threading.Event().wait()


def _let_finish() -> None:
    _ending.set()
    give_up = time.monotonic() + _LONGEST_WAIT
    while under_way and time.monotonic() < give_up:
        time.sleep(_LOOK_EVERY)


atexit.register(_let_finish)
if hasattr(os, "register_at_fork"):
    # Those threads are not in the child.
    os.register_at_fork(after_in_child=under_way.clear)
