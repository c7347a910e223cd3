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

from pegboard.upstream.stdio.guardian import SCRIPT, Guardian, guardian
from pegboard.upstream.stdio.process import spawn
from tests.upstream.processes import alive, new_marker, shell, until, zombies

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@asynccontextmanager
async def host(
    mode: str, marker: str, *, path: str | None = None
) -> AsyncGenerator[tuple[anyio.abc.Process, Callable[[], Awaitable[str]]]]:
    command = [sys.executable, "-m", "tests.upstream.host", mode, marker]
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
async def test_nothing_is_alive_five_seconds_after_the_host_was_killed():
    async def kill(number: signal.Signals) -> None:
        marker = new_marker()
        async with host("all", marker) as (process, next_line):
            assert await next_line() == "ready"
            process.send_signal(number)
            await until(lambda: not alive(marker), seconds=5)

    async with anyio.create_task_group() as tasks:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            tasks.start_soon(kill, number)


async def test_the_guardian_alone_ends_everything_where_there_is_no_parent_death_signal(
    path_without_setpriv: str,
):
    marker = new_marker()
    async with host("all", marker, path=path_without_setpriv) as (process, next_line):
        assert await next_line() == "ready"
        process.kill()
        await until(lambda: not alive(marker), seconds=5)


async def test_a_guardian_that_was_killed_is_replaced_and_told_of_all_that_lives(
    path_without_setpriv: str,
):
    marker = new_marker()
    async with host("guardian killed", marker, path=path_without_setpriv) as (process, next_line):
        assert await next_line() == "ready"
        await until(lambda: len(alive(marker)) == 2)
        process.kill()
        await until(lambda: not alive(marker), seconds=5)


async def test_a_forked_child_neither_holds_the_servers_of_its_parent_nor_shares_its_guardian():
    marker = new_marker()
    async with host("forked", marker) as (process, next_line):
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
        first = guardian.pid
        async with spawn(shell("exec cat")):
            assert guardian.pid == first
        assert guardian.pid == first
    assert guardian.pid is None
    await until(lambda: not zombies())


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
