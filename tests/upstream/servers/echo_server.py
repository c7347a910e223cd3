"""A small MCP server of both eras over stdio, made with the SDK: `python echo_server.py`."""

import os
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server


def _schema(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


SCHEMAS: dict[str, dict[str, Any]] = {
    "echo": _schema(text="string"),
    "add": _schema(a="number", b="number"),
    "slow": _schema(seconds="number"),
    "fail": _schema(message="string"),
    "big": _schema(n="integer"),
    "crash": {"type": "object", "properties": {"code": {"type": "integer"}}},
    "progress": _schema(n="integer"),
    "env": _schema(name="string"),
    "pid": {"type": "object"},
}
DESCRIPTIONS = {
    "echo": "Give back the text.",
    "add": "Add two numbers.",
    "slow": "Answer after so many seconds.",
    "fail": "Report a failure with this message.",
    "big": "Answer with a text of n characters.",
    "crash": "End the process at once, without an answer.",
    "progress": "Report n steps, then answer.",
    "env": "Tell the value of an environment variable.",
    "pid": "Tell the process id of the server.",
}
TOOLS = [
    types.Tool(name=name, description=DESCRIPTIONS[name], input_schema=schema)
    for name, schema in SCHEMAS.items()
]


async def list_tools(
    ctx: ServerRequestContext, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(  # noqa: C901 - one case for each tool
    ctx: ServerRequestContext, params: types.CallToolRequestParams
) -> types.CallToolResult:
    arguments = params.arguments or {}
    structured: Any = None
    is_error = False
    match params.name:
        case "echo":
            text = arguments["text"]
        case "add":
            total = arguments["a"] + arguments["b"]
            text, structured = str(total), {"total": total}
        case "slow":
            await anyio.sleep(arguments["seconds"])
            text = "done"
        case "fail":
            text, is_error = arguments["message"], True
        case "big":
            text = "x" * arguments["n"]
        case "crash":
            os._exit(arguments.get("code", 1))
        case "progress":
            for step in range(1, arguments["n"] + 1):
                await ctx.session.report_progress(step, arguments["n"], f"step {step}")
            text = "done"
        case "env":
            text = os.environ.get(arguments["name"], "")
        case "pid":
            text = str(os.getpid())
        case name:
            text, is_error = f"No tool is named {name!r}.", True
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=structured, is_error=is_error
    )


server: Server[Any] = Server(
    "echo",
    version="1.0",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    get_tool_input_schema=SCHEMAS.get,
)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
