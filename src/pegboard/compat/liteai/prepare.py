"""LiteAI's `prepare_tools`: definitions for a model from functions, dicts and MCP tools."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model import Tool
from pegboard.registry import FunctionTool
from pegboard.registry.background_loop import run_in_background
from pegboard.registry.implementation import is_async

__all__ = [
    "TOOL_FLAG",
    "ToolDef",
    "ToolFn",
    "ToolLike",
    "call_tool_fn_sync",
    "generate_tool_definition_from_callable",
    "generate_tool_definition_from_mcp_tool",
    "generate_tool_definition_from_raw_tool_def",
    "generate_tool_definition_from_tool_def",
    "prepare_tools",
]

TOOL_FLAG = "__is_tool__"
"""The attribute that marks a function as a tool."""

ToolFn: TypeAlias = Callable[..., Any]
"""A tool as a function, synchronous or not."""


class ToolDef(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a tool: its name, its parameters, and the function that runs it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """The JSON Schema of the arguments."""
    execute: ToolFn | None = None


ToolLike: TypeAlias = ToolFn | ToolDef | Mapping[str, Any]
"""Any item of a list of tools."""


def prepare_tools(tools: Sequence[ToolLike]) -> list[dict[str, Any]]:
    """Return the definitions of tools of any kind, in the form for a model.

    Raises:
        InvalidToolError: when one of them is not a tool, or its signature cannot be read.
    """
    return [_definition(tool) for tool in tools]


def generate_tool_definition_from_mcp_tool(mcp_tool: Any) -> dict[str, Any]:
    """Return the definition of a tool of a server, with the server's own schema."""
    words: str = mcp_tool.description or f"MCP tool: {mcp_tool.name}"
    return _function(mcp_tool.name, words, _schema_of(mcp_tool))


def generate_tool_definition_from_callable(tool: ToolFn) -> dict[str, Any]:
    """Return a definition made from the signature and docstring of a function.

    Raises:
        InvalidToolError: when the signature cannot be read.
    """
    definition: object = getattr(tool, "definition", None)
    if not isinstance(definition, Tool):
        definition = FunctionTool[..., Any].of(tool).definition
    return _function(definition.name, definition.description, definition.input_schema)


def generate_tool_definition_from_tool_def(tool: ToolDef) -> dict[str, Any]:
    """Return the definition of a `ToolDef`."""
    return _function(tool.name, tool.description, tool.parameters)


def generate_tool_definition_from_raw_tool_def(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a finished definition."""
    return dict(tool)


def call_tool_fn_sync(tool: ToolFn, arguments: Mapping[str, Any] | None = None) -> Any:
    """Call a tool, asynchronous or not, and wait for it in this thread.

    Raises:
        WouldDeadlockError: when this thread runs the event loop that has to do the work.
    """
    given = dict(arguments or {})
    function = cast("ToolFn", getattr(tool, "function", tool))
    if not is_async(function):
        return tool(**given)
    return run_in_background(lambda: function(**given), tool=getattr(tool, "__name__", "tool"))


def _definition(tool: ToolLike) -> dict[str, Any]:
    if callable(tool) and hasattr(tool, "_mcp_tool"):
        definition = generate_tool_definition_from_mcp_tool(tool._mcp_tool)  # pyright: ignore[reportFunctionMemberAccess]
        # A model calls the tool by the name of the function, with its prefix.
        definition["function"]["name"] = tool.__name__
        return definition
    if callable(tool):
        return generate_tool_definition_from_callable(tool)
    if isinstance(tool, ToolDef):
        return generate_tool_definition_from_tool_def(tool)
    if isinstance(tool, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        return generate_tool_definition_from_raw_tool_def(tool)
    raise InvalidToolError(
        f"A tool must be a function, a `ToolDef` or a dict, not {type(tool).__name__!r}."
    )


def _schema_of(mcp_tool: Any) -> Mapping[str, Any]:
    # SDK 1.x has the one, SDK 2.x the other.
    return mcp_tool.inputSchema if hasattr(mcp_tool, "inputSchema") else mcp_tool.input_schema


def _function(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": copy.deepcopy(parameters),
        },
    }
