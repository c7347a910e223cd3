"""Bind local and remote functions as registry tools that return AgentScope's ToolResponse."""

import copy
import functools
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing
from typing import Any, TypeAlias, TypedDict, cast

import anyio

from pegboard.compat.agentscope.blocks import ToolResponse, ToolUseBlock, response_of
from pegboard.compat.agentscope.function import extract_json_schema
from pegboard.errors import ToolTimeoutError
from pegboard.model import ArgumentSchema, Step, Tool, ToolCall, ToolResult
from pegboard.registry import BoundTool, FunctionTool
from pegboard.registry.threads import run_in_thread

__all__ = ["Binding", "Postprocess", "bind_local", "bind_remote"]

Postprocess: TypeAlias = Callable[
    [ToolUseBlock, ToolResponse], ToolResponse | Awaitable[ToolResponse | None] | None
]
"""Sees each response before the agent; what it returns, unless ``None``, replaces the response."""


_Stream: TypeAlias = AsyncIterator[object] | Iterator[object]


class Binding(TypedDict, total=False):
    """Options of one tool, local or remote."""

    func_name: str | None
    func_description: str | None
    json_schema: Mapping[str, Any] | None
    """The whole definition, in the form of `Toolkit.get_json_schemas`."""
    preset_kwargs: Mapping[str, Any] | None
    """Arguments that the model can neither see nor change."""
    postprocess_func: Postprocess | None
    execution_timeout: float | None
    """After this many seconds, a call ends with `ToolTimeoutError`."""


def bind_local(function: Callable[..., Any], options: Binding) -> BoundTool:
    """Return a function of this process as a tool.

    Raises:
        InvalidToolError: when it cannot be described.
    """
    preset = options.get("preset_kwargs") or {}
    made = FunctionTool[..., Any].of(_with_preset(function, preset))
    schema = extract_json_schema(made.definition)
    return _bound(made.implementation().step, schema, options)


def bind_remote(
    function: Callable[..., Awaitable[Any]], schema: Mapping[str, Any], options: Binding
) -> BoundTool:
    """Return a function of a client as a tool.

    Raises:
        InvalidToolError: when its definition is broken.
    """
    preset = options.get("preset_kwargs") or {}

    async def step(call: ToolCall) -> object:
        call.started()
        return await function(**{**call.arguments, **preset})

    return _bound(step, schema, options)


def _bound(run: Step, schema: Mapping[str, Any], options: Binding) -> BoundTool:
    words: Mapping[str, Any] = (options.get("json_schema") or schema)["function"]
    parameters: Mapping[str, Any] = words.get("parameters") or {}
    tool = Tool(
        name=options.get("func_name") or words["name"],
        description=options.get("func_description") or words.get("description") or "",
        input_schema=_without(parameters, options.get("preset_kwargs") or {}),
    )
    ArgumentSchema(tool.input_schema, tool=tool.name)
    return BoundTool(tool, _answering(run, options), checked=True)


def _with_preset(function: Callable[..., Any], preset: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function with these arguments set and removed from its signature."""
    if not preset:
        return function
    signature = inspect.signature(function, eval_str=True)
    signature.bind_partial(**preset)
    # By name, because a preset parameter may come before one that is not set.
    left = [
        it.replace(kind=it.KEYWORD_ONLY) if it.kind is it.POSITIONAL_OR_KEYWORD else it
        for it in signature.parameters.values()
        if it.name not in preset
    ]
    bound: Any = functools.partial(function, **preset)
    functools.update_wrapper(bound, function)
    bound.__signature__ = signature.replace(parameters=left)
    return bound


def _without(schema: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a copy of an object's schema without these properties."""
    left: dict[str, Any] = copy.deepcopy(dict(schema))
    gone = set(names)
    for name in gone:
        left.get("properties", {}).pop(name, None)
    if "required" in left:
        left["required"] = [name for name in left["required"] if name not in gone]
    return left


def _answering(run: Step, options: Binding) -> Step:
    postprocess = options.get("postprocess_func")
    limit = options.get("execution_timeout")

    async def step(call: ToolCall) -> object:
        asked = ToolUseBlock(
            type="tool_use",
            id=call.meta.get("tool_use_id", ""),
            name=call.tool.name,
            input=call.arguments,
        )
        answer = await run(call)
        if not isinstance(answer, AsyncIterator | Iterator):
            return await _response(answer, asked, postprocess)
        stream = _stream(cast("_Stream", answer), asked, postprocess)
        return stream if limit is None else _in_time(stream, call.tool.name, limit)

    return step


async def _response(
    answer: object, asked: ToolUseBlock, postprocess: Postprocess | None
) -> ToolResponse:
    # Remote functions give a response, local ones whatever they like.
    response = answer if isinstance(answer, ToolResponse) else response_of(ToolResult.of(answer))
    if postprocess is None:
        return response
    seen = postprocess(asked, response)
    if isinstance(seen, Awaitable):
        seen = await seen
    return response if seen is None else seen


async def _stream(
    answer: _Stream, asked: ToolUseBlock, postprocess: Postprocess | None
) -> AsyncGenerator[ToolResponse]:
    # When the agent stops reading, the tool ends at once.
    async with aclosing(_chunks(answer)) as chunks:
        async for chunk in chunks:
            yield await _response(chunk, asked, postprocess)


async def _in_time(
    stream: AsyncGenerator[ToolResponse], tool: str, limit: float
) -> AsyncGenerator[ToolResponse]:
    """Yield responses until the tool exceeds its time limit; the reader's time does not count."""
    left = limit
    async with aclosing(stream):
        while True:
            began = anyio.current_time()
            response = None
            with anyio.move_on_after(left) as scope:
                response = await anext(stream, None)
            if scope.cancelled_caught:
                remedy = "raise its `execution_timeout`"
                raise ToolTimeoutError(tool, seconds=limit, remedy=remedy)
            if response is None:
                return
            left -= anyio.current_time() - began
            yield response


async def _chunks(answer: _Stream) -> AsyncGenerator[object]:
    if isinstance(answer, AsyncGenerator):
        async with aclosing(cast("AsyncGenerator[object]", answer)) as chunks:
            async for chunk in chunks:
                yield chunk
    elif isinstance(answer, AsyncIterator):
        async for chunk in answer:
            yield chunk
    else:
        end = object()
        # A generator that is not asynchronous may block between two chunks.
        while (chunk := await run_in_thread(lambda it: next(it, end), answer)) is not end:
            yield chunk
