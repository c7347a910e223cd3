"""A small MCP server over stdio: `python -m examples.notes_server`."""

import os

from mcp.server import MCPServer

server = MCPServer("notes")
notes: list[str] = []


@server.tool()
def add_note(text: str) -> str:
    """Keep a note."""
    notes.append(text)
    return f"Note {len(notes)} is kept."


@server.tool()
def list_notes() -> list[str]:
    """List all notes."""
    return notes


@server.tool()
def stumble() -> str:
    """End the process without an answer, as servers sometimes do."""
    os._exit(1)


if __name__ == "__main__":
    server.run()
