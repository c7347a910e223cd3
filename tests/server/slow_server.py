"""An MCP server for the tests: echoes, or answers when a file appears; says its process id."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer

server = MCPServer("slow")
folder = Path(sys.argv[0]).parent


@server.tool()
def echo(text: str) -> str:
    """Return a text."""
    return text


@server.tool()
async def wait_for(name: str) -> str:
    """Answer when a file appears."""
    (folder / f"{name}.waiting").touch()
    while not (folder / name).exists():  # noqa: ASYNC110 - another process makes it
        await anyio.sleep(0.02)
    return f"{name} is there"


if __name__ == "__main__":
    (folder / "pid").write_text(str(os.getpid()), encoding="utf-8")
    server.run()
