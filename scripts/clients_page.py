"""Make the reference page of clients: where each has its file, and how it writes an entry."""

import json
from pathlib import Path
from typing import Any, cast

from pegboard.clients import CLIENTS, ClientApp, Machine
from pegboard.clients.client_file import with_entries
from scripts.struct_tables import table

__all__ = ["RUN_BY_TESTS", "page"]

_OPENING = """# Clients

<!-- Made by `python -m scripts.reference` out of the code: change it there. -->

This page lists the configuration file of each client on each system. `pegboard import` reads these
files, and the file of the project in the current folder. `pegboard connect` writes to the first
file that exists, or to the first one whose folder exists. [Getting started](../getting-started.md)
shows how to use both commands.

`pegboard serve` runs on Linux and macOS. On Windows, clients need a gateway in WSL: run
`pegboard connect CLIENT --url http://127.0.0.1:8765/mcp`.
"""
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_NOWHERE = Path("~")
# Files and sections that only the code for one client knows.
_BESIDES = {
    "claude-desktop": "on Windows, if installed from the Microsoft Store: "
    "`~/AppData/Local/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json`",
    "claude-code": "the servers of each project, under `projects` in the same file",
    "vscode": "`mcp.servers` in the `settings.json` next to each of these files",
}


# Those whose own program is run by `make interop-full`, and what it then reports.
RUN_BY_TESTS = {
    "claude-code": "`claude mcp list` reports the gateway as connected",
    "codex": "`codex mcp list` reports the gateway as enabled; it does not connect",
    "copilot": "`copilot mcp list` lists the gateway; it does not connect",
    "gemini": "`gemini mcp list` reports the gateway as connected",
    "opencode": "`opencode mcp list` reports the gateway as connected",
    "qwen": "`qwen mcp list` reports the gateway as connected",
}


class _Asked(dict[str, str]):
    """An environment without variables that records the names that the code asks for."""

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
    elif client.name == "goose":
        path = Path("config.yaml")
        written = with_entries(path, "", client.section, {"pegboard": entry})
        lines += ["\n```yaml", written.rstrip(), "```"]
    else:
        shown = {client.section[-1]: {"pegboard": entry}}
        lines += ["\n```json", json.dumps(shown), "```"]
    return "\n".join([*lines, ""])


def _toml(client: ClientApp, entry: dict[str, Any]) -> list[str]:
    lines = [f"[{client.section[-1]}.pegboard]"]
    for name, value in entry.items():
        # Texts and lists of texts are written alike in JSON and TOML.
        written = json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            inside = cast("dict[str, str]", value).items()
            written = "{ " + ", ".join(f'{key} = "{it}"' for key, it in inside) + " }"
        lines.append(f"{name} = {written}")
    return lines


def _more(client: ClientApp) -> list[tuple[str, str]]:
    address = f"`{client.url_field}`" if client.url_field else "none: it supports only programs"
    project = f"`{client.project_file}`" if client.project_file else "none"
    section = ".".join(client.section)
    if client.url_field:
        address += f", with headers in `{client.headers_field}`"
    rows = [
        ("file of a project", project),
        ("section for servers", f"`{section}`"),
        ("field for an address", address),
    ]
    others = client.files(_machine("linux"))[1:]
    if others:
        paths = ", ".join(f"`{it.as_posix()}`" for it in others)
        rows.append(("also read (paths on Linux)", paths))
    if client.name in _BESIDES:
        rows.append(("and" if others else "also read", _BESIDES[client.name]))
    moved = _moved_by(client)
    if moved:
        rows.append(("environment variables that change the path", moved))
    only_file = "by its file only: our tests do not run the program"
    return [*rows, ("tested", RUN_BY_TESTS.get(client.name, only_file))]


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
    # The files of this machine play no part: the page shows the usual paths.
    return Machine(platform=system, environ=_Asked(), home=_NOWHERE, directory=_NOWHERE)
