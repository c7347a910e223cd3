"""`pegboard service`: the files that it writes, and what it asks the system to do."""

import json
import os
import plistlib
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.cli.service.service_managers import Launchd, Systemd
from pegboard.cli.service.unit_files import (
    ServicePlan,
    is_as_written,
    launchd_agent,
    systemd_unit,
)
from tests.cli.handy import Home, Ran

PLAN = ServicePlan(
    command=("/opt/a b/pegboard", "serve", "--config", '/home/me/50% "x"\\y/$HOME.json'),
    folder="/home/me/50% off",
    environment={"PATH": "/usr/bin:/opt/$x", "PEGBOARD_AUTH": "keys"},
    log="/home/me/gateway.log",
)
GOLDEN = r"""[Unit]
Description=Pegboard, one MCP endpoint for all tools

[Service]
ExecStart="/opt/a b/pegboard" "serve" "--config" "/home/me/50%% \"x\"\\y/$$HOME.json"
WorkingDirectory=/home/me/50%% off
Environment="PATH=/usr/bin:/opt/$x"
Environment="PEGBOARD_AUTH=keys"
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5
# Only the process itself gets the signal: it stops its servers.
KillMode=mixed
TimeoutStopSec=45

[Install]
WantedBy=default.target
"""
SYSTEMCTL = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
*show-environment*) [ -e {refuses} ] && {{ echo 'Failed to connect to bus' >&2; exit 1; }} ;;
*"show pegboard.service"*) printf 'ActiveState=active\\nMainPID=42\\nUnitFileState=enabled\\n' ;;
esac
exit 0
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the commands ask systemd here")


