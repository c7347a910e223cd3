"""LangChain's MCP adapters: `URL`; makes tools of ours, runs them, and prints what it saw."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import json
import sys

import anyio
from langchain_mcp_adapters.client import MultiServerMCPClient


async def main(url: str) -> None:
    client = MultiServerMCPClient({"pegboard": {"url": url, "transport": "streamable_http"}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    found = await tools["search_tools"].ainvoke({"query": "upper case letters"})
    called = await tools["call_tool"].ainvoke(
        {"name": "mcp_old_shout", "arguments": {"text": "peg"}}
    )
    seen = {"tools": list(tools), "found": str(found), "called": str(called)}
    print(json.dumps(seen))  # noqa: T201 - the test reads it


anyio.run(main, sys.argv[1])
