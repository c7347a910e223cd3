"""The process of a stdio server: started, watched, and killed with all it has spawned."""

import logging
import os
import re
import signal
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from io import FileIO
from typing import TypeVar, cast
from weakref import WeakSet

import anyio
import anyio.abc
import anyio.to_thread

from pegboard.config.servers import ServerConfig
from pegboard.upstream.stdio.guardian import guardian
from pegboard.upstream.stdio.launch import launch
from pegboard.upstream.stdio.orphans import group_lives, kill_orphans, next_mark

__all__ = ["GRACE", "ServerProcess", "background", "spawn", "without_chatter"]

_CHATTER = re.compile(r"npm (?:notice|warn)\b", re.IGNORECASE)


def without_chatter(lines: Iterable[str]) -> list[str]:
    """Return the lines without the notices of npm; all lines if nothing else is left."""
    said = [it for it in lines if it.strip()]
    return [it for it in said if not _CHATTER.match(it)] or said


A = TypeVar("A")
T = TypeVar("T")

logger: logging.Logger = logging.getLogger("pegboard.upstream")

GRACE = 2.0
"""Seconds that a server has to end once its input is closed; half of that after SIGTERM."""
_KILL = 2.0
_STEP = 0.01
_CHUNK = 65_536
_LAST_CHUNKS = 64
_STDERR_KEPT = 8_192
_STDERR_SHOWN = 500


@asynccontextmanager
async def spawn(config: ServerConfig, *, grace: float = GRACE) -> AsyncGenerator["ServerProcess"]:
    """Run the command of a server; leaving ends it, and every process it started.

    Raises:
        ServerUnavailableError: when there is no such command, or it cannot be started.
    """
    mark = next_mark()
    # No awaits between this line and the task group: a cancelled caller would leave it running.
    process = ServerProcess(config, await launch(config, mark), mark=mark, grace=grace)
    async with background() as tasks:
        tasks.start_soon(process.keep)
        try:
            yield process
        finally:
            tasks.start_soon(process.discard_output)
            try:
                await process.stop()
            finally:
                process.close()


@asynccontextmanager
async def background() -> AsyncGenerator[anyio.abc.TaskGroup]:
    """Yield a task group for tasks that never fail; errors of the body are raised unwrapped."""
    error: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as raised:  # noqa: BLE001 - raised again outside of the group
            error = raised
        tasks.cancel_scope.cancel()
    if error is not None:
        raise error


