"""The naming policy that drops a repeated server name, wherever names are made."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import Hub
from pegboard.cli.main import main
from pegboard.config import ServerConfig, load_servers
from pegboard.errors import ConfigError
from pegboard.model.tool_names import mcp, mcp_short
from pegboard.server.settings import load_gateway_settings
from pegboard.upstream import NoCatalogCache
from tests.upstream.board_servers import SERVERS, Bench, hub_of, memory

SHORT = {"mcp_git_commit", "mcp_git_add", "mcp_git_echo"}


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("git", "git_commit", "mcp_git_commit"),
        ("git", "git-commit", "mcp_git_commit"),
        ("git", "Git_commit", "mcp_git_commit"),
        ("brave-search", "brave_search_web", "mcp_brave_search_web"),
        ("git", "git_git_commit", "mcp_git_git_commit"),
        ("git", "commit", "mcp_git_commit"),
        ("git", "github_issue", "mcp_git_github_issue"),
        ("git", "git", "mcp_git_git"),
        ("git", "git_", "mcp_git_git_"),
        ("git", "", "mcp_git_"),
        ("time", "get_time", "mcp_time_get_time"),
    ],
)
def test_a_repeated_server_name_is_dropped_once(server: str, tool: str, name: str) -> None:
    assert mcp_short(server, tool) == name


@given(server=st.text(min_size=1), tool=st.text(min_size=1))
def test_a_short_name_is_that_of_mcp_or_shorter_and_has_the_same_beginning(
    server: str, tool: str
) -> None:
    short = mcp_short(server, tool)
    assert short.startswith(mcp(server, ""))
    assert mcp(server, tool).endswith(short.removeprefix(mcp(server, "")))
    assert short != mcp(server, "")


async def test_two_tools_that_want_one_short_name_are_told_apart_as_always() -> None:
    made = Bench(git_commit=str, commit=str)
    async with hub_of(memory("git", made), naming="mcp_short") as hub:
        first, second = sorted(hub.registry)
        assert hub.origin(first) == ("git", "git_commit")
        assert hub.origin(second) == ("git", "commit")
        assert first == "mcp_git_commit"
        assert second.startswith("mcp_git_commit_")


def repository(folder: Path, **gateway: Any) -> dict[str, Any]:
    """Return a file with a server whose tools repeat its name, and write it."""
    text = (SERVERS / "light_server.py").read_text("utf-8")
    for tool, other in (("add", "git_add"), ("echo", "git_echo"), ("pid", "git_commit")):
        text = text.replace(f'    "{tool}": {{', f'    "{other}": {{')
    script = folder / "git_server.py"
    script.write_text(text, "utf-8")
    entry = {"command": sys.executable, "args": ["-S", "-E", str(script)], "protocol": "legacy"}
    file = {"mcpServers": {"git": entry}, "gateway": gateway}
    (folder / "mcp.json").write_text(json.dumps(file), "utf-8")
    return file


async def test_the_file_names_the_tools_of_a_hub_unless_an_entry_has_a_prefix(
    tmp_path: Path,
) -> None:
    file = repository(tmp_path, naming="mcp_short")
    async with Hub.open(file, catalog_cache=NoCatalogCache()) as hub:
        assert set(hub.registry) > SHORT
        assert hub.origin("mcp_git_commit") == ("git", "git_commit")
    file["mcpServers"]["git"]["prefix"] = "g_"
    async with Hub.open(file, catalog_cache=NoCatalogCache()) as hub:
        assert "g_git_commit" in hub.registry
    async with Hub.open(repository(tmp_path), catalog_cache=NoCatalogCache()) as hub:
        assert "mcp_git_git_commit" in hub.registry


@pytest.mark.usefixtures("own_home")
def test_the_commands_show_the_names_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> tuple[int, str]:
        code = main([*words, "--config", str(tmp_path / "mcp.json")])
        return code, capsys.readouterr().out

    repository(tmp_path, naming="mcp_short")
    code, shown = run("show", "mcp_git_commit")
    assert (code, "mcp_git_commit" in shown) == (0, True)
    assert {it["name"] for it in json.loads(run("tools", "--json")[1])} >= SHORT
    assert "mcp_git_git_commit" not in run("doctor", "--json")[1]
    # What was cached under the short names is shown by the others at once.
    repository(tmp_path)
    assert run("show", "mcp_git_git_commit")[0] == 0
    assert "mcp_git_commit" not in {it["name"] for it in json.loads(run("tools", "--json")[1])}


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_blocking_calls: Any) -> None:
    """A home of the test's own, in which commands may block."""
    no_blocking_calls.deactivate()
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


@pytest.mark.parametrize("naming", ["short", "", 5, ["mcp"]])
def test_a_policy_that_is_none_is_reported(naming: object, tmp_path: Path) -> None:
    file = repository(tmp_path, naming=naming)
    [problem] = load_servers(tmp_path / "mcp.json").problems
    assert problem.message.startswith("`gateway.naming` cannot be used")
    assert problem.line == 1
    with pytest.raises(ConfigError, match="naming"):
        load_gateway_settings(file)


def test_a_template_of_the_file_names_tools() -> None:
    config = ServerConfig(name="git", transport="stdio", command="git", naming="{tool}@{server}")
    assert config.tool_name("commit") == "commit@git"
    assert load_gateway_settings({"gateway": {"naming": "{server}-{tool}"}}).naming
