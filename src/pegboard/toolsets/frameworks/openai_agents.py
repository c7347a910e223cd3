"""OpenAI Agents SDK: tools as `FunctionTool`, which return the text of a failed call."""

from collections.abc import Iterable
from typing import Any

import msgspec
from agents import FunctionTool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext

from pegboard.model import ToolResult
from pegboard.toolsets.agent_tool import FAILED_CALLS, AgentTool, BinaryPart, explain, parts_of

__all__ = ["function_tools"]

_Output = ToolOutputText | ToolOutputImage | ToolOutputFileContent
_PDF = "application/pdf"


def function_tools(tools: Iterable[AgentTool]) -> list[FunctionTool]:
    """Return the tools for the Agents SDK; the model gets the text of a failed call as output."""
    return [_function_tool(tool) for tool in tools]


def _function_tool(tool: AgentTool) -> FunctionTool:
    async def invoke(_: ToolContext[Any], arguments: str) -> str | list[_Output]:
        try:
            given = msgspec.json.decode(arguments or "{}")
        except (msgspec.DecodeError, RecursionError) as error:
            return f"The arguments are not valid JSON: {error}"
        try:
            return _output(await tool.call(given))
        except FAILED_CALLS as error:
            return explain(error)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.input_schema,
        on_invoke_tool=invoke,
        # The schema stays as it is; strict mode would rewrite it, or refuse it.
        strict_json_schema=False,
    )


def _output(result: ToolResult) -> str | list[_Output]:
    parts = parts_of(result)
    if all(isinstance(_shown(it), ToolOutputText) for it in parts):
        return result.text()
    return [_shown(it) for it in parts]


def _shown(part: str | BinaryPart) -> _Output:
    """Return a part as the Responses API takes it; of files, that is PDF alone."""
    if isinstance(part, str):
        return ToolOutputText(text=part)
    url = f"data:{part.mime_type};base64,{part.data}"
    if part.kind == "image":
        return ToolOutputImage(image_url=url)
    if part.kind == "file" and part.mime_type == _PDF:
        return ToolOutputFileContent(file_data=url, filename="file.pdf")
    return ToolOutputText(text=part.words)
