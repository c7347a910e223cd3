"""The inspector at the gateway: tasks, apps and skills, by its `--cli` and by its `mcpdo`.

Its `--cli` has no methods of tasks, but follows the task that a call becomes. `mcpdo` has them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.process import ROOT, serve_command, serving
from tests.journeys.test_apps_host import NEEDS, example
from tests.journeys.test_real_clients import INSPECTOR, NODE, PROGRAMS, first_or_full
from tests.skills.test_folder import write

pytestmark = pytest.mark.timeout(180)

MCPDO = INSPECTOR.parents[1] / "mcpdo" / "build" / "mcp-bin.js"
DO = [NODE, MCPDO, "--format", "json"]
Run = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def home() -> Generator[Path]:
    # Not below that of pytest: the address of a socket in it has to be short.
    home = Path(tempfile.mkdtemp(prefix="inspector-"))
    yield home
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    folder = tmp_path_factory.mktemp("gateway")
    script = str(PROGRAMS / "digging_server.py")
    servers = {
        "hall": example("server-basic-vanillajs"),
        "field": {"command": sys.executable, "args": [script]},
    }
    write(folder / "skills", "refunds", files={"references/A.md": b"No.\n"})
    command = [*serve_command(servers, folder), "--port", "0"]
    file = {"mcpServers": servers, "skills": "./skills", "gateway": {"task_after": 0}}
    (folder / "mcp.json").write_text(json.dumps(file), "utf-8")
    with serving(command, at=ROOT) as origin:
        yield origin


def environment(home: Path) -> dict[str, str]:
    """Nothing of this user's is in reach."""
    return {
        **os.environ,
        "HOME": str(home),
        "MCP_INSPECTOR_SECRET_STORE": "file",
        "MCP_INSPECTOR_DAEMON_DIR": str(home / "daemon"),
        "MCP_INSPECTOR_DAEMON_TOKEN": "of-this-test",
    }


def run(home: Path, *command: object) -> str:
    done = subprocess.run(
        [str(it) for it in command],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        env=environment(home),
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def inspect(origin: str, home: Path) -> Run:
    """Run one method by `--cli`; returns the lines that it prints."""

    def inspect(era: str, method: str, *arguments: object) -> list[Any]:
        command = [NODE, INSPECTOR / "index.js", "--cli", f"{origin}/mcp-full", "--transport"]
        command += ["http", "--protocol-era", era, "--format", "json", "--quiet"]
        printed = run(home, *command, "--method", method, *arguments)
        return [json.loads(line) for line in printed.splitlines()]

    return inspect


both_eras = pytest.mark.parametrize("era", first_or_full("modern", "legacy", environments=NEEDS))


@pytest.mark.interop(*NEEDS)
def test_a_call_that_becomes_a_task_is_followed_to_its_result(inspect: Run, mcpdo: Run) -> None:
    before = listed(mcpdo)
    call = ("--tool-name", "mcp_field_dig", "--tool-arg", "seconds=0.1")
    [said] = inspect("modern", "tools/call", *call)
    assert said["result"]["content"][0]["text"] == "a deep hole"
    [status] = [status for task, status in listed(mcpdo).items() if task not in before]
    assert status == "completed"


@both_eras
def test_every_app_is_shown_with_its_page(inspect: Run, era: str) -> None:
    found = {
        it["toolName"]: it for it in inspect(era, "tools/list", "--app-info", "--advertise-apps")
    }
    apps = [it for it in found.values() if it["hasApp"]]
    assert apps
    assert all(it["resourceUri"].startswith("ui://hall/") for it in apps)
    assert not found["mcp_field_dig"]["hasApp"]


@both_eras
def test_every_skill_is_verified_and_its_folder_read(inspect: Run, era: str) -> None:
    [report] = inspect(era, "skills/list", "--verify", "--require-digests")
    assert (report["name"], report["outcome"], report["conformance"]) == ("refunds", "verified", [])
    [inside] = inspect(era, "resources/directory/read", "--uri", "skill://refunds/references")
    [child] = inside["result"]["resources"]
    assert child["uri"] == "skill://refunds/references/A.md"


@pytest.fixture
def mcpdo(origin: str, home: Path) -> Generator[Run]:
    """Run a command in a connection of an era; returns what it prints."""

    def mcpdo(era: str, *command: object) -> list[Any]:
        return [json.loads(run(home, *DO, "--connection", era, *command))]

    try:
        for era in ("legacy", "modern"):
            connect(home, origin, era, named=era)
        yield mcpdo
    finally:
        run(home, *DO, "daemon", "stop")


def connect(home: Path, origin: str, era: str, *, named: str) -> None:
    options = ["--server", named, "--era", era, "--transport", "http"]
    run(home, *DO, "connect", f"{origin}/mcp-full", *options)


def listed(mcpdo: Run) -> dict[str, str]:
    """Return the status of each task; only the handshake era has a list."""
    [found] = mcpdo("legacy", "tasks/list")
    return {it["taskId"]: it["status"] for it in found["tasks"]}


@both_eras
def test_tasks_are_made_and_asked_for(mcpdo: Run, era: str) -> None:
    before = listed(mcpdo)
    [called] = mcpdo(era, "tools/call", "--task", "mcp_field_dig", "seconds:=0.1")
    assert called["content"][0]["text"] == "a deep hole"
    [task] = listed(mcpdo).keys() - before.keys()
    [found] = mcpdo(era, "tasks/get", task)
    assert (found["task"]["taskId"], found["task"]["status"]) == (task, "completed")
    [result] = mcpdo(era, "tasks/result", task)
    assert result["content"] == called["content"]


@both_eras
def test_a_task_is_cancelled_while_its_call_waits(
    mcpdo: Run, origin: str, home: Path, era: str
) -> None:
    connect(home, origin, era, named="calling")
    before = listed(mcpdo)
    call = [*DO, "--connection", "calling", "tools/call", "--task", "mcp_field_dig"]
    with subprocess.Popen(
        [str(it) for it in (*call, "seconds:=1000")],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as waiting:
        while not (begun := listed(mcpdo).keys() - before.keys()):
            assert waiting.poll() is None
        [task] = begun
        mcpdo(era, "tasks/cancel", task)
        _, words = waiting.communicate(timeout=60)
        assert waiting.returncode != 0
        assert "cancelled" in words
    assert listed(mcpdo)[task] == "cancelled"
