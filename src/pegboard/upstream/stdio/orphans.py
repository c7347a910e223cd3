"""Orphans: find and kill processes that a server started, by a mark in their environment."""

import os
import secrets
import signal
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

__all__ = ["MARK", "group_lives", "host_mark", "kill_orphans", "next_mark", "orphans"]

MARK = "PEGBOARD_CHILD"
"""The environment variable that every server, and each process it starts, inherits."""

_PROC = Path("/proc")

_token = secrets.token_hex(8)
_numbers = count(1)


def host_mark() -> str:
    """Return the prefix of the marks of all servers of this host process."""
    return f"{_token}."


def next_mark() -> str:
    """Return a new mark, unique on this machine."""
    return f"{host_mark()}{next(_numbers)}"


def orphans(mark: str) -> list[int]:
    """Return the processes that carry the mark; it blocks, and is empty without ``/proc``."""
    wanted = f"{MARK}={mark}".encode()
    return [int(number) for number in _numbers_in_proc() if _carries(number, wanted)]


def kill_orphans(mark: str) -> None:
    """Kill all processes that carry the mark, also those started meanwhile; it blocks."""
    killed: set[int] = set()
    # More than once, because an orphan may fork while the list is made.
    for _ in range(5):
        fresh = set(orphans(mark)) - killed - {os.getpid()}
        if not fresh:
            break
        for pid in fresh:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in fresh:
            _reap(pid)
        killed |= fresh


def group_lives(group: int) -> bool:
    """Tell whether a process of this group still runs; it blocks."""
    # A host that is process 1 of a container inherits the orphans of the group.
    with suppress(OSError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    # A parent may be slow to reap its children, so a zombie does not count.
    numbers = _numbers_in_proc()
    return not numbers or any(_runs_in(group, number) for number in numbers)


def _reap(pid: int) -> None:
    # A host that is process 1 of a container inherits the orphans; else it is not our child.
    with suppress(ChildProcessError):
        for _ in range(50):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.004)


def _numbers_in_proc() -> list[str]:
    try:
        return [name for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208 - names only
    except OSError:
        return []


def _runs_in(group: int, pid: str) -> bool:
    try:
        fields = (_PROC / pid / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(fields[2]) == group and fields[0] not in (b"Z", b"X")


def _carries(pid: str, wanted: bytes) -> bool:
    try:
        environment = (_PROC / pid / "environ").read_bytes()
    except OSError:
        return False
    return wanted in environment.split(b"\0")


def _renew() -> None:
    # A forked child is a host of its own: it must not kill its parent's servers.
    global _token, _numbers  # noqa: PLW0603
    _token = secrets.token_hex(8)
    _numbers = count(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
