"""Where each client keeps its file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard.clients import CLIENTS, Machine, client_named, files_of_clients
from pegboard.errors import ConfigError
from tests.clients.conftest import PLATFORMS, put_in_place

Machines = Callable[[str], Machine]
SUPPORT = "ada/Library/Application Support"
EXTENSIONS = "Code/User/globalStorage"
CLINE = f"{EXTENSIONS}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
ROO = f"{EXTENSIONS}/rooveterinaryinc.roo-cline/settings/mcp_settings.json"


@pytest.mark.parametrize(
    ("client", "linux", "darwin", "win32"),
    [
        (
            "claude-desktop",
            "ada/.config/Claude/claude_desktop_config.json",
            f"{SUPPORT}/Claude/claude_desktop_config.json",
            "Roaming/Claude/claude_desktop_config.json",
        ),
        ("claude-code", "ada/.claude.json", "ada/.claude.json", "ada/.claude.json"),
        ("cursor", "ada/.cursor/mcp.json", "ada/.cursor/mcp.json", "ada/.cursor/mcp.json"),
        (
            "vscode",
            "ada/.config/Code/User/mcp.json",
            f"{SUPPORT}/Code/User/mcp.json",
            "Roaming/Code/User/mcp.json",
        ),
        ("windsurf", *["ada/.codeium/windsurf/mcp_config.json"] * 3),
        (
            "zed",
            "ada/.config/zed/settings.json",
            "ada/.config/zed/settings.json",
            "Roaming/Zed/settings.json",
        ),
        ("gemini", *["ada/.gemini/settings.json"] * 3),
        ("codex", *["ada/.codex/config.toml"] * 3),
        ("opencode", *["ada/.config/opencode/opencode.jsonc"] * 3),
        ("qwen", *["ada/.qwen/settings.json"] * 3),
        (
            "cline",
            f"ada/.config/{CLINE}",
            f"{SUPPORT}/{CLINE}",
            f"Roaming/{CLINE}",
        ),
        ("roo", f"ada/.config/{ROO}", f"{SUPPORT}/{ROO}", f"Roaming/{ROO}"),
        ("lmstudio", *["ada/.lmstudio/mcp.json"] * 3),
        ("kiro", *["ada/.kiro/settings/mcp.json"] * 3),
        ("copilot", *["ada/.copilot/mcp-config.json"] * 3),
        ("junie", *["ada/.junie/mcp/mcp.json"] * 3),
        ("crush", *["ada/.config/crush/crush.json"] * 3),
        (
            "goose",
            *["ada/.config/goose/config.yaml"] * 2,
            "Roaming/Block/goose/config/config.yaml",
        ),
    ],
)
def test_each_client_has_its_place_on_each_platform(
    client: str, linux: str, darwin: str, win32: str, tmp_path: Path, machine: Machines
) -> None:
    for platform, expected in zip(PLATFORMS, (linux, darwin, win32), strict=True):
        here = machine(platform)
        assert CLIENTS[client].file(here) == tmp_path / expected
        assert not CLIENTS[client].is_here(here)


def test_the_environment_moves_folders(tmp_path: Path) -> None:
    environ = {
        "XDG_CONFIG_HOME": str(tmp_path / "x"),
        "CODEX_HOME": str(tmp_path / "c"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "d"),
        "COPILOT_HOME": str(tmp_path / "p"),
        "QWEN_HOME": str(tmp_path / "q"),
    }
    here = Machine(platform="linux", environ=environ, home=tmp_path, directory=tmp_path)
    assert CLIENTS["zed"].file(here) == tmp_path / "x/zed/settings.json"
    assert CLIENTS["vscode"].file(here) == tmp_path / "x/Code/User/mcp.json"
    assert CLIENTS["codex"].file(here) == tmp_path / "c/config.toml"
    assert CLIENTS["claude-code"].file(here) == tmp_path / "d/.claude.json"
    assert CLIENTS["opencode"].file(here) == tmp_path / "x/opencode/opencode.jsonc"
    assert CLIENTS["copilot"].file(here) == tmp_path / "p/mcp-config.json"
    assert CLIENTS["qwen"].file(here) == tmp_path / "q/settings.json"
    assert "CODEX_HOME" not in repr(here)


def test_what_is_there_is_preferred_to_what_is_usual(tmp_path: Path, machine: Machines) -> None:
    store = tmp_path / "Local/Packages/Claude_x1/LocalCache/Roaming/Claude"
    store.mkdir(parents=True)
    (store / "claude_desktop_config.json").write_bytes(b"{}")
    here = machine("win32")
    assert CLIENTS["claude-desktop"].file(here).parent == store
    insiders = here.applications / "Code - Insiders" / "User"
    insiders.mkdir(parents=True)
    assert CLIENTS["vscode"].file(here).parent == insiders
    assert CLIENTS["vscode"].is_here(here)
    shared = here.home / ".cline/data/settings/cline_mcp_settings.json"
    shared.parent.mkdir(parents=True)
    shared.write_bytes(b"{}")
    assert CLIENTS["cline"].file(here) == shared


@pytest.mark.parametrize("platform", PLATFORMS)
def test_all_files_are_found_the_projects_among_them(platform: str, machine: Machines) -> None:
    here = machine(platform)
    for name in CLIENTS:
        put_in_place(name, here)
    for name in (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".gemini/settings.json"):
        (here.directory / name).parent.mkdir(exist_ok=True)
        (here.directory / name).write_bytes(b"{}")
    found = files_of_clients(here)
    assert [it.client for it in found if it.project is None] == list(CLIENTS)
    assert [it.client for it in found if it.project is not None] == [
        "claude-code",
        "cursor",
        "vscode",
        "gemini",
    ]
    assert [it.project for it in files_of_clients(here, ("cursor",))] == [None, here.directory]


def test_a_client_that_nobody_knows_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigError, match="Did you mean `cursor`"):
        client_named("curser")
