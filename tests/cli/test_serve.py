"""`pegboard serve`: what it says when it starts; what it does is tried in tests/server."""

import os
import re
import signal
import socket
import sys
from pathlib import Path

import httpx2
import pytest
import typer

from pegboard.cli.commands.serve import serve
from pegboard.cli.main import main
from pegboard.upstream.stdio.environment import SERVING
from tests.server.processes import ROOT, appears, serving


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


async def test_without_a_configuration_it_serves_nothing_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, XDG_CONFIG_HOME=str(tmp_path), PEGBOARD_CONFIG="") as served:
        await served.hears("For the file of your client")
        assert "`pegboard import`" in served.said
        assert "`pegboard serve --demo`" in served.said
        served.process.send_signal(signal.SIGINT)
        await served.rest()
        assert served.process.returncode == 0
    assert "Traceback" not in served.said


async def test_a_server_that_cannot_be_used_is_told_with_the_reason(tmp_path: Path) -> None:
    entry = {"command": "run", "env": {"TOKEN": "${NOBODY_SET_THIS}"}}
    async with serving(tmp_path, config={"mcpServers": {"mine": entry}}) as served:
        await served.hears("For the file of your client")
    told = served.said[served.said.index("Pegboard serves") :]
    assert "No server of the configuration can be used" in told
    assert "NOBODY_SET_THIS is not set" in told
    assert "No server is configured" not in told


def test_a_file_without_any_known_section_is_refused_as_by_config_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.cli.entry.signals.hear_signals_early", lambda: None)
    monkeypatch.setenv(SERVING, "")
    file = tmp_path / "mcp.json"
    file.write_text('{\n  "servres": {"time": {"command": "uvx"}}\n}', "utf-8")
    assert main(["config", "check", "--config", str(file)]) == 1
    place, _, problem = capsys.readouterr().out.splitlines()[0].partition("error: ")
    assert "Did you mean `servers` instead of `servres`?" in problem
    assert main(["serve", "--config", str(file), "--store", str(tmp_path / "it.db")]) == 1
    assert f"{place}{problem}" in capsys.readouterr().err


async def test_each_entry_has_a_line_and_is_counted_once(tmp_path: Path) -> None:
    config = {
        "mcpServers": {
            "gone": {"command": "no-such-command"},
            "off": {"command": "run", "disabled": True},
            "unset": {"command": "run", "env": {"TOKEN": "${NOBODY_SET_THIS}"}},
        }
    }
    async with serving(tmp_path, config=config) as served:
        await served.hears("For the file of your client")
        told = served.said[served.said.index("Pegboard serves") :]
        assert "serves 0 tools of 0 servers (1 down, 1 disabled, 1 unusable)." in told
        lines = [line.split(maxsplit=1) for line in told.splitlines()[1:4]]
        assert [it[0] for it in lines] == ["gone", "off", "unset"]
        assert "unusable: `env.TOKEN`: The environment variable" in lines[2][1]
        assert served.said.count("NOBODY_SET_THIS is not set") == 2
        async with httpx2.AsyncClient() as client:
            page = (await client.get(f"{served.url}/metrics")).text
        assert 'pegboard_servers{server="unset",state="unusable"} 1' in page


async def test_a_demo_that_asks_for_keys_says_whose_keys_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert main(["keys", "create"]) == 0
    async with serving(tmp_path, "--demo", PEGBOARD_AUTH="keys", PEGBOARD_STORE="") as served:
        await served.hears("For the file of your client")
    assert f"API keys         {tmp_path / 'pegboard' / 'pegboard.db'}" in served.said
    assert "There is no API key yet" not in served.said
    assert "none: everything is lost at shutdown" in served.said


async def test_ended_while_it_starts_it_does_not_say_what_it_serves(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    script = f"import sys; open({str(mark)!r}, 'w').close(); sys.stdin.read()"
    entry = {"command": sys.executable, "args": ["-c", script]}
    async with serving(tmp_path, config={"mcpServers": {"stuck": entry}}) as served:
        await appears(mark)
        served.process.send_signal(signal.SIGINT)
        said = await served.rest()
        assert served.process.returncode == 0
    assert "Pegboard serves" not in said
    assert "For the file of your client" not in said


@pytest.mark.parametrize("words", [["--drain", "-1"], ["--notice", "soon"], ["more"]])
def test_what_cannot_be_meant_is_misuse(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.cli.entry.signals.hear_signals_early", lambda: None)
    assert main(["serve", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("store", ["foo", "mysql://x/y"])
def test_a_store_of_no_known_kind_is_misuse(
    store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.cli.entry.signals.hear_signals_early", lambda: None)
    assert main(["serve", "--store", store]) == 2
    told = capsys.readouterr().err
    assert "sqlite" in told
    assert "postgresql" in told
    assert "bug in Pegboard" not in told


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_pipe_in_the_place_of_the_store_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.cli.entry.signals.hear_signals_early", lambda: None)
    os.mkfifo(tmp_path / "pipe.db")
    assert main(["serve", "--port", "0", "--store", str(tmp_path / "pipe.db")]) == 1
    assert "Name a file" in capsys.readouterr().err


def test_on_windows_it_says_where_it_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(typer.Exit) as ended:
        serve()
    assert ended.value.exit_code == 1
    assert "on Windows use WSL" in capsys.readouterr().err


async def test_a_gateway_that_is_a_server_of_its_own_file_ends_at_once_and_says_why(
    tmp_path: Path,
) -> None:
    line = f"exec {sys.executable} -m pegboard.cli.main serve --stdio --config mcp.json"
    entry = {
        "command": "sh",
        "args": ["-c", line],
        "cwd": str(tmp_path),
        "env": {"PYTHONPATH": str(ROOT)},
    }
    async with serving(tmp_path, config={"mcpServers": {"me": entry}}) as served:
        await served.hears("exited with code 2")
        await served.hears("`pegboard remove NAME --config ")


async def test_no_client_is_sent_to_the_address_that_stands_for_all(tmp_path: Path) -> None:
    words = ("--host", "0.0.0.0", "--allow-anonymous")
    async with serving(tmp_path, *words, config={"mcpServers": {}}) as served:
        await served.hears("For the file of your client")
    assert "http://0.0.0.0" not in served.said
    assert '"url": "http://127.0.0.1:' in served.said
    assert "Other machines use a name or an address of this machine" in served.said


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
async def test_it_serves_on_every_address_of_both_families(tmp_path: Path) -> None:
    words = ("--host", "::", "--allow-anonymous")
    async with serving(tmp_path, *words, config={"mcpServers": {}}) as served:
        await served.hears("For the file of your client")
        found = re.search(r'"url": "http://\[::1\]:(\d+)/mcp"', served.said)
        assert found, served.said
        for host in ("[::1]", "127.0.0.1", "localhost"):
            async with httpx2.AsyncClient() as client:
                said = await client.get(f"http://{host}:{found[1]}/healthz")
                assert (said.status_code, said.text) == (200, "ok\n"), host
    assert "http://[::]" not in served.said
    assert "Other machines use a name or an address of this machine in place of ::1" in served.said


async def test_a_gateway_may_be_a_server_of_another(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"mcpServers": {}}', "utf-8")
    args = ["-m", "pegboard.cli.main", "serve", "--stdio", "--config", str(tmp_path / "other.json")]
    entry = {"command": sys.executable, "args": args, "env": {"PYTHONPATH": str(ROOT)}}
    async with serving(tmp_path, config={"mcpServers": {"other": entry}}) as served:
        await served.hears("For the file of your client")
    assert re.search(r"other +ready", served.said), served.said
