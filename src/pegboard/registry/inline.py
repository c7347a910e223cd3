"""Run a step that never waits, in the caller's thread and without an event loop."""

from collections.abc import Awaitable

__all__ = ["run_inline"]


def run_inline(work: Awaitable[object]) -> object:
    """Return what the work gives."""
    coroutine = work.__await__()
    try:
        next(coroutine)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("A step that may wait was run without an event loop.")
