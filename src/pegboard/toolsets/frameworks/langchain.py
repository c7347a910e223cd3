"""LangChain: tools as `StructuredTool`, with a failed call as a `ToolException`."""

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import StructuredTool, ToolException

from pegboard.model import ToolResult
from pegboard.toolsets.agent_tool import (
    FAILED_CALLS,
    AgentTool,
    BinaryPart,
    explain,
    parts_of,
    plain_json,
)

__all__ = ["structured_tools"]

_BLOCKS = ("image", "file")
"""The kinds that the content of a `ToolMessage` may have besides text."""


def structured_tools(tools: Iterable[AgentTool]) -> list[StructuredTool]:
    """Return the tools for LangChain.

    The model gets the text of a failed call, in a message with the status "error". With
    ``tool.handle_tool_error = False``, `ToolException` reaches the caller instead.
    """
    return [_structured_tool(tool) for tool in tools]


class _StructuredTool(StructuredTool):
    """Gives every argument to the tool.

    LangChain's own class takes arguments named ``config`` and ``run_manager`` for itself.
    """

    def _run(self, /, *args: Any, **arguments: Any) -> Any:
        assert self.func is not None
        return self.func(*args, **arguments)

    async def _arun(self, /, *args: Any, **arguments: Any) -> Any:
        assert self.coroutine is not None
        return await self.coroutine(*args, **arguments)


def _structured_tool(tool: AgentTool) -> StructuredTool:
    def call(**arguments: Any) -> tuple[Any, Any]:
        try:
            return _output(tool.call_sync(arguments))
        except FAILED_CALLS as error:
            raise ToolException(explain(error)) from error

    async def acall(**arguments: Any) -> tuple[Any, Any]:
        try:
            return _output(await tool.call(arguments))
        except FAILED_CALLS as error:
            raise ToolException(explain(error)) from error

    return _StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.input_schema,
        func=call,
        coroutine=acall,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _output(result: ToolResult) -> tuple[str | list[str | dict[str, Any]], dict[str, Any] | None]:
    """Return the content for the model, and the artifact for the program.

    The artifact is plain JSON, because checkpointers write it down.
    """
    parts = parts_of(result)
    shown = [it for it in parts if isinstance(it, BinaryPart) and it.kind in _BLOCKS]
    content = [_block(it) for it in parts] if shown else result.text()
    structured = result.structured_content
    artifact = None if structured is None else {"structured_content": plain_json(structured)}
    return content, artifact


def _block(part: str | BinaryPart) -> str | dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.kind not in _BLOCKS:
        return {"type": "text", "text": part.words}
    return {"type": part.kind, "base64": part.data, "mime_type": part.mime_type}
