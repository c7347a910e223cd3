"""get_tool_definition: the complete definition of one tool, with its JSON Schemas."""

from typing import Any

import msgspec

from pegboard.gateway.builtin_tool import BuiltinTool, CallerContext, respond
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.model import Annotations, Tool

__all__ = ["get_tool_definition"]

DEFINITION = Tool(
    name="get_tool_definition",
    description="Show the complete definition of one tool: description, JSON Schema of its "
    "arguments and result, server, category, tags.",
    input_schema={
        "type": "object",
        "properties": {
            "tool_name": {"type": "string", "minLength": 1, "maxLength": 512},
        },
        "required": ["tool_name"],
        "additionalProperties": False,
    },
    annotations=Annotations(read_only=True, open_world=False),
)


def get_tool_definition(tools: ToolList, startup_wait: StartupWait) -> BuiltinTool:
    """Return the tool that describes another one."""

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        tool = await startup_wait.find(arguments["tool_name"], caller.visibility)
        whole = {
            **tools.definition(tool),
            "server": tool.server,
            "category": tool.category,
            "tags": list(tool.tags),
        }
        shown = {key: value for key, value in whole.items() if value not in (None, [])}
        return respond(msgspec.json.encode(shown).decode())

    return BuiltinTool(DEFINITION, run)
