import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from pegboard.doctor import CODES, Checkup, ProbeLimits, diagnose
from pegboard.doctor.report import shown
from tests.doctor.patients import TOOL, codes, python, report_of, shell, speaking
from tests.upstream.processes import alive, all_ended, new_marker, until

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("started", file=sys.stderr, flush=True)
while True:
    time.sleep(1)
"""


async def test_each_server_is_told_about_from_waiting_to_the_end() -> None:
    seen: list[Checkup] = []
    await report_of({"it": speaking(TOOL)}, on_checkup=seen.append)
    assert [it.state for it in seen] == ["waiting", "starting", "listing", "ready"]


async def test_no_more_servers_than_allowed_are_looked_at_at_once() -> None:
    running, most = set[str](), 0

    def tell(checkup: Checkup) -> None:
        nonlocal most
        if checkup.state == "starting":
            running.add(checkup.server)
        elif checkup.state in ("ready", "down"):
            running.discard(checkup.server)
        most = max(most, len(running))

    servers = {f"s{number}": shell(f"exit {number}") for number in range(6)}
    report = await report_of(servers, limits=ProbeLimits(each=20, at_once=2), on_checkup=tell)
    assert codes(report.findings) == ["exited"] * 6
    # One may be counted a moment after it has made place for the next.
    assert most <= 4


async def test_servers_are_looked_at_side_by_side() -> None:
    # Each waits until the other is there, too.
    at_once = anyio.Event()
    starting: list[str] = []

    def tell(checkup: Checkup) -> None:
        if checkup.state == "starting":
            starting.append(checkup.server)
            if len(starting) == 2:
                at_once.set()

    async with anyio.create_task_group() as group:
        servers = {"a": python("import sys; sys.stdin.read()", timeouts={"connect": 30})}
        servers["b"] = {**servers["a"], "env": {"WHICH": "b"}}

        async def run() -> None:
            await report_of(servers, seconds=30, on_checkup=tell)

        group.start_soon(run)
        with anyio.fail_after(10):
            await at_once.wait()
        group.cancel_scope.cancel()


async def test_a_caller_who_is_cancelled_leaves_no_process() -> None:
    marker = new_marker()
    name, _, value = marker.partition("=")
    entry = python(STUBBORN, env={name: value})
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: report_of({"it": entry}, seconds=30))
        await until(lambda: bool(alive(marker)), seconds=10)
        group.cancel_scope.cancel()
    await all_ended(marker)


async def test_a_visit_that_is_over_leaves_no_process() -> None:
    marker = new_marker()
    name, _, value = marker.partition("=")
    report = await report_of({"it": speaking(TOOL, env={name: value})})
    assert report.is_ok
    await all_ended(marker)


async def test_no_secret_is_in_any_word_whatever_a_server_does_with_it() -> None:
    canary = "canary-7f3a9b1c5d"
    betray = "import os, sys; sys.stderr.write('no ' + os.environ['API_TOKEN'] + ' accepted\\n');"
    servers: dict[str, Any] = {
        "says": python(f"{betray} sys.exit(1)", env={"API_TOKEN": canary}),
        "prints": python(
            "import os, sys; print(os.environ['API_TOKEN'], flush=True); sys.stdin.read()",
            env={"API_TOKEN": canary},
        ),
        "argument": {"command": "pegboard-nonesuch", "args": ["--api-key", canary]},
        "command": {"command": f"nonesuch --token {canary}"},
        "url": {"url": f"http://127.0.0.1:9/mcp?token={canary}"},
        "header": {"url": "http://nonesuch.invalid/", "headers": {"X-API-Key": canary}},
        "folder": speaking(TOOL, cwd=f"/nowhere/{canary}", env={"API_TOKEN": canary}),
        "lists": speaking(tool_with(canary), env={"API_TOKEN": canary}),
    }
    report = await report_of(servers, seconds=2.0)
    assert len(report.servers) == len(servers)
    written = json.dumps([str(report.servers), str(report.findings)])
    assert canary not in written


def tool_with(canary: str) -> dict[str, Any]:
    return {**TOOL, "inputSchema": {"type": canary}}


async def test_the_log_says_no_more_than_before(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("pegboard.upstream").setLevel(logging.NOTSET)
    servers = {"it": speaking(TOOL, before="print('noise', file=sys.stderr, flush=True)")}
    await report_of(servers)
    assert "noise" not in caplog.text
    assert logging.getLogger("pegboard.upstream").level == logging.NOTSET
    assert logging.getLogger("pegboard.upstream").filters == []


async def test_a_modern_server_is_known_as_one() -> None:
    entry = {"command": sys.executable, "args": ["-m", "pegboard.cli.demo.notes"]}
    report = await report_of({"it": entry})
    assert report.servers[0].era == "modern"


async def test_a_file_is_looked_for_like_everywhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"it": speaking(TOOL)}}), encoding="utf-8")
    monkeypatch.setenv("PEGBOARD_CONFIG", str(path))
    report = await diagnose()
    assert report.config == str(path)
    assert [it.server for it in report.servers] == ["it"]


def test_every_code_has_a_meaning_and_is_induced_by_a_test() -> None:
    tests = "".join(it.read_text("utf-8") for it in Path(__file__).parent.glob("test_*.py"))
    for code, (_, meaning) in CODES.items():
        assert meaning
        assert f'"{code}"' in tests, f"no test induces {code!r}"


def test_what_somebody_else_wrote_is_shown_on_one_line() -> None:
    assert shown("a\x1b[31m\nb\u202e c " + "d" * 500) == "a [31m b c " + "d" * 228 + "…"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_ends_the_command_and_leaves_no_process(tmp_path: Path) -> None:
    marker = new_marker()
    name, _, value = marker.partition("=")
    path = tmp_path / "mcp.json"
    servers = {"it": python(STUBBORN, env={name: value})}
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    command = [sys.executable, "-m", "pegboard.cli.main", "doctor", "--config", str(path)]
    store = ["--store", str(tmp_path / "store.db")]
    with subprocess.Popen(
        [*command, *store], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        anyio.run(lambda: until(lambda: bool(alive(marker)), seconds=30))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err
    anyio.run(all_ended, marker)
