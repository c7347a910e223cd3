"""`pegboard init`, and `pegboard serve` without a configuration, which offers it."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from pegboard.clients import CLIENTS, Machine
from tests.cli.handy import SCRIPT, Home, Terminal
from tests.cli.own_machine import Run, at_a_terminal, in_process
from tests.config.own_folders import use_own_folders


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOTES", str(tmp_path / "notes.txt"))
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


def cursor_with_a_server() -> Path:
    path = CLIENTS["cursor"].file(Machine.here())
    path.parent.mkdir(parents=True)
    entry = {"command": sys.executable, "args": ["-S", str(SCRIPT)]}
    path.write_text(json.dumps({"mcpServers": {"handy": entry}}), "utf-8")
    return path


def test_all_steps_end_with_a_connected_client_and_one_thing_to_do(run: Run, home: Path) -> None:
    path = cursor_with_a_server()
    said = run("init", "--yes")
    assert said.code == 0, said.err
    config = json.loads((home / ".config/pegboard/mcp.json").read_bytes())
    assert list(config["mcpServers"]) == ["handy"]
    assert list(json.loads(path.read_bytes())["mcpServers"]) == ["handy", "pegboard"]
    assert "`pegboard remove handy`" in said.err
    assert "`pegboard disconnect cursor` undoes this" in said.err
    assert (said.out + said.err).count("Next:") == 1
    assert said.out.endswith(
        "Next: restart Cursor. From then on, your client starts Pegboard by itself.\n"
    )


def test_what_each_step_did_is_undone_as_it_says(run: Run, home: Path) -> None:
    path = cursor_with_a_server()
    before = path.read_bytes()
    run("init", "--yes")
    assert run("disconnect", "cursor").code == 0
    assert run("remove", "handy").code == 0
    assert path.read_bytes() == before
    assert run("list").out.count("handy") == 0


def test_a_step_that_the_user_does_not_want_changes_nothing(home: Path) -> None:
    path = cursor_with_a_server()
    before = path.read_bytes()
    said = at_a_terminal("init", answers=[("Write 1 server", "n")])
    assert said.code == 0
    assert "Next: run `pegboard init` again" in said.out
    assert "pegboard add" not in said.out
    assert path.read_bytes() == before
    assert not (home / ".config/pegboard").exists()


def test_the_end_of_the_input_is_a_no(home: Path) -> None:
    path = cursor_with_a_server()
    before = path.read_bytes()
    answers = [("Write 1 server", "y"), ("Start your servers now? [Y/n]", "n")]
    # Ctrl-D: the default of this question is a yes.
    said = at_a_terminal("init", answers=[*answers, ("Connect Cursor? [Y/n]", "\x04")])
    assert said.code == 0
    assert "Next: run `pegboard serve`" in said.out
    assert path.read_bytes() == before
    assert not Path(os.environ["NOTES"]).exists()


def test_each_step_asks_for_itself(home: Path) -> None:
    path = cursor_with_a_server()
    before = path.read_bytes()
    answers = [
        ("Write 1 server", "y"),
        # A slip of the finger is not a silent no.
        ("Start your servers now? [Y/n]", "yse"),
        ("That was not understood; answer y or n.", "n"),
        ("Connect Cursor? [Y/n]", "n"),
    ]
    said = at_a_terminal("init", answers=answers)
    assert said.code == 0
    assert "Next: run `pegboard serve`" in said.out
    assert path.read_bytes() == before
    assert (home / ".config/pegboard/mcp.json").exists()
    assert not Path(os.environ["NOTES"]).exists()


def test_many_conflicts_and_clients_are_three_questions_with_yes_as_their_default(
    home: Path,
) -> None:
    machine = Machine.here()
    paths = {name: CLIENTS[name].file(machine) for name in ("cursor", "gemini", "kiro")}
    for name, path in paths.items():
        path.parent.mkdir(parents=True)
        # The same names for other servers, which `pegboard import` asks about one by one.
        entries = {it: {"command": f"no-such-{name}-{it}"} for it in ("one", "two", "three")}
        path.write_text(json.dumps({"mcpServers": entries}), "utf-8")
    question = "Connect Cursor, Gemini CLI, Kiro? [Y/n, or names such as cursor]"
    answers = [
        ("Write 3 servers to", ""),
        ("Start your servers now? [Y/n]", ""),
        (question, "cursor zoo"),
        ("the names are cursor, gemini, kiro", "cursor, kiro"),
    ]
    said = at_a_terminal("init", answers=answers)
    plan, _, rest = said.out.partition("Stage 1 of 3")
    assert "1. import   3 from Cursor, into" in plan
    assert "2. check    3 servers" in plan
    assert "3. connect  Cursor, Gemini CLI, Kiro" in plan
    # One question a stage; the last one is repeated, because it was answered wrongly.
    assert rest.count("[Y/n") == 4
    assert "[y/N]" not in rest
    assert "Cursor still has 3 servers that Pegboard also serves; `pegboard connect` with" in rest
    assert "--on-conflict rename" in rest
    connected = {
        name
        for name, path in paths.items()
        if "pegboard" in json.loads(path.read_bytes())["mcpServers"]
    }
    assert connected == {"cursor", "kiro"}


def test_a_server_that_fails_is_told_and_the_clients_are_connected_all_the_same(run: Run) -> None:
    path = CLIENTS["cursor"].file(Machine.here())
    path.parent.mkdir(parents=True)
    path.write_text('{"mcpServers": {"gone": {"command": "no-such-program-here"}}}', "utf-8")
    said = run("init", "--yes")
    assert said.code == 1
    assert "command_not_found" in said.out
    assert "pegboard" in json.loads(path.read_bytes())["mcpServers"]


def test_without_a_terminal_it_says_how_to_agree(run: Run, home: Path) -> None:
    said = run("init")
    assert said.code == 1
    assert "--yes" in said.err
    assert list(home.iterdir()) == []


def test_without_clients_it_says_how_to_begin(run: Run) -> None:
    said = run("init", "--yes")
    assert said.code == 0
    assert said.out.endswith("`pegboard add time -- uvx mcp-server-time` to add a server.\n")


def test_serve_without_a_configuration_offers_to_set_up(tmp_path: Path) -> None:
    there = Home(tmp_path)
    (tmp_path / "mcp.json").unlink()
    with Terminal(there, ["serve", "--port", "0"]) as terminal:
        terminal.until(r"Set Pegboard up now\? \[Y/n\]")
        terminal.type("y")
        terminal.until("Next: run `pegboard add")
        terminal.until("No server is configured")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() in (0, 130)


def test_serve_goes_on_when_the_user_does_not_want_that(tmp_path: Path) -> None:
    there = Home(tmp_path)
    (tmp_path / "mcp.json").unlink()
    with Terminal(there, ["serve", "--port", "0"]) as terminal:
        terminal.until("Set Pegboard up now")
        terminal.type("n")
        shown = terminal.until("No server is configured")
        assert "Stage 1" not in shown
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() in (0, 130)
