"""pydantic-ai: a view as a toolset of pydantic-ai, which always offers the current tools."""

import base64
import binascii
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic_ai import BinaryContent, ModelRetry, RunContext, ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from pegboard.errors import InvalidArgumentsError, PegboardError, ToolExecutionError
from pegboard.model import ToolResult
from pegboard.toolsets.agent_tool import (
    FAILED_CALLS,
    AgentTool,
    BinaryPart,
    explain,
    parts_of,
    plain_json,
)

__all__ = ["PydanticAIToolset"]

# Pegboard itself checks the arguments, against the whole schema.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
_MENDABLE = (InvalidArgumentsError, ToolExecutionError)
"""A second call with other arguments may succeed."""


class PydanticAIToolset(AbstractToolset[Any]):
    """The tools of a view, asked for before each request to the model."""

    def __init__(
        self,
        tools: Callable[[], list[AgentTool]],
        *,
        call: Callable[[str, Any], Coroutine[Any, Any, ToolResult]],
    ) -> None:
        self._tools = tools
        self._call = call

    @property
    def id(self) -> str | None:
        """None: it is not meant for durable execution, which would have to record its calls."""
        return None

    def __repr__(self) -> str:
        return f"<PydanticAIToolset of {len(self._tools())} tools>"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that the view shows now."""
        return {tool.name: self._offer(tool, ctx) for tool in self._tools()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool.

        Raises:
            ModelRetry: when the arguments are wrong, or the tool reports a failure.
            ToolFailed: when the call failed in another way, which a repetition does not mend.
        """
        try:
            return _value((await self._call(name, tool_args)).raise_for_error())
        except FAILED_CALLS as error:
            raise _as_theirs(error) from error

    def _offer(self, tool: AgentTool, ctx: RunContext[Any]) -> ToolsetTool[Any]:
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.input_schema,
        )
        return ToolsetTool(
            toolset=self,
            tool_def=definition,
            max_retries=ctx.max_retries,
            args_validator=_ANY_OBJECT,
        )


def _as_theirs(error: PegboardError) -> ModelRetry | ToolFailed:
    words = explain(error)
    return ModelRetry(words) if isinstance(error, _MENDABLE) else ToolFailed(words)


def _value(result: ToolResult) -> Any:
    """Return binary parts with the texts around them, or else data, or else text."""
    parts = parts_of(result)
    if any(isinstance(it, BinaryPart) for it in parts):
        return [it if isinstance(it, str) else _binary(it) for it in parts]
    if result.structured_content is not None:
        return plain_json(result.structured_content)
    return result.text()


def _binary(part: BinaryPart) -> str | BinaryContent:
    try:
        return BinaryContent(base64.b64decode(part.data), media_type=part.mime_type)
    except (binascii.Error, ValueError):
        return part.words
