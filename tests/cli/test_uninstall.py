"""`pegboard uninstall`: afterwards, the home is as it was."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pegboard.clients import CLIENTS, Machine
from pegboard.config import load_servers
from tests.cli.handy import SCRIPT
from tests.cli.own_machine import ENTRY, Run, at_a_terminal, golden, in_process
from tests.config.own_folders import FakeKeyring, use_own_folders
from tests.journeys.process import serving


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOTES", str(tmp_path / "notes.txt"))
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


def files_of(folder: Path) -> Mapping[str, bytes | None]:
    """Return everything in a folder; a folder has no content."""
    paths = {it.relative_to(folder).as_posix(): it for it in folder.rglob("*")}
    return {name: it.read_bytes() if it.is_file() else None for name, it in paths.items()}


def pegboard(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENTRY, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=50,
    )


def test_after_init_serve_and_uninstall_the_home_is_as_it_was(home: Path) -> None:
    handy = {
        "command": sys.executable,
        "args": ["-S", str(SCRIPT)],
        "env": {"HANDY_TOKEN": "canary-0017-token"},
    }
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"handy": handy}}, indent=3), "utf-8")
    (home / ".bashrc").write_bytes(b"alias p=pwd\n")
    before = files_of(home)
    assert pegboard("init", "--yes").returncode == 0
    assert pegboard("connect", "cursor", "--only", "--yes").returncode == 0
    assert pegboard("connect", "codex", "--yes").returncode == 0
    with serving([*ENTRY, "serve", "--port", "0"], at=home, env=os.environ):
        refused = pegboard("uninstall", "--yes")
        assert refused.returncode == 1
        assert "A gateway runs at http://127.0.0.1:" in refused.stderr
        assert re.search(r"as process (\d+)\. .*`kill \1`", refused.stderr)
        assert "canary-0017-token" not in path.read_text("utf-8")
    assert any("secrets/" in it for it in files_of(home))
    done = pegboard("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Everything was removed.\n" in done.stdout
    assert files_of(home) == before
    again = pegboard("uninstall", "--yes")
    assert (again.returncode, again.stderr) == (0, "There is nothing to remove.\n")


def test_it_lists_everything_and_changes_nothing_until_the_user_agrees(
    run: Run, home: Path
) -> None:
    path = CLIENTS["zed"].file(Machine.here())
    path.parent.mkdir(parents=True)
    path.write_bytes(golden("zed"))
    run("add", "time", "--", "uvx", "mcp-server-time")
    run("connect", "zed")
    before = files_of(home)
    said = run("uninstall")
    assert said.code == 1
    for place in (path, home / ".local/state/pegboard", home / ".config/pegboard/mcp.json"):
        assert str(place) in said.out
    assert "--yes" in said.err
    assert files_of(home) == before


def test_the_configuration_is_a_question_of_its_own(run: Run, home: Path) -> None:
    run("add", "time", "--", "uvx", "time-server", "--api-key", "canary-0018-key")
    run("add", "gone", "--", "uvx", "gone-server", "--api-key", "canary-0019-key")
    run("remove", "gone")
    (home / ".config/pegboard/certs").mkdir()
    (home / ".config/pegboard/certs/ca.pem").write_bytes(b"own")
    answers = [("Remove all this?", "y"), ("Also remove your configuration", "n")]
    said = at_a_terminal("uninstall", answers=answers)
    assert said.code == 0, said.out
    left = files_of(home)
    files = sorted(name for name, content in left.items() if content is not None)
    own, config, secret, made = files
    assert own == ".config/pegboard/certs/ca.pem"
    assert config == ".config/pegboard/mcp.json"
    assert secret.startswith(".local/share/pegboard/secrets/")
    assert left[secret] == b"canary-0018-key\n"
    assert made == ".local/state/pegboard/made-files"
    assert f"Left, because Pegboard did not make it: {home}/{own}" in said.out


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("~/.local", "~/.local/../.local"),
        ("~/.local", "~//.local"),
        ("~/.local", "~/\\u002elocal"),
        ("~/.local", "../../.local"),
        ("~/.local", "{home}/alias/.local"),
        ("_KEY}", "_KEY:-none}"),
    ],
)
def test_a_secret_of_a_kept_configuration_stays_however_its_path_is_written(
    run: Run, home: Path, before: str, after: str
) -> None:
    (home / "alias").symlink_to(home)
    run("add", "time", "--", "uvx", "time-server", "--api-key", "canary-0018-key")
    config = home / ".config/pegboard/mcp.json"
    written = config.read_text("utf-8")
    assert before in written
    config.write_text(written.replace(before, after.replace("{home}", str(home))), "utf-8")
    (server,) = load_servers(config).servers
    assert server.args[-1] == "canary-0018-key"
    assert run("uninstall", "--yes", "--keep-config").code == 0
    assert load_servers(config).servers == (server,)
    config.unlink()
    assert run("uninstall", "--yes").code == 0
    (home / "alias").unlink()
    assert files_of(home) == {}


@pytest.mark.parametrize("linked", [".config/pegboard", ".local/share/pegboard"])
def test_a_link_to_what_is_kept_stays(run: Run, home: Path, tmp_path: Path, linked: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (home / linked).parent.mkdir(parents=True)
    (home / linked).symlink_to(tmp_path / "elsewhere")
    run("add", "time", "--", "uvx", "time-server", "--api-key", "canary-0018-key")
    assert run("uninstall", "--yes", "--keep-config").code == 0
    (server,) = load_servers(home / ".config/pegboard/mcp.json").servers
    assert server.args[-1] == "canary-0018-key"


@pytest.mark.parametrize(
    ("words", "said_of_it"),
    [
        (["--yes"], "  your configuration: {}\n"),
        (["--yes", "--keep-config"], "Not to be removed: your configuration {}, and"),
        ([], "Asked separately: your configuration {}\n"),
    ],
)
def test_the_list_says_what_becomes_of_the_configuration(
    words: list[str], said_of_it: str, run: Run, home: Path
) -> None:
    run("add", "time", "--", "uvx", "mcp-server-time")
    said = run("uninstall", *words)
    config = home / ".config/pegboard/mcp.json"
    assert said_of_it.format(config) in said.out
    assert ("Asked" in said.out) == (words == [])
    assert config.exists() == (words != ["--yes"])


def test_the_keyring_forgets_every_secret_of_ours(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = FakeKeyring()
    keyring.kept["another", "program"] = "stays"
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    run("add", "time", "--", "uvx", "time-server", "--api-key", "canary-0018-key")
    run("add", "gone", "--", "uvx", "gone-server", "--api-key", "canary-0019-key")
    run("remove", "gone")
    assert len(keyring.kept) == 3
    said = run("uninstall", "--yes", "--keep-config")
    assert said.code == 0
    assert len(keyring.kept) == 2
    assert (home / ".config/pegboard/mcp.json").exists()
    assert run("uninstall", "--yes").code == 0
    assert keyring.kept == {("another", "program"): "stays"}
    assert files_of(home) == {}


def test_a_keyring_that_is_locked_is_told_and_tried_again(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    run("add", "time", "--", "uvx", "time-server", "--api-key", "canary-0018-key")
    keyring.is_locked = True
    said = run("uninstall", "--yes")
    assert said.code == 1
    assert "of the keyring" in said.err
    keyring.is_locked = False
    assert run("uninstall", "--yes").code == 0
    assert keyring.kept == {}
    assert files_of(home) == {}


def test_a_client_that_cannot_be_restored_keeps_its_backup(run: Run, home: Path) -> None:
    path = CLIENTS["cursor"].file(Machine.here())
    path.parent.mkdir(parents=True)
    path.write_bytes(golden("cursor"))
    run("connect", "cursor")
    path.write_bytes(b"{ broken")
    said = run("uninstall", "--yes")
    assert said.code == 1
    assert "Nothing else was removed." in said.err
    [backup] = (home / ".local/state/pegboard/clients").glob("*.backup")
    assert backup.read_bytes() == golden("cursor")


def test_a_broken_file_of_another_client_is_none_of_our_business(run: Run, home: Path) -> None:
    path = CLIENTS["cursor"].file(Machine.here())
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{ broken")
    run("add", "time", "--", "uvx", "mcp-server-time")
    assert run("uninstall", "--yes").code == 0
    assert files_of(home) == {".cursor": None, ".cursor/mcp.json": b"{ broken"}


def test_what_pegboard_did_not_write_stays_and_is_listed(run: Run, home: Path) -> None:
    run("add", "time", "--", "uvx", "time-server", "--api-key", "canary-0018-key")
    theirs = {
        ".config/pegboard/notes.md",
        ".config/pegboard/certs/ca.pem",
        ".local/share/pegboard/pegboard.db.before-the-holidays",
        ".local/share/pegboard/work.db",
        ".local/share/pegboard/secrets/OWN_TOKEN",
        ".local/share/pegboard/tokens/readme.txt",
        ".local/state/pegboard/clients/cursor.json.mine",
        ".local/state/pegboard/logs/mine.txt",
        ".cache/pegboard/catalog-2/keep.json",
    }
    for name in theirs:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(b"of the user")
    (home / ".local/share/pegboard/link").symlink_to(home / ".config/pegboard/notes.md")
    said = run("uninstall", "--yes")
    assert said.code == 0
    left = {name for name, content in files_of(home).items() if content is not None}
    assert left == {*theirs, ".local/share/pegboard/link"}
    told = [it for it in said.out.splitlines() if it.startswith("Left, because")]
    assert {it.rpartition(": ")[2] for it in told} == {str(home / it) for it in left}
    again = run("uninstall", "--yes")
    assert again.code == 0
    assert "nothing to remove" in again.err
    assert {name for name, content in files_of(home).items() if content is not None} == left


def test_a_configuration_that_the_user_wrote_stays_unless_he_says_otherwise(
    run: Run, home: Path
) -> None:
    config = home / ".config/pegboard/mcp.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"mcpServers": {}}', "utf-8")
    run("add", "time", "--", "uvx", "time-server", "--api-key", "canary-0018-key")
    before = config.read_bytes()
    said = run("uninstall", "--yes")
    assert (said.code, config.read_bytes()) == (0, before)
    assert f"Kept: {config}, and the secrets that it refers to." in said.out
    (server,) = load_servers(config).servers
    assert server.args[-1] == "canary-0018-key"
    answers = [("Remove all this?", "y"), ("Also remove your configuration", "y")]
    assert at_a_terminal("uninstall", answers=answers).code == 0
    assert files_of(home) == {}


def test_what_a_link_leads_to_stays(run: Run, home: Path, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (home / ".config").mkdir()
    (home / ".config/pegboard").symlink_to(dotfiles)
    run("add", "time", "--", "uvx", "mcp-server-time")
    assert run("uninstall", "--yes").code == 0
    # The user made the link.
    assert (home / ".config/pegboard").is_symlink()
    assert (dotfiles / "mcp.json").exists()


def test_completion_of_the_shell_goes_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".bashrc").write_bytes(b"alias p=pwd\n")
    script = home / ".bash_completions" / "pegboard.sh"
    script.parent.mkdir()
    script.write_bytes(b"complete _PEGBOARD_COMPLETE")
    (home / ".bashrc").write_bytes(f"alias p=pwd\n\nsource '{script}'\n".encode())
    assert pegboard("uninstall", "--yes").returncode == 0
    assert files_of(home) == {".bashrc": b"alias p=pwd\n"}
