"""Notes: keeps texts while it runs."""

from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

server: MCPServer = MCPServer("notes", instructions="Keeps notes until it is stopped.")
_notes: dict[int, str] = {}


@server.tool()
def add_note(text: Annotated[str, Field(description="what to remember")]) -> str:
    """Keep a note, and return its number."""
    number = max(_notes, default=0) + 1
    _notes[number] = text
    return f"Note {number} is kept."


@server.tool()
def list_notes() -> dict[int, str]:
    """List all notes with their numbers."""
    return _notes


@server.tool()
def find_notes(word: Annotated[str, Field(description="what to look for")]) -> dict[int, str]:
    """Find the notes in which a word occurs."""
    return {number: it for number, it in _notes.items() if word.lower() in it.lower()}


@server.tool()
def remove_note(number: Annotated[int, Field(description="as `list_notes` shows it")]) -> str:
    """Forget a note."""
    return f"Forgotten: {_notes.pop(number)}" if number in _notes else "There is no such note."


@server.resource("notes://all")
def all_notes() -> str:
    """All notes, one on a line."""
    return "\n".join(f"{number}. {it}" for number, it in _notes.items())


if __name__ == "__main__":
    server.run()