class ServerProcess:
    """One running server; ``stdin`` and ``stdout`` are its pipes, unbuffered and non-blocking."""

    def __init__(
        self, config: ServerConfig, process: subprocess.Popen[bytes], *, mark: str, grace: float
    ) -> None:
        self.pid: int = process.pid
        self.mark: str = mark
        """The value of `PEGBOARD_CHILD` in its environment."""
        self.exited: anyio.Event = anyio.Event()
        """Set as soon as the process is dead, for whatever reason."""
        self.stdin: FileIO = cast("FileIO", process.stdin)
        self.stdout: FileIO = cast("FileIO", process.stdout)
        self._stderr: FileIO = cast("FileIO", process.stderr)
        self._config = config
        self._process = process
        self._grace = grace
        self._ending = anyio.Event()
        self._stopped = anyio.Event()
        self._tail = bytearray()
        self._tail_is_cut = False
        self._line = bytearray()
        self._line_is_cut = False
        for pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)
        _alive.add(self)

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal that killed it; ``None`` while it runs."""
        return self._process.returncode

    @property
    def stderr_tail(self) -> str:
        """The last 8 KB it wrote to its standard error, without secrets."""
        tail = bytes(self._tail)
        if self._tail_is_cut:
            # The rest of a cut line could be the rest of a secret.
            tail = tail.partition(b"\n")[2]
        return self._config.redact(tail.decode(errors="replace"))

    def describe_exit(self) -> str:
        """Return how it ended, with the last lines of its standard error."""
        code = self.returncode
        if code is None:
            words = "is still running"
        elif code < 0:
            words = f"was killed by signal {_signal_name(-code)}"
        else:
            words = f"exited with code {code}"
        tail = "\n".join(without_chatter(self.stderr_tail.splitlines())).strip()
        if len(tail) > _STDERR_SHOWN:
            tail = f"…{tail[-_STDERR_SHOWN:]}"
        return f"{words}; its last words: {tail}" if tail else words

    async def stop(self) -> None:
        """End it and every process it started: politely, then by force. Any task may call it."""
        self._ending.set()
        with anyio.CancelScope(shield=True):
            await self._stopped.wait()

    async def keep(self) -> None:
        """Watch the process until it has ended; `spawn` runs this."""
        ended = False
        try:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._watch)
                    tasks.start_soon(self._read_stderr)
                    await self._ending.wait()
                    await self._end_group()
                    await self._end_orphans()
                    ended = True
                    tasks.cancel_scope.cancel()
        finally:
            if not ended:
                # The event loop is ending without us: there is no time for the polite way.
                self._signal(signal.SIGKILL)
                threading.Thread(target=self._reap, name="pegboard-reaper").start()
            guardian.forget(self.pid)
            _alive.discard(self)
            self._stopped.set()

    async def discard_output(self) -> None:
        """Read and discard output: a server stuck in writing does not see the end of its input."""
        with (
            anyio.CancelScope(shield=True),
            suppress(OSError, ValueError, anyio.ClosedResourceError),
        ):
            while True:
                await anyio.wait_readable(self.stdout)
                if self.stdout.read(_CHUNK) == b"":
                    return

    def close(self) -> None:
        """Close our ends of the pipes."""
        for pipe in self._pipes():
            _close(pipe)

    def close_copies(self) -> None:
        """Close the pipes in a forked child, where they would hide the end of the input."""
        for pipe in self._pipes():
            with suppress(OSError):
                pipe.close()
        # It is not a child of this process, so there is nothing to wait for.
        self._process.returncode = 0

    def _pipes(self) -> tuple[FileIO, FileIO, FileIO]:
        return self.stdin, self.stdout, self._stderr

    async def _watch(self) -> None:
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            while self._process.poll() is None:  # noqa: ASYNC110 - nothing tells us
                await anyio.sleep(2 * _STEP)
        else:
            try:
                await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
            self._process.poll()
        for _ in range(_LAST_CHUNKS):
            if not self._take_stderr():
                break
        if self._line:
            self._log_stderr(b"\n")
        self.exited.set()
        self._ending.set()

    async def _end_group(self) -> None:
        _close(self.stdin)
        with anyio.move_on_after(self._grace):
            await self.exited.wait()
        for number, patience in ((signal.SIGTERM, self._grace / 2), (signal.SIGKILL, _KILL)):
            self._signal(number)
            with anyio.move_on_after(patience):
                await self.exited.wait()
                while await _in_thread(group_lives, self.pid):  # noqa: ASYNC110 - nothing tells us
                    await anyio.sleep(_STEP)
                return
        name = self._config.name
        context = {"server": name, "pid": self.pid}
        logger.warning("server_cannot_be_killed: %r, pid %d", name, self.pid, extra=context)

    async def _end_orphans(self) -> None:
        with anyio.move_on_after(_KILL):
            await _in_thread(kill_orphans, self.mark)

    def _reap(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL)
        kill_orphans(self.mark)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(OSError):
            os.killpg(self.pid, number)
            # A frozen process sees no signal before it is thawed.
            os.killpg(self.pid, signal.SIGCONT)

    async def _read_stderr(self) -> None:
        with suppress(OSError, ValueError, anyio.ClosedResourceError):
            while True:
                await anyio.wait_readable(self._stderr)
                if self._take_stderr() == b"":
                    return

    def _take_stderr(self) -> bytes | None:
        try:
            chunk = self._stderr.read(_CHUNK)
        except (OSError, ValueError):
            return b""
        if not chunk:
            return chunk
        self._tail += chunk
        if len(self._tail) > _STDERR_KEPT:
            del self._tail[:-_STDERR_KEPT]
            self._tail_is_cut = True
        if logger.isEnabledFor(logging.DEBUG):
            self._log_stderr(chunk)
        return chunk

    def _log_stderr(self, chunk: bytes) -> None:
        *lines, rest = (bytes(self._line) + chunk).split(b"\n")
        if lines and self._line_is_cut:
            # As in `stderr_tail`: its beginning could be the rest of a secret.
            lines[0] = "…".encode()
            self._line_is_cut = False
        self._line_is_cut = self._line_is_cut or len(rest) > _STDERR_KEPT
        self._line[:] = rest[-_STDERR_KEPT:]
        for line in lines:
            text = self._config.redact(line.decode(errors="replace").rstrip())
            name = self._config.name
            context = {"server": name, "line": text}
            logger.debug("server_stderr: %r: %s", name, text, extra=context)


_alive: WeakSet[ServerProcess] = WeakSet()


async def _in_thread(work: Callable[[A], T], argument: A) -> T:
    # A limiter of its own, so that tools that block every thread cannot hold it up.
    return await anyio.to_thread.run_sync(
        work, argument, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
    )


def _close(pipe: FileIO) -> None:
    if not pipe.closed:
        anyio.notify_closing(pipe)
        with suppress(OSError):
            pipe.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _close_copies() -> None:
    for process in list(_alive):
        process.close_copies()
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)
