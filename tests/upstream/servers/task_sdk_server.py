"""A server of core tasks on the SDK of the handshake era; runs in `.tools/legacy` only."""

from typing import Any

import anyio
import mcp.types
from mcp.server import Server
from mcp.server.stdio import stdio_server

types: Any = mcp.types
server: Any = Server("old")
server.experimental.enable_tasks()
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


@server.list_tools()
async def list_tools() -> list[Any]:
    execution = types.ToolExecution(taskSupport="required")
    return [types.Tool(name="greet", inputSchema={"type": "object"}, execution=execution)]


@server.call_tool()
async def call_tool(_: str, __: dict[str, Any]) -> Any:
    async def work(task: Any) -> Any:
        answer = await task.elicit(message="Who?", requestedSchema=FORM)
        text = f"Hello {answer.content['name']}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return await server.request_context.experimental.run_task(work)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
