"""Run AgentScope's registered tools: a call in the core registry, then a stream of ToolResponse."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
)
from contextlib import aclosing
from typing import TypeAlias, cast

import anyio

from pegboard.compat.agentscope.blocks import Block, TextBlock, ToolResponse, response_of, saying
from pegboard.compat.agentscope.registered import RegisteredToolFunction
from pegboard.errors import PegboardError, ToolTimeoutError, UpstreamError
from pegboard.model import Tool, ToolCall, ToolResult
from pegboard.registry import BoundTool
from pegboard.registry.threads import run_in_thread

__all__ = [
    "Finish",
    "bind",
    "chunks_of",
    "failed",
    "failure",
    "gathered",
    "in_time",
    "interrupted",
    "only",
    "responses",
    "words_of",
]

Finish: TypeAlias = Callable[[ToolResponse], Awaitable[ToolResponse]]
"""Makes the response that the agent sees."""

_Stream: TypeAlias = AsyncIterator[object] | Iterator[object]


def bind(name: str, tool: RegisteredToolFunction, *, in_thread: bool) -> BoundTool:
    """Return a tool for the core registry, where it has that name.

    Its result is what the function returns.

    A function that is not asynchronous runs in the event loop, as the agent's own code does, or
    else in a thread, where a time limit can end the wait for it.

    Raises:
        InvalidToolError: when its name or its definition is none.
    """
    words = tool.extended_json_schema["function"]
    definition = Tool(
        name=name,
        description=words.get("description") or "",
        input_schema=words["parameters"],
        server=tool.mcp_name,
    )

    async def step(call: ToolCall) -> object:
        call.started()
        arguments = {**call.arguments, **tool.preset_kwargs}

        def run(function: Callable[..., object]) -> object:
            return function(**arguments)

        function = tool.original_func
        value = await run_in_thread(run, function) if in_thread else run(function)
        return await cast("Awaitable[object]", value) if isinstance(value, Awaitable) else value

    return BoundTool(definition, step, checked=True)


async def responses(
    answer: object, finish: Finish, *, raise_errors: bool
) -> AsyncGenerator[ToolResponse]:
    """Yield what a tool returned: one response, or as many as it yields.

    When an asynchronous generator is cancelled, the last response says so, unless it is to raise.
    """
    last: ToolResponse | None = None
    try:
        # When the agent stops reading, the tool ends at once.
        async with aclosing(chunks_of(answer)) as chunks:
            async for chunk in chunks:
                last = await finish(_response(chunk))
                yield last
    except anyio.get_cancelled_exc_class():
        if raise_errors or not isinstance(answer, AsyncIterator):
            raise
        yield await finish(interrupted(last))


async def gathered(answer: object) -> ToolResponse:
    """Return what a tool returned as one response, with the content of all chunks."""
    if not isinstance(answer, AsyncIterator | Iterator):
        return _response(answer)
    content: list[Block] = []
    is_interrupted = False
    async for chunk in chunks_of(cast("object", answer)):
        response = _response(chunk)
        content += response.content
        is_interrupted = response.is_interrupted
    return ToolResponse(content, is_interrupted=is_interrupted)


async def only(response: ToolResponse) -> AsyncGenerator[ToolResponse]:
    """Yield one response."""
    yield response


def failed(text: str) -> ToolResponse:
    """Tell an agent what went wrong, so that it can try something else."""
    response = saying(text)
    response.is_error = True
    return response


def failure(error: Exception, *, remote: bool) -> ToolResponse:
    """Tell an agent of an error of a tool."""
    # The SDK names its errors so, in one spelling or the other.
    mcp = isinstance(error, UpstreamError) or type(error).__name__.lower() == "mcperror"
    mcp = mcp or (remote and isinstance(error, PegboardError))
    kind = "Error occurred when calling MCP tool" if mcp else "Error"
    return failed(f"{kind}: {words_of(error)}")


def words_of(error: Exception) -> str:
    """Return what an error says; that may fail for an error of a tool."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the agent is told at least what kind of error it was
        return type(error).__name__


def interrupted(last: ToolResponse | None = None, *, stream: bool = False) -> ToolResponse:
    """Return the response of a tool that was cancelled, after what it said last."""
    said = "<system-info>The tool call has been interrupted by the user.</system-info>"
    if last is None:
        return saying(said, stream=stream, is_interrupted=True)
    last.content.append(TextBlock(type="text", text=said))
    last.is_interrupted = last.is_last = True
    return last


async def in_time(stream: object, tool: str, limit: float) -> AsyncGenerator[object]:
    """Yield chunks until the tool exceeds its time limit; the reader's time does not count."""
    left = limit
    end = object()
    async with aclosing(chunks_of(stream, in_thread=True)) as chunks:
        while True:
            began = anyio.current_time()
            chunk: object = end
            with anyio.move_on_after(left) as scope:
                chunk = await anext(chunks, end)
            if scope.cancelled_caught:
                remedy = "raise its `execution_timeout`"
                raise ToolTimeoutError(tool, seconds=limit, remedy=remedy)
            if chunk is end:
                return
            left -= anyio.current_time() - began
            yield chunk


async def chunks_of(answer: object, *, in_thread: bool = False) -> AsyncGenerator[object]:
    """Yield what a generator of any kind yields, and close it; anything else is the only chunk."""
    if isinstance(answer, AsyncGenerator):
        async with aclosing(cast("AsyncGenerator[object]", answer)) as chunks:
            async for chunk in chunks:
                yield chunk
    elif isinstance(answer, AsyncIterator):
        async for chunk in cast("AsyncIterator[object]", answer):
            yield chunk
    elif isinstance(answer, Iterator):
        generator = cast("Iterator[object]", answer)
        end = object()

        def proceed(it: Iterator[object]) -> object:
            return next(it, end)

        # It may block between two chunks.
        while (
            chunk := await run_in_thread(proceed, generator) if in_thread else proceed(generator)
        ) is not end:
            yield chunk
    else:
        yield answer


def _response(answer: object) -> ToolResponse:
    # AgentScope's own tool functions return its own class.
    if isinstance(answer, ToolResponse) or hasattr(answer, "is_interrupted"):
        return cast("ToolResponse", answer)
    return response_of(ToolResult.of(answer))
