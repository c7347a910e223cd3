"""A server whose tool takes as long as it is told to, in seconds."""

import anyio
from mcp.server import MCPServer

server = MCPServer("digging")


@server.tool()
async def dig(seconds: float) -> str:
    """Dig a hole."""
    await anyio.sleep(seconds)
    return "a deep hole"


if __name__ == "__main__":
    server.run()
