"""What tests of processes share: sample servers, and who is alive or a zombie."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.to_thread

from pegboard.config.servers import ServerConfig

PYTHON = sys.executable
LIGHT = str(Path(__file__).parent / "servers" / "light_server.py")
ECHO = str(Path(__file__).parent / "servers" / "echo_server.py")
# Flags of a task in the kernel of Linux.
EXITING = 0x4
KILLED_BY_SIGNAL = 0x400


def new_marker() -> str:
    return f"TEST_MARKER={uuid4().hex}"


def server(command: str, *args: str, marker: str = "TEST_MARKER=") -> ServerConfig:
    """A server whose whole family can be found by the marker."""
    name, _, value = marker.partition("=")
    return ServerConfig(
        name="sample", transport="stdio", command=command, args=args, env={name: value}
    )


def shell(script: str, *, marker: str = "TEST_MARKER=") -> ServerConfig:
    return server("sh", "-c", script, marker=marker)


def python(script: str, *, marker: str = "TEST_MARKER=") -> ServerConfig:
    return server(PYTHON, "-c", script, marker=marker)


def light(marker: str = "TEST_MARKER=") -> ServerConfig:
    return server(PYTHON, LIGHT, marker=marker)


def daemon(marker: str, *, number: int = 1) -> ServerConfig:
    """A server that starts daemons: each in its own session, orphaned, with no environment."""
    script = f"""
import os, sys
for _ in range({number}):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for descriptor in (0, 1, 2):
                os.close(descriptor)
            os.execve("/bin/sh", ["{marker}", "-c", "while :; do sleep 1000; done"], {{}})
        os._exit(0)
    os.wait()
print("up", file=sys.stderr, flush=True)
sys.stdin.read()
"""
    return python(script)


def daemons(marker: str) -> list[int]:
    """The living processes that call themselves by the marker."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _is_called(entry, marker) and not _is_being_killed(entry)
    ]


def _is_called(process: Path, name: str) -> bool:
    try:
        return (process / "cmdline").read_bytes().startswith(name.encode() + b"\0")
    except OSError:
        return False


def alive(marker: str) -> list[int]:
    """The living processes that have the marker in their environment."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker.encode() in variables and not _is_being_killed(entry):
                found.append(int(entry.name))
    return found


def _is_being_killed(process: Path) -> bool:
    """Tell whether SIGKILL is on its way, or has arrived; ending takes a moment after that."""
    try:
        lines = (process / "status").read_text("utf-8").splitlines()
        state, *numbers = (process / "stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return True
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    if any(mask & 1 << (signal.SIGKILL - 1) for mask in pending):
        return True
    return state in "ZX" or bool(int(numbers[5]) & (EXITING | KILLED_BY_SIGNAL))


def zombies() -> list[int]:
    """Our children that ended but were not waited for."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state == "Z" and int(parent) == os.getpid():
                found.append(int(entry.name))
    return found


async def all_ended(marker: str) -> None:
    """Wait until no process with the marker is left: the system takes a moment to end one."""
    await until(lambda: not alive(marker))


async def until(condition: Callable[[], bool], *, seconds: float = 5) -> None:
    """Wait for something that sends no event when it happens."""
    with anyio.fail_after(seconds):
        while not await anyio.to_thread.run_sync(condition):  # noqa: ASYNC110 - as the name says
            await anyio.sleep(0.01)
