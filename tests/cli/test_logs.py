"""`pegboard logs`: what servers wrote, while the gateway runs and after it has ended."""

import json
import signal
import sys
from datetime import datetime
from pathlib import Path

import anyio
import pytest

from pegboard.cli.main import main
from pegboard.observe.server_log import ServerLog, default_log_folder
from tests.cli.handy import Home, Terminal
from tests.server.processes import serving
from tests.upstream.board_servers import until

FAILING = "import sys; print('no \\x1b[31mkey', file=sys.stderr); sys.exit(4)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the log, in a home of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return default_log_folder()


def write(folder: Path, server: str, *lines: str) -> None:
    log = ServerLog(folder)
    log.of().wrote(server, [it.encode() for it in lines], bytes.decode)
    log.close()


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["logs", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("folder")
async def test_a_gateway_that_was_killed_leaves_what_its_servers_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"command": sys.executable, "args": ["-c", FAILING]}
    config, state = {"mcpServers": {"bad": entry}}, str(tmp_path / "state")
    async with serving(tmp_path, config=config, XDG_STATE_HOME=state) as served:
        await served.hears("For the file of your client")
        # The server fails in its own time, and the log is written in a thread.
        await until(lambda: len(json.loads(shown(capsys, "bad", "--json"))) >= 5, seconds=30)
        running = shown(capsys, "bad", "--json")
    assert served.process.returncode == -signal.SIGKILL
    lines = json.loads(shown(capsys, "bad", "--since", "10m", "--json"))
    assert lines[: len(json.loads(running))] == json.loads(running)
    events = [it["event"] for it in lines]
    assert events[:5] == ["started", "stderr", "exited", "failed", "retry"]
    assert lines[1]["text"] == r"no \u001b[31mkey"
    assert {(it["server"], it["pid"]) for it in lines} == {("bad", served.process.pid)}
    assert all(datetime.fromisoformat(it["at"]).tzinfo for it in lines)
    assert "gateway" in shown(capsys).split()


@pytest.mark.usefixtures("folder")
async def test_a_gateway_that_stops_says_that_it_drained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = str(tmp_path / "state")
    async with serving(tmp_path, config={"mcpServers": {}}, XDG_STATE_HOME=state) as served:
        await served.hears("For the file of your client")
        served.process.send_signal(signal.SIGTERM)
        await served.rest()
    events = [it["event"] for it in json.loads(shown(capsys, "--json"))]
    assert events == ["started", "draining", "drained", "stopped"]


async def test_a_gateway_keeps_no_log_if_it_may_have_no_bytes(tmp_path: Path, folder: Path) -> None:
    config = {"mcpServers": {}, "gateway": {"log_bytes": 0}}
    async with serving(tmp_path, config=config, XDG_STATE_HOME=str(tmp_path / "state")) as served:
        await served.hears("For the file of your client")
    assert not await anyio.Path(folder).exists()


def test_the_last_lines_are_shown_with_time_and_zone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "notes", *(f"line {it}" for it in range(300)))
    lines = shown(capsys).splitlines()
    assert len(lines) == 200
    moment, server, event, text = lines[-1].split(maxsplit=3)
    assert datetime.fromisoformat(moment).tzinfo is not None
    assert (server, event, text) == ("notes", "stderr", "line 299")
    assert len(shown(capsys, "-n", "3").splitlines()) == 3
    assert len(shown(capsys, "--since", "1h").splitlines()) == 300
    for words, hidden in (([], 100), (["--json"], 100), (["-n", "300"], 0), (["--since", "1h"], 0)):
        assert main(["logs", *words]) == 0
        told = f"({hidden} older lines not shown; `-n 300` or `--since 1d` shows more)\n"
        assert capsys.readouterr().err == (told if hidden else "")
    assert shown(capsys, "--since", "2999-01-01") == ""


def test_a_server_without_lines_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, "notes", "hello")
    assert main(["add", "other", "--", sys.executable]) == 0
    capsys.readouterr()
    assert main(["logs", "other"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"The log of server 'other' has no lines: {folder}\n")
    assert shown(capsys, "other", "--json") == "[]\n"
    assert main(["logs", "notes", "--since", "2999-01-01"]) == 0
    assert "has no lines since then" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_server_that_is_neither_configured_nor_in_the_log_is_an_error(
    options: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "notes", "hello")
    assert main(["add", "other", "--", sys.executable]) == 0
    capsys.readouterr()
    assert main(["logs", "nosuch", *options]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: No server is named 'nosuch'; known: 'other', 'notes'.\n"


@pytest.mark.parametrize("words", [["--since", "soon"], ["-n", "-1"], ["--since", "2026-13-01"]])
def test_what_is_no_time_and_no_number_is_misuse(words: list[str]) -> None:
    assert main(["logs", *words]) == 2


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_new_lines_are_followed_until_ctrl_c(tmp_path: Path, options: list[str]) -> None:
    home = Home(tmp_path)
    folder = tmp_path / "state" / "pegboard" / "logs"
    write(folder, "notes", "old")
    with Terminal(home, ["logs", "notes", "-f", *options]) as terminal:
        terminal.until("old")
        write(folder, "notes", "new \\x1b[2J")
        write(folder, "other", "of another server")
        write(folder, "notes", "newest")
        terminal.until("newest")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 0
    assert "another" not in terminal.shown
    assert "Traceback" not in terminal.shown
    if options:
        lines = [json.loads(it) for it in terminal.shown.split("\r\n") if it.startswith("{")]
        assert [it["server"] for it in lines] == ["notes"] * 3
