"""The page that says where each client keeps its servers, and how it writes them."""

import json
from pathlib import Path
from typing import Any, cast

from pegboard.clients import CLIENTS, ClientApp, Machine
from scripts.struct_tables import table

__all__ = ["page"]

_OPENING = """# Clients

<!-- Made by `python -m scripts.reference` out of the code: change it there. -->

Where `pegboard import` looks, and where `pegboard connect` writes: the file of each client for one
person, on each system. `connect` takes the first file that is there; `import` reads all of them,
and that of the project in whose folder you are. How to use the two: [Getting
started](../getting-started.md).

`pegboard serve` runs on Linux and macOS, so on Windows the clients there need a gateway in WSL
(`pegboard connect CLIENT --url http://127.0.0.1:8765/mcp`).
"""
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_NOWHERE = Path("~")
# What the code looks for on the disk, and inside of files.
_BESIDES = {
    "claude-desktop": "on Windows, installed from the Microsoft Store: "
    "`~/AppData/Local/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json`",
    "claude-code": "the servers of each project that stand under `projects` in the same file",
    "vscode": "`settings.json` beside each of these, and there `mcp.servers`",
}


class _Asked(dict[str, str]):
    """An environment in which nothing is set, and that knows what was looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self.names[key] = None
        return default


def page() -> str:
    """Return the text of the page."""
    return "\n".join([_OPENING, *(_section(it) for it in CLIENTS.values())])


def _section(client: ClientApp) -> str:
    places = [(title, f"`{_place(client, system)}`") for system, title in _SYSTEMS.items()]
    lines = [f"## {client.title}\n", table([*places, *_more(client)], "`" + client.name + "`", "")]
    entry = client.program_entry("/full/path/pegboard", ["serve", "--stdio"])
    if client.name == "codex":
        lines += ["\n```toml", *_toml(client, entry), "```"]
        address = client.address_entry("http://127.0.0.1:8765/mcp", {"X-API-Key": "pb_…"})
        lines += ["\nor\n\n```toml", *_toml(client, address), "```"]
    else:
        shown = {client.section[-1]: {"pegboard": entry}}
        lines += ["\n```json", json.dumps(shown), "```"]
    return "\n".join([*lines, ""])


def _toml(client: ClientApp, entry: dict[str, Any]) -> list[str]:
    lines = [f"[{client.section[-1]}.pegboard]"]
    for name, value in entry.items():
        # Texts and lists of them look alike in both.
        written = json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            inside = cast("dict[str, str]", value).items()
            written = "{ " + ", ".join(f'{key} = "{it}"' for key, it in inside) + " }"
        lines.append(f"{name} = {written}")
    return lines


def _more(client: ClientApp) -> list[tuple[str, str]]:
    address = f"`{client.url_field}`" if client.url_field else "not taken: it starts programs only"
    project = f"`{client.project_file}`" if client.project_file else "none that is read"
    section = ".".join(client.section)
    if client.url_field:
        address += f", with its headers in `{client.headers_field}`"
    rows = [
        ("in a project", project),
        ("servers stand under", f"`{section}`"),
        ("an address is", address),
    ]
    others = client.files(_machine("linux"))[1:]
    if others:
        paths = ", ".join(f"`{it.as_posix()}`" for it in others)
        rows.append(("also read (on Linux; elsewhere alike)", paths))
    if client.name in _BESIDES:
        rows.append(("and" if others else "also read", _BESIDES[client.name]))
    moved = _moved_by(client)
    return [*rows, ("elsewhere if set", moved)] if moved else rows


def _moved_by(client: ClientApp) -> str:
    found: dict[str, None] = {}
    for system in _SYSTEMS:
        machine = _machine(system)
        client.files(machine)
        if isinstance(machine.environ, _Asked):
            found.update(machine.environ.names)
    return ", ".join(f"`{it}`" for it in found)


def _place(client: ClientApp, system: str) -> str:
    return client.files(_machine(system))[0].as_posix()


def _machine(system: str) -> Machine:
    # What is on this machine plays no part: the usual place counts.
    return Machine(platform=system, environ=_Asked(), home=_NOWHERE, directory=_NOWHERE)
