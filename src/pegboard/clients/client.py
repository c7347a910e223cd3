"""The clients we know: where each keeps its servers, and how it writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pegboard.clients.machine import Machine, is_file, is_folder
from pegboard.errors import ConfigError
from pegboard.model.tool_names import nearest_names

__all__ = ["CLIENTS", "ClientApp", "client_named"]


class ClientApp(msgspec.Struct, frozen=True, kw_only=True):
    """One client."""

    name: str
    title: str
    files: Callable[[Machine], list[Path]]
    """Where its user's file may be, the most usual place first."""
    section: tuple[str, ...] = ("mcpServers",)
    project_file: str | None = None
    """The file of a project, from the project's folder."""
    url_field: str | None = "url"
    """What an address is called; ``None`` where only programs can be written down."""
    headers_field: str = "headers"
    stdio_type: str | None = None
    http_type: str | None = None
    also: tuple[tuple[str, str], ...] = ()
    """Fields that every entry needs besides."""

    def file(self, machine: Machine) -> Path:
        """Return the file that is there, else where the client would make it."""
        places = self.files(machine)
        there = [it for it in places if is_file(it)] or [
            it for it in places if is_folder(it.parent)
        ]
        return [*there, *places][0]

    def is_here(self, machine: Machine) -> bool:
        """Tell whether this client seems to be installed."""
        # The home folder itself says nothing.
        folder = self.file(machine).parent
        return is_file(self.file(machine)) or (folder != machine.home and is_folder(folder))

    def program_entry(self, command: str, args: list[str]) -> dict[str, Any]:
        """Return the entry of a program, as this client writes it."""
        kind = {} if self.stdio_type is None else {"type": self.stdio_type}
        return {**dict(self.also), **kind, "command": command, "args": args}

    def address_entry(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the entry of an address, as this client writes it.

        Args:
            url: the address.
            headers: what it sends along with every request.

        Raises:
            ConfigError: when its file can only hold programs.
        """
        if self.url_field is None:
            raise ConfigError(
                f"{self.title} takes no address in its file, only programs. Leave out `--url`: "
                "it starts Pegboard itself then."
            )
        kind = {} if self.http_type is None else {"type": self.http_type}
        sent = {self.headers_field: dict(headers)} if headers else {}
        return {**dict(self.also), **kind, self.url_field: url, **sent}


def client_named(name: str) -> ClientApp:
    """Return the client of this name.

    Raises:
        ConfigError: when we do not know it.
    """
    if name in CLIENTS:
        return CLIENTS[name]
    near = nearest_names(name, list(CLIENTS), limit=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    raise ConfigError(f"No client is called {name!r}; known are {', '.join(CLIENTS)}.{hint}")


def _claude_desktop(machine: Machine) -> list[Path]:
    name = "claude_desktop_config.json"
    places = [machine.applications / "Claude" / name]
    if machine.platform == "win32":
        # Installed from the Store, a program sees a folder of its own in that place.
        named = machine.environ.get("LOCALAPPDATA")
        local = Path(named) if named else machine.home / "AppData" / "Local"
        pattern = f"Packages/Claude_*/LocalCache/Roaming/Claude/{name}"
        places += sorted(local.glob(pattern)) if is_folder(local) else []
    return places


def _claude_code(machine: Machine) -> list[Path]:
    named = machine.environ.get("CLAUDE_CONFIG_DIR")
    return [Path(named) / ".claude.json"] if named else [machine.home / ".claude.json"]


def _vscode(machine: Machine) -> list[Path]:
    editions = ("Code", "Code - Insiders", "VSCodium")
    return [machine.applications / it / "User" / "mcp.json" for it in editions]


def _zed(machine: Machine) -> list[Path]:
    if machine.platform == "win32":
        return [machine.applications / "Zed" / "settings.json"]
    named = machine.environ.get("XDG_CONFIG_HOME") if machine.platform == "linux" else None
    return [(Path(named) if named else machine.home / ".config") / "zed" / "settings.json"]


def _codex(machine: Machine) -> list[Path]:
    named = machine.environ.get("CODEX_HOME")
    return [(Path(named) if named else machine.home / ".codex") / "config.toml"]


def _at_home(*parts: str) -> Callable[[Machine], list[Path]]:
    return lambda machine: [machine.home.joinpath(*parts)]


CLIENTS: dict[str, ClientApp] = {
    client.name: client
    for client in (
        ClientApp(
            name="claude-desktop", title="Claude Desktop", files=_claude_desktop, url_field=None
        ),
        ClientApp(
            name="claude-code",
            title="Claude Code",
            files=_claude_code,
            project_file=".mcp.json",
            stdio_type="stdio",
            http_type="http",
        ),
        ClientApp(
            name="cursor",
            title="Cursor",
            files=_at_home(".cursor", "mcp.json"),
            project_file=".cursor/mcp.json",
        ),
        ClientApp(
            name="vscode",
            title="VS Code",
            files=_vscode,
            section=("servers",),
            project_file=".vscode/mcp.json",
            stdio_type="stdio",
            http_type="http",
        ),
        ClientApp(
            name="windsurf",
            title="Windsurf",
            files=_at_home(".codeium", "windsurf", "mcp_config.json"),
            url_field="serverUrl",
        ),
        ClientApp(
            name="zed",
            title="Zed",
            files=_zed,
            section=("context_servers",),
            project_file=".zed/settings.json",
            also=(("source", "custom"),),
        ),
        ClientApp(
            name="gemini",
            title="Gemini CLI",
            files=_at_home(".gemini", "settings.json"),
            project_file=".gemini/settings.json",
            url_field="httpUrl",
        ),
        ClientApp(
            name="codex",
            title="Codex",
            files=_codex,
            section=("mcp_servers",),
            project_file=".codex/config.toml",
            headers_field="http_headers",
        ),
    )
}
"""By the name that people type."""
