"""`pegboard status`: of a gateway that runs, as it is remembered, or after a start."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from pegboard.cli.main import main
from pegboard.hub import Hub
from tests.cli.handy import Home, Terminal
from tests.doctor.patients import TOOL, speaking

Run = Callable[..., tuple[int, str, str]]
UNSET = {"command": "x", "args": ["${PEGBOARD_NONESUCH}"]}
FIELDS = [
    *("server", "state", "transport", "target", "era", "protocol_version", "server_version"),
    *("tools", "tokens", "startup_seconds", "starts", "calls", "failed_calls", "last_error"),
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    monkeypatch.delenv("PEGBOARD_STORE", raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "mcp.json"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def running(*words: str) -> tuple[int, str, str]:
        code = main(["status", *words])
        said = capfd.readouterr()
        return code, said.out, said.err

    return running


def write(path: Path, servers: dict[str, Any]) -> None:
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def test_servers_that_nobody_has_started_are_not_started(path: Path, run: Run) -> None:
    mark = path.parent / "started"
    entry = speaking(TOOL, before=f"open({str(mark)!r}, 'w').close()")
    write(path, {"notes": entry, "off": {"command": "x", "disabled": True}})
    code, out, err = run("--json")
    assert code == 0
    assert err == ""
    notes, off = json.loads(out)["servers"]
    assert list(notes) == FIELDS
    assert (notes["state"], notes["tools"], notes["tokens"]) == ("cold", None, None)
    assert off["state"] == "disabled"
    assert not mark.exists()
    assert sorted(it.name for it in path.parent.iterdir()) == ["mcp.json"]


def test_what_the_store_remembers_is_told(path: Path, run: Run) -> None:
    write(path, {"notes": speaking(TOOL)})
    store = str(path.parent / "store.db")
    anyio.run(remember, path, store)
    code, out, err = run("--store", store)
    assert code == 0
    assert out.splitlines()[1].split()[:4] == ["notes", "cold", "legacy", "1"]
    assert "`--start` starts the servers" in err
    [notes] = json.loads(run("--store", store, "--json")[1])["servers"]
    assert (notes["tools"], notes["protocol_version"]) == (1, "2025-06-18")
    assert notes["tokens"] > 0


async def remember(path: Path, store: str) -> None:
    async with Hub.open(path, storage=store):
        pass


def test_a_server_that_is_switched_off_needs_no_values(path: Path, run: Run) -> None:
    write(path, {"unset": UNSET | {"enabled": False}})
    code, out, err = run("--json")
    assert (code, err) == (0, "")
    assert [(it["state"], it["last_error"]) for it in json.loads(out)["servers"]] == [
        ("disabled", None)
    ]
    assert main(["config", "check"]) == 0


def test_what_went_wrong_is_forgotten_of_a_server_that_is_switched_off(
    path: Path, run: Run
) -> None:
    broken = {"command": "pegboard-nonesuch"}
    write(path, {"broken": broken})
    store = str(path.parent / "store.db")
    main(["tools", "--store", store])
    run()
    [before] = json.loads(run("--store", store, "--json")[1])["servers"]
    assert "was not found" in before["last_error"]
    write(path, {"broken": broken | {"enabled": False}})
    [after] = json.loads(run("--store", store, "--json")[1])["servers"]
    assert (after["state"], after["last_error"]) == ("disabled", None)


def test_the_sdk_is_not_imported_for_what_is_remembered(path: Path) -> None:
    write(path, {"notes": speaking(TOOL)})
    code = (
        "import sys; from pegboard.cli.main import main; main(['status']); "
        "print(*{it.partition('.')[0] for it in sys.modules} & {'mcp', 'mcp_types', 'numpy'})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert ran.stdout.splitlines()[-1] == ""


def test_with_start_the_servers_are_started_and_stopped_again(path: Path, run: Run) -> None:
    write(path, {"notes": speaking(TOOL), "broken": {"command": "pegboard-nonesuch"}})
    code, out, _ = run("--start", "--json")
    notes, broken = json.loads(out)["servers"]
    assert code == 0
    assert (notes["state"], notes["tools"], notes["starts"]) == ("ready", 1, 1)
    assert notes["startup_seconds"] > 0
    assert broken["state"] == "down"
    assert "was not found" in broken["last_error"]


def test_nothing_configured_is_said(path: Path, run: Run) -> None:
    code, out, err = run()
    assert (code, out) == (3, "")
    assert "`pegboard import`" in err
    assert json.loads(run("--json")[1]) == {"servers": [], "limits": []}


def test_a_store_without_a_kind_is_misuse(
    path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, {"notes": {"command": "pegboard-nonesuch"}})
    monkeypatch.setenv("PEGBOARD_STORE", "/data/pegboard")
    code, _, err = run()
    assert code == 2
    assert "bug in Pegboard" not in err


def test_an_entry_that_cannot_be_used_is_said(path: Path, run: Run) -> None:
    write(path, {"bad": {"args": []}, "unset": UNSET})
    code, out, err = run()
    assert code == 0
    # It is told once, in the row of the entry.
    assert "error:" not in err
    assert out.count("variable PEGBOARD_NONESUCH is not set") == 1
    assert "Server 'unset'" not in out
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["bad", "unusable"],
        ["unset", "unusable"],
    ]
    bad, unset = json.loads(run("--json")[1])["servers"]
    assert list(unset) == FIELDS
    assert (unset["server"], unset["state"], unset["tools"]) == ("unset", "unusable", None)
    assert "PEGBOARD_NONESUCH" in unset["last_error"]
    assert "'bad'" in bad["last_error"]


@pytest.fixture
def gateway(path: Path) -> Iterator[str]:
    entries = {"notes": speaking(TOOL), "broken": {"command": "pegboard-nonesuch"}, "unset": UNSET}
    write(path, entries)
    command = [sys.executable, "-m", "pegboard.cli.main", "serve", "--port", "0"]
    command += ["--allow-register"]
    with subprocess.Popen(
        [*command, "--config", str(path), "--store", str(path.parent / "store.db")],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=dict(os.environ),
    ) as process:
        said: list[str] = []
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if "For the file of your client" in line:
                break
        yield "".join(said)
        process.terminate()


def test_a_gateway_that_runs_is_asked(
    gateway: str, run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run("--json")
    assert code == 0, gateway
    notes, broken, unset = json.loads(out)["servers"]
    used = {it["name"]: (it["used"], it["limit"]) for it in json.loads(out)["limits"]}
    assert used["parked calls"] == (0, 256)
    assert used["sessions"] == (0, 10_000)
    assert list(notes) == FIELDS
    assert (notes["state"], notes["tools"], notes["starts"]) == ("ready", 1, 1), gateway
    assert notes["tokens"] > 0
    assert broken["state"] in ("down", "tripped", "starting")
    assert "was not found" in broken["last_error"]
    assert (unset["server"], unset["state"]) == ("unset", "unusable")
    assert "PEGBOARD_NONESUCH" in unset["last_error"]
    monkeypatch.setenv("PEGBOARD_NONESUCH", "known here, but not there")
    unset = json.loads(run("--json")[1])["servers"][2]
    assert (unset["server"], unset["state"]) == ("unset", "unusable")
    assert "PEGBOARD_NONESUCH is not set" in unset["last_error"]
    _, shown, said = run()
    assert "the gateway at http://127.0.0.1:" in said
    assert re.search(r"^sessions +0 +10,000 +- +gateway.limits.sessions$", shown, re.MULTILINE)
    assert json.loads(run("--alone", "--json")[1])["servers"][0]["state"] == "cold"
    assert main(["doctor", "notes"]) == 0
    assert "started its servers a second time" in capfd.readouterr().err


def test_definitions_registered_for_a_server_are_not_among_its_own(gateway: str, run: Run) -> None:
    before = json.loads(run("--json")[1])["servers"][0]
    found = re.search(r"http://\S+/mcp", gateway)
    assert found is not None, gateway
    anyio.run(register, found[0], {"name": "more", "description": "x" * 400, "mcp_server": "notes"})
    after = json.loads(run("--json")[1])["servers"][0]
    assert (after["tools"], after["tokens"]) == (1, before["tokens"])


async def register(address: str, tool: dict[str, Any]) -> None:
    with anyio.fail_after(10):
        async with Client(address) as client:
            assert not (await client.call_tool("register_tool", tool)).is_error


def test_on_a_narrow_terminal_states_are_whole_and_errors_stand_below(tmp_path: Path) -> None:
    home = Home(tmp_path, entries={"the-server-of-everybody": UNSET, "notes": speaking(TOOL)})
    with Terminal(home, ["status"], COLUMNS="60") as terminal:
        assert terminal.end() == 0
    assert "cold" in terminal.shown
    assert "LAST ERROR" not in terminal.shown
    [told] = [
        it["last_error"] for it in json.loads(home.main("status", "--json").stdout)["servers"]
    ][1:]
    name = "the-server-of-everybody"
    assert f"{name}: {told.removeprefix(f'Server {name!r}, ')}" in terminal.shown
