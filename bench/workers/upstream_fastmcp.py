"""FastMCP's client on the same server."""

import asyncio
import logging
import sys

logging.disable(logging.CRITICAL)

from fastmcp import Client  # noqa: E402
from fastmcp.client.transports import StdioTransport  # noqa: E402
from upstream_shared import OURS, SERVER, TEXT, compare, http_server, report  # noqa: E402


async def _calls(target: object) -> None:
    async with Client(target) as client:
        await client.list_tools()
        found = await compare({"call": lambda: client.call_tool("echo", TEXT)}, calls=48, blocks=9)
    report(**found)


async def stdio() -> None:
    await _calls(StdioTransport(command=str(OURS), args=[str(SERVER), "stdio"]))


async def http() -> None:
    with http_server() as url:
        await _calls(url)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
