"""Commands talk to a gateway that runs with the same configuration."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pegboard.server.process.instance_discovery import RunningInstance, identity_of
from tests.cli.handy import ENTRY, Home, Terminal


@contextmanager
def gateway(home: Home, *options: str, **environ: str) -> Generator[str]:
    """Start `pegboard serve`, and give its address once it is announced."""
    process = subprocess.Popen(
        [*ENTRY, "serve", "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**home.environ, **environ},
        cwd=home.folder,
    )
    assert process.stderr is not None
    try:
        said = b""
        while b"client:" not in said:
            line = process.stderr.readline()
            assert line, said.decode()
            said += line
        while not list(announced(home)):
            assert process.poll() is None
        found = re.search(rb"(http://[^/ ]+)/mcp", said)
        assert found is not None
        yield found[1].decode()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def announced(home: Home) -> Iterator[Path]:
    return (home.folder / "state" / "pegboard" / "gateways").glob("*.json")


def status_of(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("home"))
    # Every other client has to authenticate.
    auth = {"auth": {"keys": True}}
    home.configure({"handy": home.entry(tags=["own"])}, gateway=auth)
    return home


@pytest.fixture(scope="module")
def address(home: Home) -> Iterator[str]:
    with gateway(home) as found:
        yield found


@pytest.mark.usefixtures("address")
def test_no_server_is_started_twice_and_calls_share_its_state(home: Home) -> None:
    starts = home.starts()
    assert home.main("call", "mcp_handy_count").stdout == "1\n"
    assert home.main("call", "mcp_handy_count").stdout == "2\n"
    assert "mcp_handy_echo" in home.main("tools").stdout
    assert home.main("search", "take steps").returncode == 0
    assert home.starts() == starts
    assert home.main("call", "mcp_handy_count", "--alone").stdout == "1\n"
    assert home.starts() == starts + 1


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    "words",
    [
        ["tools"],
        ["tools", "--json"],
        ["categories"],
        ["show", "mcp_handy_echo", "--json"],
        ["search", "steps", "--tag", "own", "--json", "--limit", "3", "--explain"],
        ["cost", "--json"],
    ],
)
def test_the_answer_is_the_same_with_and_without_it(home: Home, words: list[str]) -> None:
    asked, alone = home.main(*words), home.main(*words, "--alone")
    assert asked.returncode == 0
    if "--json" in words:
        assert json.loads(asked.stdout) == json.loads(alone.stdout)
    else:
        assert asked.stdout == alone.stdout


@pytest.mark.usefixtures("address")
def test_what_goes_wrong_is_told_as_without_it(home: Home) -> None:
    assert home.main("call", "echo").returncode == 3
    assert home.main("search", "steps", "--server", "nowhere").returncode == 3
    wrong = home.main("search", "steps", "--method", "magic")
    assert wrong.returncode == 2
    assert "magic" in wrong.stderr
    failed = home.main("call", "mcp_handy_fail")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "It is broken." in failed.stderr
    asked = home.main("call", "mcp_handy_ask")
    assert json.loads(asked.stdout) == {"action": "decline"}


def test_a_call_of_a_tool_that_is_not_there_is_kept_by_the_gateway(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.configure({"handy": home.entry(), "charts": {"command": "no-such-command"}})
    with gateway(home) as address:
        down = home.main("call", "mcp_charts_draw")
        assert down.returncode == 1
        error, remedy = down.stderr.splitlines()
        assert error.startswith("error: Tool 'mcp_charts_draw' is missing, because server 'charts'")
        assert "is down: the command 'no-such-command' was not found" in error
        assert remedy == "`pegboard doctor charts` says more."
        assert home.main("call", "mcp_handy_ekko").returncode == 3
        kept = json.loads(home.main("calls", "--json").stdout)
        found = [(it["tool"], it["outcome"], it["error_code"], it["caller"]) for it in kept]
        assert found == [
            ("mcp_charts_draw", "refused", "server_unavailable", "local"),
            ("mcp_handy_ekko", "refused", "not_found", "local"),
        ]
        [path] = announced(home)
        token = json.loads(path.read_text("utf-8"))["token"]
        for body in (b"", b'{"tool": ""}', b'{"tool": "x", "code": "else"}'):
            request = urllib.request.Request(
                f"{address}/owner/calls/refused",
                data=body,
                headers={"Authorization": f"Bearer {token}"},
            )
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            refused.value.close()
            assert refused.value.code == 400


def test_usage_counts_each_call_at_once_and_knows_the_tools_of_the_gateway(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.configure({"handy": home.entry(env={"NOTES": str(home.notes), "OWN": "${OWN_VALUE:-1}"})})
    with gateway(home, OWN_VALUE="2"):
        usage: dict[str, Any] = {}
        for number in range(1, 4):
            assert home.main("call", "mcp_handy_count").returncode == 0
            usage = json.loads(home.main("usage", "--json").stdout)
            assert [(it["tool"], it["calls"]) for it in usage["tools"]] == [
                ("mcp_handy_count", number)
            ]
        shown = {it["name"] for it in json.loads(home.main("tools", "--json").stdout)}
        assert set(usage["never_used"]) == shown - {"mcp_handy_count"}


@pytest.mark.usefixtures("address")
def test_a_person_answers_the_questions_that_come_through_it(home: Home) -> None:
    with Terminal(home, ["call", "mcp_handy_ask"]) as terminal:
        terminal.until(r"asks: Who\?.*Answer\? \[Y/n\] ")
        terminal.type("")
        terminal.until(r"city \(string\): ")
        terminal.type("Oslo")
        terminal.until(r"age \(integer\): ")
        terminal.type("44")
        terminal.until(r"colour ")
        terminal.type("blue")
        assert terminal.end() == 0
        assert '"content": {"city": "Oslo", "age": 44, "colour": "blue"}' in terminal.shown


def test_its_desk_is_there_for_the_owner_alone(home: Home, address: str) -> None:
    [path] = announced(home)
    token = json.loads(path.read_text("utf-8"))["token"]
    for place in ("servers", "tools"):
        url = f"{address}/owner/{place}"
        assert status_of(url, Authorization=f"Bearer {token}") == 200
        assert status_of(url) == 404
        assert status_of(url, Authorization=f"Bearer {token}x") == 404
    assert status_of(f"{address}/metrics") == 401
    assert status_of(f"{address}/metrics", Authorization=f"Bearer {token}") == 200
    assert status_of(f"{address}/owner/else", Authorization=f"Bearer {token}") == 404


@pytest.mark.usefixtures("address")
def test_another_configuration_is_not_served_by_it(home: Home) -> None:
    other = home.folder / "other.json"
    other.write_text('{"mcpServers": {}}', encoding="utf-8")
    ran = home.main("tools", "--config", str(other))
    assert (ran.returncode, ran.stdout) == (3, "")
    kept = home.main("tools", "--json", "--store", str(home.folder / "other.db"))
    assert kept.returncode == 0
    assert (home.folder / "other.db").exists()


def test_its_announcement_goes_with_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with gateway(home):
        [path] = announced(home)
        assert path.stat().st_mode & 0o777 == 0o600
    assert list(announced(home)) == []


def test_a_call_that_is_cut_off_is_told_so_by_the_gateway(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with gateway(home):
        [path] = announced(home)
        pid = json.loads(path.read_text("utf-8"))["pid"]
        words = [*ENTRY, "call", "mcp_handy_wait"]
        with subprocess.Popen(
            words, stderr=subprocess.PIPE, env=home.environ, cwd=home.folder
        ) as calling:
            while "called wait" not in home.noted():
                assert calling.poll() is None
            os.kill(pid, signal.SIGINT)
            while path.exists():
                pass
            os.kill(pid, signal.SIGINT)
            _, said = calling.communicate(timeout=15)
    assert b"The gateway answered with error -32603: The gateway is shutting down." in said
    assert b"it may have run all the same: look before you repeat it." in said


def test_what_is_tried_out_is_found_where_nothing_is_configured(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "mcp.json").unlink()
    with gateway(home, "--demo"):
        # The demo servers may still be starting on a busy machine.
        while "mcp_numbers_to_roman" not in home.main("tools").stdout:
            assert announced(home)
        ran = home.main("call", "mcp_numbers_to_roman", "number=4")
        assert (ran.stdout, ran.stderr) == ("IV\n", "")
        [path] = announced(home)
        os.kill(json.loads(path.read_text("utf-8"))["pid"], signal.SIGKILL)
        # It may take a moment to die.
        while path.exists():
            home.main("tools")
    assert "pegboard serve --demo" in home.main("tools").stderr


def test_where_the_gateway_has_no_store_it_is_said_which_one_is_looked_at(tmp_path: Path) -> None:
    home = Home(tmp_path)
    own = tmp_path / "data/pegboard/pegboard.db"
    with gateway(home, "--demo") as address:
        told = f"The gateway at {address} has no store, like any `serve --demo`; this command "
        for words in (["store", "info"], ["store", "export", "-"], ["usage"], ["usage", "--json"]):
            assert f"{told}uses {own}." in home.main(*words).stderr
        assert told not in home.main("usage", "--store", str(own)).stderr
    assert "The gateway at" not in home.main("usage").stderr


def test_where_the_gateway_has_another_store_both_are_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    other = tmp_path / "other.db"
    with gateway(home, "--store", str(other)):
        assert f"has its store in {other}; this command uses" in home.main("usage").stderr


def test_a_second_one_at_the_same_place_is_told_of_the_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with gateway(home) as address:
        ran = home.run("serve", "--port", address.rpartition(":")[2])
    assert ran.returncode == 1
    assert "Your own gateway already runs there" in ran.stderr
    assert f"{address}/mcp" in ran.stderr


def test_only_knows_the_gateway_by_any_spelling_of_its_address(home: Home, address: str) -> None:
    port = address.rpartition(":")[2]
    for url in (f"http://localhost:{port}/mcp/", f"http://LOCALHOST:{port}/mcp-full", address):
        given = url if url != address else f"{address}/sse/"
        ran = home.main("connect", "cursor", "--only", "--yes", "--url", given)
        assert ran.returncode == 0, ran.stderr
    for url in (f"http://localhost:{port}/mcp/handy", f"http://elsewhere:{port}/mcp", address):
        ran = home.main("connect", "cursor", "--only", "--yes", "--url", url)
        assert "does not know" in ran.stderr
    assert home.main("disconnect", "cursor").returncode == 0


def test_a_gateway_that_hangs_is_told_and_done_without(tmp_path: Path) -> None:
    home = Home(tmp_path)
    machine, started = identity_of(os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hanging = RunningInstance(
            pid=os.getpid(),
            started=started,
            machine=machine,
            address=f"http://127.0.0.1:{silent.getsockname()[1]}",
            config=str((tmp_path / "mcp.json").resolve()),
            store=None,
            token="t",
        )
        path = tmp_path / "state/pegboard/gateways/1.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(msgspec.json.encode(hanging))
        path.chmod(0o600)
        ran = home.main("call", "mcp_handy_echo", "text=hello")
    assert ran.returncode == 0
    assert "does not respond; this command does without it" in ran.stderr


def test_at_a_terminal_it_is_said_at_once_that_servers_are_started(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with Terminal(home, ["serve", "--port", "0"]) as terminal:
        terminal.until(r"Starting 1 server….*For the file of your client")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.end()


def test_the_doctor_is_silent_about_a_gateway_whose_servers_it_does_not_start(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    (tmp_path / "mcp.json").unlink()
    with gateway(home, "--demo"):
        ran = home.main("doctor")
    assert ran.returncode == 3
    assert "No server was checked" in ran.stdout
    assert "gateway at" not in ran.stderr


def test_the_doctor_names_an_entry_that_is_the_running_gateway_itself(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with gateway(home) as address:
        port = address.rpartition(":")[2]
        urls = {"me": f"http://localhost:{port}/mcp-full", "other": "http://127.0.0.1:1/mcp"}
        home.configure({name: {"url": it} for name, it in urls.items()})
        ran = home.main("doctor", "--json")
    assert ran.returncode == 1
    report = json.loads(ran.stdout)
    found = {it["server"]: it["code"] for it in report["findings"]}
    assert found == {"me": "itself", "other": "connection_refused"}
    assert {it["server"]: it["state"] for it in report["servers"]}["me"] == "unusable"
