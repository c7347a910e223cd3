"""The page that says where each client keeps its servers, and how it writes them."""

import json
from pathlib import Path

from pegboard.clients import CLIENTS, Client, Machine
from scripts.struct_tables import table

__all__ = ["page"]

_OPENING = """# Clients

<!-- Made by `python -m scripts.reference` out of the code: change it there. -->

Where `pegboard import` looks, and where `pegboard connect` writes: the file of each client for one
person, on each system. How to use the two: [Getting started](../getting-started.md).
"""
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_NOWHERE = Path("~")


def page() -> str:
    """Return the text of the page."""
    return "\n".join([_OPENING, *(_section(it) for it in CLIENTS.values())])


def _section(client: Client) -> str:
    places = [(title, f"`{_place(client, system)}`") for system, title in _SYSTEMS.items()]
    lines = [f"## {client.title}\n", table([*places, *_more(client)], "`" + client.name + "`", "")]
    if client.name != "codex":
        entry = client.program_entry("/full/path/pegboard", ["serve", "--stdio"])
        shown = {client.section[-1]: {"pegboard": entry}}
        lines += ["\n```json", json.dumps(shown), "```"]
    return "\n".join([*lines, ""])


def _more(client: Client) -> list[tuple[str, str]]:
    address = f"`{client.url_field}`" if client.url_field else "not taken: it starts programs only"
    project = f"`{client.project_file}`" if client.project_file else "none that is read"
    section = ".".join(client.section)
    return [
        ("in a project", project),
        ("servers stand under", f"`{section}`"),
        ("an address is", address),
    ]


def _place(client: Client, system: str) -> str:
    # What is on this machine plays no part: the usual place counts.
    machine = Machine(platform=system, environ={}, home=_NOWHERE, directory=_NOWHERE)
    return client.files(machine)[0].as_posix()
