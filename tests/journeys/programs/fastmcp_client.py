"""FastMCP's client: `URL MODE`; lists and calls, and prints what it saw."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import json
import sys

import anyio
from fastmcp import Client


async def main(url: str, mode: str) -> None:
    async with Client(url, mode=mode) as client:
        tools = await client.list_tools()
        found = await client.call_tool("search_tools", {"query": "upper case letters"})
        called = await client.call_tool(
            "call_tool", {"name": "mcp_old_shout", "arguments": {"text": "peg"}}
        )
        seen = {
            "tools": [tool.name for tool in tools],
            "found": found.content[0].text,
            "called": called.content[0].text,
        }
        print(json.dumps(seen))  # noqa: T201 - the test reads it


anyio.run(main, sys.argv[1], sys.argv[2])
