"""A small server with one tool, for clients to find and to call."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("shouting", log_level="CRITICAL")


@server.tool()
def shout(text: str) -> str:
    """Write a text in upper case letters."""
    return text.upper()


server.run("stdio")
