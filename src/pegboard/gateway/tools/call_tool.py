"""call_tool: run a tool of the catalogue by its name."""

from typing import Any

from pegboard.gateway.builtin_tool import BuiltinTool, CallerContext
from pegboard.gateway.calls.run_call import CallRunner
from pegboard.model import Tool

__all__ = ["call_tool"]

DEFINITION = Tool(
    name="call_tool",
    description="Call a tool by the name and with the arguments that search_tools shows. A result "
    "that is too long is cut; read_result reads the rest.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 512},
            "arguments": {"type": ["object", "null"], "default": {}},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
)


def call_tool(calls: CallRunner) -> BuiltinTool:
    """Return the tool that calls others."""

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        tool = await calls.find(arguments["name"], caller.visibility)
        return await calls.call(caller, tool, arguments["arguments"] or {})

    return BuiltinTool(DEFINITION, run)
