"""AgentScope's client on the same server."""

import asyncio
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from agentscope.mcp import HttpMCPConfig, MCPClient, StdioMCPConfig  # noqa: E402
from upstream_shared import OURS, SERVER, TEXT, compare, http_server, report  # noqa: E402


async def stdio() -> None:
    config = StdioMCPConfig(command=str(OURS), args=[str(SERVER), "stdio"])
    client = MCPClient(name="peer", is_stateful=True, mcp_config=config)
    await client.connect()
    tool = await client.get_tool("echo")
    report(**await compare({"call": lambda: tool(**TEXT)}, calls=48, blocks=9))
    await client.close()


async def http() -> None:
    with http_server() as url:
        config = HttpMCPConfig(url=url)
        stateful = MCPClient(name="peer", is_stateful=True, mcp_config=config)
        await stateful.connect()
        stateless = MCPClient(name="peer2", is_stateful=False, mcp_config=config)
        kept, fresh = await stateful.get_tool("echo"), await stateless.get_tool("echo")
        found = await compare(
            {"call": lambda: kept(**TEXT), "stateless": lambda: fresh(**TEXT)}, calls=12, blocks=7
        )
        report(**found)
        await stateful.close()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
