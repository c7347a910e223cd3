"""Implementation: run a registered tool, synchronous or asynchronous, as the innermost Step."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Never, cast

from pegboard.errors import NotImplementedToolError
from pegboard.model import Step, ToolCall
from pegboard.registry.background_loop import run_in_background
from pegboard.registry.threads import run_in_thread

__all__ = ["DEFINITION_ONLY", "Implementation", "is_async", "run_inline"]


def is_async(function: object) -> bool:
    """Tell whether calling the function gives an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - for objects whose __call__ is a coroutine
    )


class Implementation:
    """Runs a tool: a function of the ToolCall that returns a value or an awaitable.

    It counts itself (`ToolCall.started`) right before the tool's own code begins.
    """

    __slots__ = ("asynchronous", "step")

    def __init__(self, run: Callable[[ToolCall], Any], *, asynchronous: bool) -> None:
        self.asynchronous: bool = asynchronous
        self.step: Step = run if asynchronous else _sync_step(run)


def _sync_step(run: Callable[[ToolCall], object]) -> Step:
    async def run_sync(call: ToolCall) -> object:
        value = run(call) if call.inline else await run_in_thread(run, call)
        # A synchronous function may still return a coroutine: `lambda: fetch(...)`.
        if not hasattr(type(value), "__await__"):
            return value
        awaitable = cast("Awaitable[object]", value)
        if call.inline:
            return run_in_background(lambda: awaitable, tool=call.tool.name)
        return await awaitable

    return run_sync


async def _refuse(call: ToolCall) -> Never:
    raise NotImplementedToolError(call.tool.name)


DEFINITION_ONLY: Implementation = Implementation(_refuse, asynchronous=False)
"""For a tool without an implementation: it refuses every call."""
DEFINITION_ONLY.step = _refuse


def run_inline(work: Awaitable[object]) -> object:
    """Run work that never waits, and return its value."""
    coroutine = work.__await__()
    try:
        next(coroutine)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("A step that may wait was run without an event loop.")
