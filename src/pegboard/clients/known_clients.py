"""The known MCP clients: where each has its configuration file, and how it writes an entry."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pegboard.errors import ConfigError
from pegboard.model.tool_names import nearest_names

__all__ = ["CLIENTS", "ClientApp", "Machine", "client_named", "is_file", "is_folder"]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The platform, the environment and the folders that decide where a client has its files."""

    platform: str
    """A value of `sys.platform`: ``linux``, ``darwin`` or ``win32``."""
    environ: Mapping[str, str]
    home: Path
    directory: Path
    """The folder where project files are searched for."""

    def __repr__(self) -> str:
        # The environment contains secrets.
        return f"Machine({self.platform!r}, home={str(self.home)!r})"

    @classmethod
    def here(cls) -> "Machine":
        """Return the machine of this process.

        Raises:
            ConfigError: when the user has no home folder.
        """
        try:
            home = Path.home()
        except RuntimeError:
            home = None
        if home is None:
            raise ConfigError("Your home folder is unknown. Set the environment variable HOME.")
        try:
            directory = Path.cwd()
        except OSError:
            # The working directory was deleted meanwhile.
            directory = home
        return cls(platform=sys.platform, environ=dict(os.environ), home=home, directory=directory)

    @property
    def applications(self) -> Path:
        """The folder where programs keep the user's configuration."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.named("APPDATA", "AppData", "Roaming")
        return self.xdg_config

    @property
    def xdg_config(self) -> Path:
        """The folder of programs that keep to the XDG folders on every platform."""
        return self.named("XDG_CONFIG_HOME", ".config")

    def named(self, variable: str, *otherwise: str) -> Path:
        """Return the folder that a variable names; by default, one in the home folder."""
        named = self.environ.get(variable)
        return Path(named) if named else self.home.joinpath(*otherwise)


class ClientApp(msgspec.Struct, frozen=True, kw_only=True):
    """One MCP client: where its configuration file is, and how it writes an entry."""

    name: str
    title: str
    files: Callable[[Machine], list[Path]]
    """The possible paths of the user's file, the most usual one first."""
    section: tuple[str, ...] = ("mcpServers",)
    project_file: str | None = None
    """The path of a project's file, relative to the project's folder."""
    url_field: str | None = "url"
    """The name of the field for an address; ``None`` if the client supports only programs."""
    headers_field: str = "headers"
    stdio_type: str | None = None
    http_type: str | None = None
    is_one_command: bool = False
    """Whether `command` is a list of the program and its arguments."""
    command_field: str = "command"
    also: tuple[tuple[str, Any], ...] = ()
    """Fields that every entry needs in addition."""

    def file(self, machine: Machine) -> Path:
        """Return the path of the file that exists, or where the client would create it."""
        places = self.files(machine)
        there = [it for it in places if is_file(it)] or [
            it for it in places if is_folder(it.parent)
        ]
        return [*there, *places][0]

    def is_here(self, machine: Machine) -> bool:
        """Tell whether this client seems to be installed."""
        # The home folder always exists, so it says nothing.
        folder = self.file(machine).parent
        return is_file(self.file(machine)) or (folder != machine.home and is_folder(folder))

    def program_entry(self, command: str, args: list[str]) -> dict[str, Any]:
        """Return the entry for a program, as this client writes it."""
        kind = {} if self.stdio_type is None else {"type": self.stdio_type}
        if self.is_one_command:
            return {**dict(self.also), **kind, "command": [command, *args]}
        return {**dict(self.also), **kind, self.command_field: command, "args": args}

    def address_entry(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the entry for an address, as this client writes it.

        Args:
            url: the address.
            headers: the headers that the client sends with every request.

        Raises:
            ConfigError: when the client supports only programs.
        """
        if self.url_field is None:
            raise ConfigError(
                f"{self.title} supports only programs in its file, not addresses. Leave out "
                f"`--url`, so that {self.title} starts Pegboard itself."
            )
        kind = {} if self.http_type is None else {"type": self.http_type}
        sent = {self.headers_field: dict(headers)} if headers else {}
        return {**dict(self.also), **kind, self.url_field: url, **sent}


def is_file(path: Path) -> bool:
    """Tell whether a path is a file; an unreadable one is not."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Tell whether a path is a folder; an unreadable one is not."""
    try:
        return path.is_dir()
    except OSError:
        return False


def client_named(name: str) -> ClientApp:
    """Return the client of this name.

    Raises:
        ConfigError: when Pegboard does not know the client.
    """
    if name in CLIENTS:
        return CLIENTS[name]
    near = nearest_names(name, list(CLIENTS), limit=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    raise ConfigError(
        f"No client is called {name!r}; the known ones are {', '.join(CLIENTS)}.{hint}"
    )


def _claude_desktop(machine: Machine) -> list[Path]:
    name = "claude_desktop_config.json"
    places = [machine.applications / "Claude" / name]
    if machine.platform == "win32":
        # A program from the Microsoft Store sees a private folder in that place.
        local = machine.named("LOCALAPPDATA", "AppData", "Local")
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
    folder = machine.xdg_config if machine.platform == "linux" else machine.home / ".config"
    return [folder / "zed" / "settings.json"]


def _codex(machine: Machine) -> list[Path]:
    return [machine.named("CODEX_HOME", ".codex") / "config.toml"]


def _opencode(machine: Machine) -> list[Path]:
    names = ("opencode.jsonc", "opencode.json", "config.json")
    return [machine.xdg_config / "opencode" / it for it in names]


def _qwen(machine: Machine) -> list[Path]:
    return [machine.named("QWEN_HOME", ".qwen") / "settings.json"]


def _of_extension(machine: Machine, extension: str, name: str) -> list[Path]:
    """Return where an extension of VS Code, and of the editors made from it, has its file."""
    editors = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
    inside = Path("User", "globalStorage", extension, "settings", name)
    return [machine.applications / it / inside for it in editors]


def _cline(machine: Machine) -> list[Path]:
    name = "cline_mcp_settings.json"
    shared = machine.named("CLINE_DIR", ".cline") / "data" / "settings" / name
    return [*_of_extension(machine, "saoudrizwan.claude-dev", name), shared]


def _roo(machine: Machine) -> list[Path]:
    return _of_extension(machine, "rooveterinaryinc.roo-cline", "mcp_settings.json")


def _lmstudio(machine: Machine) -> list[Path]:
    folders = (".lmstudio", ".cache/lm-studio")
    return [machine.home / it / "mcp.json" for it in folders]


def _copilot(machine: Machine) -> list[Path]:
    return [machine.named("COPILOT_HOME", ".copilot") / "mcp-config.json"]


def _crush(machine: Machine) -> list[Path]:
    return [machine.xdg_config / "crush" / "crush.json"]


def _goose(machine: Machine) -> list[Path]:
    if machine.platform == "win32":
        return [machine.applications / "Block" / "goose" / "config" / "config.yaml"]
    return [machine.xdg_config / "goose" / "config.yaml"]


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
        ClientApp(
            name="opencode",
            title="opencode",
            files=_opencode,
            section=("mcp",),
            project_file="opencode.json",
            stdio_type="local",
            http_type="remote",
            is_one_command=True,
        ),
        ClientApp(
            name="qwen",
            title="Qwen Code",
            files=_qwen,
            project_file=".qwen/settings.json",
            url_field="httpUrl",
        ),
        ClientApp(
            name="cline",
            title="Cline",
            files=_cline,
            stdio_type="stdio",
            http_type="streamableHttp",
        ),
        ClientApp(
            name="roo",
            title="Roo Code",
            files=_roo,
            project_file=".roo/mcp.json",
            stdio_type="stdio",
            http_type="streamable-http",
        ),
        ClientApp(name="lmstudio", title="LM Studio", files=_lmstudio),
        ClientApp(
            name="kiro",
            title="Kiro",
            files=_at_home(".kiro", "settings", "mcp.json"),
            project_file=".kiro/settings/mcp.json",
        ),
        ClientApp(
            name="copilot",
            title="GitHub Copilot CLI",
            files=_copilot,
            stdio_type="local",
            http_type="http",
            also=(("tools", ["*"]),),
        ),
        ClientApp(
            name="junie",
            title="JetBrains Junie",
            files=_at_home(".junie", "mcp", "mcp.json"),
            project_file=".junie/mcp/mcp.json",
        ),
        ClientApp(
            name="crush",
            title="Crush",
            files=_crush,
            section=("mcp",),
            project_file="crush.json",
            stdio_type="stdio",
            http_type="http",
        ),
        ClientApp(
            name="goose",
            title="Goose",
            files=_goose,
            section=("extensions",),
            url_field="uri",
            stdio_type="stdio",
            http_type="streamable_http",
            command_field="cmd",
            also=(
                ("name", "pegboard"),
                ("description", "All your MCP servers"),
                ("enabled", True),
                ("timeout", 300),
            ),
        ),
    )
}
"""The known clients, by the name that users type."""
