"""LiteAI's `execute_tool`: run a tool with the arguments that a model gave, and return text."""

import asyncio  # noqa: TID251 - `anyio.run` refuses a thread that a task has started
import inspect
import json
from collections.abc import Coroutine, Mapping
from functools import singledispatch
from types import FunctionType, MethodType
from typing import Any, cast

from pegboard.compat.liteai.prepare import ToolDef, ToolFn
from pegboard.registry.background_loop import run_in_background
from pegboard.registry.implementation import is_async

__all__ = ["call_tool_fn_sync", "execute_tool", "execute_tool_sync"]


@singledispatch
async def execute_tool(tool: Any, arguments: str | dict[str, Any]) -> str:
    """Run a function, a method or a `ToolDef`, and return its result as text or JSON.

    Raises:
        ValueError: when the tool is of another kind, or the arguments are no JSON.
    """
    raise ValueError(f"Invalid tool type: {type(tool)}.")


@execute_tool.register(FunctionType)
@execute_tool.register(MethodType)
async def _(tool: ToolFn, arguments: str | dict[str, Any]) -> str:
    result = tool(**_arguments_normalizer(arguments))
    return _result_normalizer(await result if inspect.iscoroutinefunction(tool) else result)


@execute_tool.register
async def _(tool: ToolDef, arguments: str | dict[str, Any]) -> str:
    # Whatever can be called, not only a function.
    return await execute_tool.dispatch(FunctionType)(tool.execute, arguments)


@singledispatch
def execute_tool_sync(tool: Any, arguments: str | dict[str, Any]) -> str:
    """Run a tool as `execute_tool` does, from code without an event loop.

    Raises:
        ValueError: when the tool is of another kind, or the arguments are no JSON.
        RuntimeError: for an asynchronous tool, when this thread runs an event loop.
    """
    raise ValueError(f"Invalid tool type: {type(tool)}.")


@execute_tool_sync.register(FunctionType)
@execute_tool_sync.register(MethodType)
def _(tool: ToolFn, arguments: str | dict[str, Any]) -> str:
    given = _arguments_normalizer(arguments)
    if inspect.iscoroutinefunction(tool):
        return _result_normalizer(_run_here(tool(**given)))
    return _result_normalizer(tool(**given))


def _run_here(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return asyncio.run(work)
    finally:
        # It has not begun when a loop is running here, and must not be reported as forgotten.
        work.close()


@execute_tool_sync.register
def _(tool: ToolDef, arguments: str | dict[str, Any]) -> str:
    # Whatever can be called, not only a function.
    return execute_tool_sync.dispatch(FunctionType)(tool.execute, arguments)


def call_tool_fn_sync(tool: ToolFn, arguments: Mapping[str, Any] | None = None) -> Any:
    """Call a tool, asynchronous or not, and wait for it in this thread.

    Unlike `execute_tool_sync` it may be used where an event loop runs, and returns the result as
    it is.

    Raises:
        WouldDeadlockError: when this thread runs the event loop that has to do the work.
    """
    given = dict(arguments or {})
    function = cast("ToolFn", getattr(tool, "function", tool))
    if not is_async(function):
        return tool(**given)
    return run_in_background(lambda: function(**given), tool=getattr(tool, "__name__", "tool"))


def _arguments_normalizer(arguments: object) -> dict[str, Any]:
    if isinstance(arguments, str):
        return json.loads(arguments)
    if isinstance(arguments, dict):
        return cast("dict[str, Any]", arguments)
    raise ValueError(f"Invalid arguments type: {type(arguments)}.")


def _result_normalizer(result: object) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
