"""After the host is gone, however it went, nothing that it started is left."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from pegboard.upstream.stdio.guardian import SCRIPT, Guardian, WatchedProcess, guardian
from pegboard.upstream.stdio.process import ServerProcess, spawn
from pegboard.upstream.stdio.subreaper import Subreaper, SubreaperProcess, subreaper
from tests.upstream.processes import (
    alive,
    daemon,
    daemons,
    new_marker,
    shell,
    until,
    zombies,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@asynccontextmanager
async def host(
    mode: str, marker: str, *, path: str | None = None, kind: str = "subreaper"
) -> AsyncGenerator[tuple[anyio.abc.Process, Callable[[], Awaitable[str]]]]:
    command = [sys.executable, "-m", "tests.upstream.host", mode, marker, kind]
    env = {**os.environ, "PATH": path or os.environ["PATH"]}
    async with await anyio.open_process(command, env=env, stderr=None) as process:
        assert process.stdout is not None
        output = BufferedByteReceiveStream(process.stdout)

        async def next_line() -> str:
            with anyio.fail_after(30):
                return (await output.receive_until(b"\n", 1000)).decode()

        try:
            yield process, next_line
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            # What the host left behind may hold the pipe longer than this event loop lives.
            pipes: Any = process
            pipes._process._transport.close()


@pytest.fixture
def path_without_setpriv(tmp_path: Path) -> str:
    for name in ("sh", "sleep", "grep", "setsid", "cat"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return str(tmp_path)


@pytest.mark.timeout(60)
@pytest.mark.covers("R-EXCEL-24")
@pytest.mark.parametrize("kind", ["subreaper", "shell"])
async def test_nothing_is_alive_five_seconds_after_the_host_was_killed(kind: str):
    async def kill(number: signal.Signals) -> None:
        marker = new_marker()
        async with host("all", marker, kind=kind) as (process, next_line):
            assert await next_line() == "ready"
            process.send_signal(number)
            await until(lambda: not alive(marker), seconds=5)

    async with anyio.create_task_group() as tasks:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            tasks.start_soon(kill, number)


async def test_the_shell_alone_ends_everything_where_there_is_no_parent_death_signal(
    path_without_setpriv: str,
):
    marker = new_marker()
    async with host("all", marker, path=path_without_setpriv, kind="shell") as started:
        process, next_line = started
        assert await next_line() == "ready"
        process.kill()
        await until(lambda: not alive(marker), seconds=5)


@pytest.mark.parametrize("kind", ["subreaper", "shell"])
async def test_a_guardian_that_was_killed_is_replaced_and_all_servers_are_still_ended(
    kind: str, path_without_setpriv: str
):
    marker = new_marker()
    path = path_without_setpriv
    async with host("guardian killed", marker, path=path, kind=kind) as (process, next_line):
        assert await next_line() == "ready"
        await until(lambda: len(alive(marker)) == 2)
        process.kill()
        await until(lambda: not alive(marker), seconds=5)


@pytest.mark.parametrize("kind", ["subreaper", "shell"])
async def test_a_forked_child_neither_holds_the_servers_of_its_parent_nor_shares_its_guardian(
    kind: str,
):
    marker = new_marker()
    async with host("forked", marker, kind=kind) as (process, next_line):
        said = f"{await next_line()}\n{await next_line()}"
        parent = re.search(r"parent: (\d+) exited with code 0", said)
        child = re.search(r"child (\d+): (\d+) exited with code 0", said)
        assert parent is not None, said
        assert child is not None, said
        assert parent[1] != child[2]
        try:
            process.kill()
            await until(lambda: not alive(marker), seconds=5)
            os.kill(int(child[1]), 0)
        finally:
            os.kill(int(child[1]), signal.SIGKILL)


async def test_the_guardian_goes_with_the_last_server_and_leaves_no_zombie():
    async with spawn(shell("exec cat")):
        first = subreaper.pid
        async with spawn(shell("exec cat")):
            assert subreaper.pid == first
        assert subreaper.pid == first
        assert first is not None
    assert subreaper.pid is None
    await until(lambda: not zombies())


def keeper_of(process: ServerProcess) -> int:
    assert isinstance(process.launched, SubreaperProcess)
    return process.launched.keeper


@pytest.mark.parametrize(
    "stopped", [(), ("guardian",), ("keeper",), ("guardian", "keeper")], ids=" and ".join
)
async def test_daemons_without_an_environment_die_with_a_killed_host_whatever_was_stopped(
    stopped: tuple[str, ...],
):
    marker = new_marker()
    async with host("daemons", marker) as (process, next_line):
        guardian_pid, keeper = map(int, (await next_line()).split())
        pids: dict[str, int] = {"guardian": guardian_pid, "keeper": keeper}
        assert len(daemons(marker)) == 8
        for name in stopped:
            os.kill(pids[name], signal.SIGSTOP)
        process.kill()
        await until(lambda: not daemons(marker))


async def test_daemons_without_an_environment_die_with_a_killed_host_after_their_guardian():
    marker = new_marker()
    async with host("daemons", marker) as (process, next_line):
        guardian_pid = int((await next_line()).split()[0])
        os.kill(guardian_pid, signal.SIGKILL)
        process.kill()
        await until(lambda: not daemons(marker))


async def test_the_daemons_of_a_server_that_is_stopped_die_and_those_of_another_live_on():
    kept, stopped = new_marker(), new_marker()
    async with spawn(daemon(kept)):
        async with spawn(daemon(stopped)):
            await until(lambda: len(daemons(kept)) == len(daemons(stopped)) == 1)
        assert not daemons(stopped)
        assert len(daemons(kept)) == 1
    assert not daemons(kept)


async def test_the_daemons_of_a_server_that_was_killed_die_with_it():
    marker = new_marker()
    async with spawn(daemon(marker)) as process:
        await until(lambda: len(daemons(marker)) == 1)
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: not daemons(marker))
    assert process.returncode == -signal.SIGKILL


async def test_a_killed_keeper_counts_as_the_end_of_its_server_and_leaves_no_daemon():
    marker = new_marker()
    async with spawn(daemon(marker)) as process, spawn(shell("exec cat")) as other:
        await until(lambda: len(daemons(marker)) == 1)
        os.kill(keeper_of(process), signal.SIGKILL)
        with anyio.fail_after(5):
            await process.exited.wait()
        await until(lambda: not daemons(marker))
        assert other.returncode is None
    assert process.returncode == -signal.SIGKILL


async def test_a_server_that_stops_its_keeper_is_ended_all_the_same():
    marker = new_marker()
    async with spawn(shell("kill -STOP $PPID; exec cat", marker=marker)):
        await until(lambda: len(alive(marker)) == 1)
    assert not alive(marker)


async def test_a_stopped_guardian_still_starts_servers():
    async with spawn(shell("exec cat")):
        assert subreaper.pid is not None
        os.kill(subreaper.pid, signal.SIGSTOP)
        with anyio.fail_after(5):
            async with spawn(shell("exec cat")) as process:
                assert process.returncode is None


async def test_without_an_interpreter_servers_are_started_and_watched_by_the_shell(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sys, "executable", "")
    async with spawn(shell("exec cat")) as process:
        assert subreaper.pid is None
        assert guardian.pid is not None
        assert isinstance(process.launched, WatchedProcess)
    assert guardian.pid is None


async def test_an_interpreter_that_is_none_leaves_the_servers_to_the_shell(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("pegboard.upstream.stdio.launch.subreaper", Subreaper())
    monkeypatch.setattr(sys, "executable", "/bin/true")
    async with spawn(shell("exec cat")) as process:
        assert isinstance(process.launched, WatchedProcess)


def test_a_forgotten_group_is_spared_when_the_pipe_ends():
    ours = Guardian()
    watched, spared = (
        subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) for _ in range(2)
    )
    try:
        for process in (spared, watched):
            ours.watch(process.pid)
        ours.forget(spared.pid)
        shell_pid = ours.pid
        assert shell_pid is not None
        os.close(ours._pipe)  # pyright: ignore[reportPrivateUsage] - as the death of the host does
        assert watched.wait(5) == -signal.SIGTERM
        assert ours._shell is not None  # pyright: ignore[reportPrivateUsage]
        ours._shell.wait(5)  # pyright: ignore[reportPrivateUsage]
        assert spared.poll() is None
    finally:
        spared.kill()
        spared.wait()


def test_the_guardian_ignores_the_signals_that_end_a_host():
    ours = Guardian()
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) as process:
        ours.watch(process.pid)
        assert ours.pid is not None
        # It has read the group once it holds no unread line, which a second line shows.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(ours.pid, number)
        ours.watch(process.pid)
        assert process.poll() is None
        process.kill()
        ours.forget(process.pid)
    assert ours.pid is None


@pytest.mark.parametrize("name", ["dash", "bash", "busybox"])
def test_the_script_is_understood_by_every_common_shell(name: str):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    command = [found, "sh"] if name == "busybox" else [found]
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) as process:
        # A zombie would count as a living member of its group.
        reaper = threading.Thread(target=process.wait)
        reaper.start()
        done = subprocess.run(
            [*command, "-c", SCRIPT, "guardian", "NO_SUCH_MARK="],
            input=f"+99999999\n+{process.pid}\n-99999999\n".encode(),
            capture_output=True,
            check=False,
            timeout=5,
        )
        reaper.join(5)
    assert process.returncode == -signal.SIGTERM
    assert (done.returncode, done.stdout) == (0, b"")
