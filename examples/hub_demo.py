"""An `mcp.json` opened: three servers, one of which dies and one of which was never there."""

import json
import logging
import os
import sys
import tempfile
from pathlib import Path

from pegboard import Hub, PegboardError
from pegboard.upstream import FileCatalogCache

CONFIG = Path(__file__).parent / "mcp.json"


def show_servers(hub: Hub) -> None:
    """Print how every server is."""
    for server in hub.servers.values():
        seconds = server.startup_seconds
        started = "          " if seconds is None else f"{seconds * 1000:7.0f} ms"
        print(
            f"  {server.name:8} {server.state.value:9} {server.era or '-':7} "
            f"{server.tool_count} tools {started}  {server.last_error or ''}"
        )


async def call(hub: Hub, name: str, arguments: dict[str, object] | None = None) -> None:
    """Call a tool and print what happens."""
    try:
        result = await hub.call(name, arguments)
    except PegboardError as error:
        print(f"  {name} -> {type(error).__name__}: {error}")
    else:
        print(f"  {name} -> {result.value()!r}")


async def main() -> None:
    """Run the demo."""
    logging.getLogger("pegboard").setLevel(logging.CRITICAL)  # the demo says it itself
    os.environ.setdefault("DEMO_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        async with Hub.open(CONFIG, catalog_cache=FileCatalogCache(folder)) as hub:
            print(f"Servers of {CONFIG.name} (one does not exist, on purpose):")
            show_servers(hub)

            print("\nTheir tools, called by name:")
            await call(hub, "mcp_notes_add_note", {"text": "buy pegs"})
            await call(hub, "mcp_notes_list_notes")
            await call(hub, "mcp_notes_add_note", {"txt": "typo"})

            print("\nA server dies in mid-call, and is back for the next one:")
            await call(hub, "mcp_notes_stumble")
            await call(hub, "mcp_notes_list_notes")
            show_servers(hub)

            print("\nA definition for OpenAI:")
            tools = hub.toolset(servers=["notes"], include=["*_add_note"])
            print(json.dumps(tools.openai(strict=True), indent=2))

        async with Hub.open(CONFIG, catalog_cache=FileCatalogCache(folder)) as hub:
            print("\nOpened again: what is lazy is remembered, not started:")
            show_servers(hub)
