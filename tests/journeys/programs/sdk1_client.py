"""The MCP SDK 1.x: `URL`; lists and calls, and prints what it saw."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import json
import sys

import anyio
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client


async def main(url: str) -> None:
    connect = sse_client if "/sse" in url else streamablehttp_client
    async with connect(url) as (read, write, *_), ClientSession(read, write) as session:
        welcome = await session.initialize()
        tools = (await session.list_tools()).tools
        found = await session.call_tool("search_tools", {"query": "upper case letters"})
        called = await session.call_tool(
            "call_tool", {"name": "mcp_old_shout", "arguments": {"text": "peg"}}
        )
        seen = {
            "version": welcome.protocolVersion,
            "tools": [tool.name for tool in tools],
            "found": found.content[0].text,
            "called": called.content[0].text,
        }
        print(json.dumps(seen))  # noqa: T201 - the test reads it


anyio.run(main, sys.argv[1])
