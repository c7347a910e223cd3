"""Commands that change the user's files run one at a time, and leave no lock behind."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from pegboard.cli.entry.command_lock import in_turn
from pegboard.clients import CLIENTS, Machine
from tests.cli.handy import Home, Terminal
from tests.cli.own_machine import ENTRY, Run, in_process
from tests.config.own_folders import use_own_folders


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


def adding(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*ENTRY, "add", name, "--", "uvx", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def test_a_command_leaves_no_lock_behind(run: Run, temporary: Path) -> None:
    assert run("add", "time", "--", "uvx", "mcp-server-time").code == 0
    assert run("add", "time", "--", "uvx", "another").code != 0
    assert list(temporary.iterdir()) == []
    assert run("uninstall", "--yes").code == 0
    assert list(temporary.iterdir()) == []


def test_a_lock_that_a_killed_command_left_is_removed(run: Run, temporary: Path) -> None:
    with in_turn(["add"]):
        [left] = temporary.iterdir()
    left.touch()
    assert run("add", "time", "--", "uvx", "mcp-server-time").code == 0
    assert list(temporary.iterdir()) == []


def test_without_a_place_for_the_lock_the_command_runs(run: Run, temporary: Path) -> None:
    with in_turn(["add"]):
        [taken] = temporary.iterdir()
    taken.mkdir()
    assert run("add", "time", "--", "uvx", "mcp-server-time").code == 0
    assert taken.is_dir()


def test_commands_at_once_lose_nothing_although_each_removes_the_lock(
    run: Run, temporary: Path
) -> None:
    names = [f"server{number}" for number in range(6)]
    with in_turn(["add"]):
        commands = [adding(name) for name in names]
        for command in commands:
            assert command.stderr is not None
            assert "is changing your files" in command.stderr.readline()
    for command in commands:
        _, said = command.communicate(timeout=50)
        assert command.returncode == 0, said
    listed = run("list").out
    assert [name for name in names if name not in listed] == []
    assert list(temporary.iterdir()) == []


def cursor_with(name: str) -> None:
    path = CLIENTS["cursor"].file(Machine.here())
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": {name: {"command": "uvx", "args": [name]}}}), "utf-8")


def test_while_init_asks_other_commands_do_not_wait(tmp_path: Path) -> None:
    there = Home(tmp_path / "home")
    (tmp_path / "home/mcp.json").unlink()
    cursor_with("time-server")
    with Terminal(there, ["init"]) as terminal:
        terminal.until(r"Write 1 server.*\[Y/n\]")
        for words in (["import", "--dry-run"], ["import", "--yes"]):
            said = there.main(*words)
            assert said.returncode == 0, said.stderr
            assert "waiting" not in said.stderr
        terminal.type("y")
        terminal.until("Another program changed the file just now, so nothing was written")
        terminal.until(r"Start your servers now\? \[Y/n\]")
        assert "waiting" not in there.main("add", "more", "--", "uvx", "more").stderr
        terminal.type("n")
        terminal.until(r"Connect Cursor\? \[Y/n\]")
        assert "waiting" not in there.main("remove", "more").stderr
        terminal.type("y")
        shown = terminal.until("Next: restart Cursor")
        terminal.end()
    assert "Undo this stage: `pegboard remove" not in shown
    assert "time-server" in there.main("list").stdout


def test_a_command_that_changes_nothing_does_not_wait(run: Run) -> None:
    cursor_with("time-server")
    with in_turn(["add"]):
        said = run("import", "--dry-run")
    assert said.code == 0
    assert "waiting" not in said.err


def test_the_message_names_the_command_that_others_wait_for_and_no_secret(temporary: Path) -> None:
    with in_turn(["add", "time", "--env", "TOKEN=canary"]):
        [lock] = temporary.iterdir()
        assert "canary" not in lock.read_text("utf-8")
        command = adding("time")
        assert command.stderr is not None
        said = command.stderr.readline()
    command.communicate(timeout=50)
    assert said == (
        f"`pegboard add` (process {os.getpid()}) is changing your files; waiting up to a minute "
        "for it. If it hangs, end it.\n"
    )
