"""The server that every contender calls: `stdio`, or `http PORT [CERTIFICATE]`. Needs the SDK."""

import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
TOOLS = [types.Tool(name="echo", description="Give back the text.", input_schema=SCHEMA)]


async def list_tools(
    ctx: ServerRequestContext, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(
    ctx: ServerRequestContext, params: types.CallToolRequestParams
) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=(params.arguments or {})["text"])], is_error=False
    )


def build() -> Server[Any]:
    return Server(
        "echo",
        version="1.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda name: SCHEMA,
    )


async def serve_stdio() -> None:
    server = build()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(port: int, certificate: str | None = None) -> None:
    import uvicorn

    app = build().streamable_http_app()
    uvicorn.run(app, port=port, log_level="critical", ssl_certfile=certificate)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            anyio.run(serve_stdio)
        case ["http", port, *certificate]:
            serve_http(int(port), *certificate)
        case other:
            raise SystemExit(f"What is {other}?")
