"""`pegboard doctor`, as a person and a script see it; what it finds is tested in tests/doctor."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pegboard.cli.main import main
from pegboard.clients import CLIENTS, Machine
from tests.cli.handy import Home
from tests.doctor.patients import TOOL, python, speaking

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    monkeypatch.delenv("PEGBOARD_STORE", raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path / "mcp.json"


@pytest.fixture
def run(path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    def running(servers: dict[str, Any], *words: str) -> tuple[int, str, str]:
        path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        code = main(["doctor", *words])
        said = capfd.readouterr()
        return code, said.out, said.err

    return running


def test_all_is_well_ends_with_zero(run: Run) -> None:
    code, out, err = run({"notes": speaking(TOOL), "off": {"command": "x", "disabled": True}})
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["SERVER", "STATE", "ERA", "TOOLS", "TOKENS", "START"]
    assert lines[1].split()[:4] == ["notes", "ready", "legacy", "1"]
    assert lines[2].split()[:3] == ["off", "disabled", "-"]
    assert not any("[disabled]" in it for it in lines)
    assert lines[-1] == "All ok: 1 server checked."
    assert err.startswith("notes: ready, 1 tool, ")


def test_something_that_is_wrong_ends_with_one_and_its_remedy(run: Run) -> None:
    code, out, err = run({"notes": speaking(TOOL), "broken": {"command": "pegboard-nonesuch"}})
    assert code == 1
    assert "error [command_not_found] broken\n  Server 'broken' cannot be started" in out
    assert "  Remedy: Install it, or give the full path" in out
    assert out.endswith("2 servers checked: 1 error, 0 warnings.\n")
    assert "broken: down" in err.splitlines()


def test_the_worst_comes_last_where_it_is_seen(run: Run) -> None:
    servers = {"off": {"command": "x", "disabled": True}, "bad": {"command": "nonesuch-x"}}
    _, out, _ = run(servers, *servers)
    assert out.index("advice [") < out.index("error [")


def test_json_is_one_object_and_the_same_code(run: Run) -> None:
    code, out, _ = run({"it": python("import nonesuch_x"), "well": speaking(TOOL)}, "--json")
    report = json.loads(out)
    assert code == 1
    assert list(report) == ["ok", "config", "servers", "findings"]
    assert report["ok"] is False
    assert [it["state"] for it in report["servers"]] == ["down", "ready"]
    [finding] = report["findings"]
    assert list(finding) == ["code", "severity", "what", "remedy", "server", "tool", "place"]
    assert (finding["code"], finding["server"], finding["tool"]) == ("missing_module", "it", None)


@pytest.mark.parametrize("words", [["doctor"], ["doctor", "handy"], ["status", "--start"]])
def test_no_command_starts_a_server_again_that_was_well(tmp_path: Path, words: list[str]) -> None:
    home = Home(tmp_path)
    assert home.main(*words).returncode == 0
    listed = home.main("tools", "--json")
    assert (listed.returncode, home.starts()) == (0, 1)
    # And they are those that a start of its own would have found.
    assert listed.stdout == home.main("tools", "--json", "--store", "other.db").stdout
    assert home.starts() == 2


def test_a_server_that_is_ill_is_not_remembered(tmp_path: Path) -> None:
    broken = {**TOOL, "inputSchema": {"type": "nonesuch"}}
    home = Home(tmp_path, entries={"ill": speaking(broken), "none": {"command": "nonesuch-x"}})
    assert home.main("doctor").returncode == 1
    said = json.loads(home.main("status", "--json").stdout)["servers"]
    assert [(it["server"], it["tools"]) for it in said] == [("ill", None), ("none", None)]


def test_only_the_named_servers_are_looked_at(run: Run) -> None:
    code, out, _ = run({"a": {"command": "nonesuch-x"}, "b": speaking(TOOL)}, "b", "--json")
    assert code == 0
    assert [it["server"] for it in json.loads(out)["servers"]] == ["b"]


def test_a_name_that_there_is_not_is_an_error(run: Run) -> None:
    code, out, err = run({"a": {"command": "x"}}, "b")
    assert (code, out) == (3, "")
    assert err == "error: No server is named 'b'; known: 'a'.\n"
    assert "Did you mean 'notes'?" in run({"notes": {"command": "x"}}, "note")[2]


def test_an_entry_that_cannot_be_used_is_in_the_table_and_counted(run: Run) -> None:
    code, out, _ = run({"odd": {"args": []}, "off": {"command": "x", "disabled": True}})
    assert code == 1
    assert [line.split()[:2] for line in out.splitlines()[1:3]] == [
        ["off", "disabled"],
        ["odd", "unusable"],
    ]
    assert "1 server checked: 1 error" in out
    assert "known: 'off', 'odd'." in run({"odd": {}, "off": {"command": "x"}}, "none")[2]


def test_where_no_server_is_looked_at_it_reads_well(run: Run) -> None:
    code, out, _ = run({"off": {"command": "x", "disabled": True}})
    assert (code, out.splitlines()[-1]) == (0, "No server was checked; no problem was found.")


def test_the_limit_can_be_given(run: Run) -> None:
    code, out, _ = run({"a": python("import sys; sys.stdin.read()")}, "--timeout", "0.5")
    assert code == 1
    assert "did not answer within 0.5 s" in out


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_files_of_clients_that_others_can_read_are_in_the_summary(run: Run) -> None:
    path = CLIENTS["cursor"].file(Machine.here())
    path.parent.mkdir(parents=True)
    entry = {"command": "x", "env": {"API_KEY": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}}
    path.write_text(json.dumps({"mcpServers": {"x": entry}}), encoding="utf-8")
    path.chmod(0o644)
    for folder in (path.parent, path.parent.parent):
        folder.chmod(0o755)
    code, out, err = run({"a": speaking(TOOL)})
    assert code == 0
    assert out.endswith("1 server checked. Other users can read 1 file of your clients.\n")
    assert f"`chmod 600 {path}`" in err
    out = run({"a": {"command": "pegboard-nonesuch"}})[1]
    assert "1 server checked: 1 error, 1 warning. Other users can read 1 file" in out
    code, out, err = run({"a": speaking(TOOL)}, "a")
    assert out.endswith("All ok: 1 server checked.\n")
    assert "chmod" not in err


def test_an_entry_that_hides_that_it_is_pegboard_itself_is_found_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PEGBOARD_SERVING", raising=False)
    line = f"exec {sys.executable} -m pegboard.cli.main serve --stdio --config mcp.json"
    code, out, _ = run({"me": {"command": "sh", "args": ["-c", line]}})
    assert code == 1
    assert "error [itself] me" in out
    assert "PEGBOARD_SERVING" not in os.environ


def test_nothing_configured_says_how_to_begin(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 3
    out = capfd.readouterr().out
    assert "error [no_configuration]" in out
    assert "`pegboard import`" in out


def test_a_damaged_store_is_found(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "store.json"
    store.write_text("{ no store", encoding="utf-8")
    code, out, _ = run({"a": speaking(TOOL)}, "--store", str(store))
    assert code == 1
    assert "error [store_unusable]" in out
    assert store.read_text("utf-8") == "{ no store"


def test_no_secret_of_the_file_is_printed(run: Run) -> None:
    canary = "canary0123456789abcdef"
    entry = python(
        "import os, sys; sys.exit('refused: ' + os.environ['MY_TOKEN'])", env={"MY_TOKEN": canary}
    )
    for words in ((), ("--json",)):
        code, out, err = run({"a": entry}, *words)
        assert code == 1
        assert "plain_secret" in out
        assert canary not in out + err


def test_what_a_server_says_cannot_steer_the_terminal(run: Run) -> None:
    code, out, err = run({"a": python("import sys; sys.exit('\\x1b[2J\\x1b]0;owned\\x07bye')")})
    assert code == 1
    assert "\x1b" not in out + err
    assert "bye" in out


def test_on_a_terminal_a_live_table_is_on_standard_error_alone(path: Path, tmp_path: Path) -> None:
    path.write_text(json.dumps({"mcpServers": {"notes": speaking(TOOL)}}), encoding="utf-8")
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "pegboard.cli.main", "doctor", "--json"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=terminal, stdin=terminal, env=environment
    ) as process:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # Linux says so where the other end is closed.
            while chunk := os.read(screen, 4096):
                shown += chunk
        out = process.stdout.read() if process.stdout is not None else b""
    os.close(screen)
    assert process.returncode == 0
    assert json.loads(out)["ok"] is True
    assert b"notes" in shown
    assert b"\x1b[" in shown
    assert b"\x1b[?25h" in shown, "the cursor is to be seen again"