class Machine:
    """A home, and a program on its PATH that takes the part of systemctl."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.unit = folder / "config" / "systemd" / "user" / "pegboard.service"
        self._log = folder / "asked.txt"
        self.refuses = folder / "refuses"
        self._bin = folder / "bin"
        self._bin.mkdir()
        program = self._bin / "systemctl"
        program.write_text(SYSTEMCTL.format(log=self._log, refuses=self.refuses), encoding="utf-8")
        program.chmod(0o755)

    def run(self, *words: str) -> Ran:
        return self.pegboard("service", *words)

    def pegboard(self, *words: str) -> Ran:
        environ = {**self.home.environ, "SECRET": "of no concern", "TOKEN": "t0ken"}
        environ["PATH"] = f"{self._bin}:{environ['PATH']}"
        done = subprocess.run(
            [sys.executable, "-m", "pegboard.cli.main", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            env=environ,
            cwd=self.home.folder,
            check=False,
            timeout=50,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def asked(self) -> list[str]:
        """What systemctl was asked to do since this was read last."""
        found = self._log.read_text("utf-8").splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return [it.removeprefix("--user ") for it in found if "show" not in it]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def values_of(unit: bytes, name: str) -> list[str]:
    lines = unit.decode().splitlines()
    return [it.partition("=")[2] for it in lines if it.startswith(f"{name}=")]


def as_systemd_reads(line: str) -> list[str]:
    """Return the words of a line, which in these files are quoted as a shell would quote them."""
    return [it.replace("%%", "%").replace("$$", "$") for it in shlex.split(line)]


def test_a_unit_has_each_word_as_it_was_given() -> None:
    unit = systemd_unit(PLAN)
    assert as_systemd_reads(values_of(unit, "ExecStart")[0]) == list(PLAN.command)
    assert values_of(unit, "WorkingDirectory") == ["/home/me/50%% off"]
    assert [shlex.split(it)[0] for it in values_of(unit, "Environment")] == [
        "PATH=/usr/bin:/opt/$x",
        "PEGBOARD_AUTH=keys",
    ]
    assert unit.decode().partition("\n")[2] == GOLDEN


def test_systemd_itself_finds_nothing_wrong_with_a_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed here")
    plan = ServicePlan(
        command=(sys.executable, "-m", "pegboard.cli.main", "serve", "100% $HOME"),
        folder=str(tmp_path),
        environment={"PATH": os.environ["PATH"], "ODD": 'a "b" \\ 5% \n $c'},
        log="",
    )
    path = tmp_path / "pegboard.service"
    path.write_bytes(systemd_unit(plan))
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    verify = [program, "--user", "verify", str(path)]
    done = subprocess.run(verify, capture_output=True, env=environ, check=False, timeout=50)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_an_agent_is_a_property_list_with_the_same_words() -> None:
    agent = launchd_agent(PLAN)
    assert plistlib.loads(agent) == {
        "Label": "pegboard.gateway",
        "ProgramArguments": list(PLAN.command),
        "WorkingDirectory": PLAN.folder,
        "EnvironmentVariables": dict(PLAN.environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 5,
        "ExitTimeOut": 45,
        "StandardOutPath": PLAN.log,
        "StandardErrorPath": PLAN.log,
    }


@pytest.mark.parametrize("written", [systemd_unit(PLAN), launchd_agent(PLAN)])
def test_a_file_that_was_edited_is_not_taken_for_ours(written: bytes) -> None:
    assert is_as_written(written)
    assert not is_as_written(written.replace(b"serve", b"served"))
    assert not is_as_written(written + b"\n")
    assert not is_as_written(b"[Service]\n")


def test_the_files_belong_where_each_system_looks(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert Systemd(home).path == tmp_path / ".config/systemd/user/pegboard.service"
    assert Launchd(home, 501).path == tmp_path / "Library/LaunchAgents/pegboard.gateway.plist"


def test_it_is_installed_asked_about_stopped_and_removed_without_a_trace(machine: Machine) -> None:
    done = machine.run("install", "--yes", "--env", "TOKEN", "--", "--port", "9000")
    assert done.returncode == 0, done.stderr
    assert machine.asked() == [
        "daemon-reload",
        "enable pegboard.service",
        "restart pegboard.service",
    ]
    unit = machine.unit.read_bytes()
    assert stat.S_IMODE(machine.unit.stat().st_mode) == 0o600
    command = as_systemd_reads(values_of(unit, "ExecStart")[0])
    assert Path(command[0]).is_absolute()
    config = str((machine.home.folder / "mcp.json").resolve())
    assert command[-5:] == ["serve", "--config", config, "--port", "9000"]
    environment = [shlex.split(it)[0] for it in values_of(unit, "Environment")]
    assert "TOKEN=t0ken" in environment
    assert any(it.startswith("PATH=") for it in environment)
    assert not any(it.startswith("SECRET=") for it in environment)

    said = machine.run("status", "--json")
    assert json.loads(said.stdout) == {
        "state": "active",
        "pid": 42,
        "starts_at_login": True,
        "file": str(machine.unit),
    }
    assert [machine.run(it).returncode for it in ("stop", "start")] == [0, 0]
    assert machine.asked() == ["stop pegboard.service", "start pegboard.service"]

    assert machine.run("uninstall", "--yes").returncode == 0
    assert machine.asked() == ["disable --now pegboard.service", "daemon-reload"]
    assert not machine.unit.exists()
    assert machine.run("status").returncode == 3


def test_removing_pegboard_removes_the_service_first(machine: Machine) -> None:
    machine.run("install", "--yes")
    machine.asked()
    listed = machine.pegboard("uninstall")
    assert listed.returncode == 1
    assert f"the service that runs the gateway: {machine.unit}" in listed.stdout
    assert (machine.asked(), machine.unit.exists()) == ([], True)
    done = machine.pegboard("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert machine.asked() == ["disable --now pegboard.service", "daemon-reload"]
    assert not machine.unit.parent.parent.exists()


def test_it_shows_its_plan_and_changes_nothing_unless_it_may(machine: Machine) -> None:
    machine.home.configure({"a": {"command": "x", "env": {"KEY": "${GITHUB_TOKEN}"}}})
    done = machine.run("install")
    assert done.returncode == 1
    assert str(machine.unit) in done.stderr
    assert "--env GITHUB_TOKEN" in done.stderr
    assert not machine.unit.exists()
    assert machine.asked() == []


def test_it_is_printed_without_a_service_manager(machine: Machine) -> None:
    machine.refuses.touch()
    done = machine.run("install", "--print")
    assert done.returncode == 0
    assert is_as_written(done.stdout.encode())
    assert not machine.unit.exists()


def test_without_a_session_it_says_what_to_do_and_writes_nothing(machine: Machine) -> None:
    machine.refuses.touch()
    done = machine.run("install", "--yes")
    assert done.returncode == 1
    assert "enable-linger" in done.stderr
    assert "Failed to connect to bus" in done.stderr
    assert not machine.unit.exists()


def test_a_file_that_a_person_wrote_or_changed_stays(machine: Machine) -> None:
    assert machine.run("install", "--yes").returncode == 0
    assert machine.run("install", "--yes").returncode == 0
    with machine.unit.open("a", encoding="utf-8") as file:
        file.write("# mine\n")
    for words in (["install", "--yes"], ["uninstall", "--yes"]):
        assert machine.run(*words).returncode == 1
    assert machine.unit.read_text("utf-8").endswith("# mine\n")


@pytest.mark.parametrize(
    "words", [["--", "--nonsense"], ["--", "--stdio"], ["--env", "NOT_SET_HERE"]]
)
def test_what_cannot_be_served_is_misuse(machine: Machine, words: list[str]) -> None:
    assert machine.run("install", "--yes", *words).returncode == 2
    assert not machine.unit.exists()
