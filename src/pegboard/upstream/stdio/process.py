"""The process of a stdio server: started, watched, and killed with all it has spawned."""

import logging
import math
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
from pegboard.model.hidden_characters import visible
from pegboard.upstream.events import ServerLogger, ServerNote
from pegboard.upstream.messages.response_limits import Pace
from pegboard.upstream.stdio.launch import LaunchedProcess, launch
from pegboard.upstream.stdio.orphans import group_lives, kill_orphans, next_mark
from pegboard.upstream.stdio.stderr_lines import StderrLines

__all__ = ["GRACE", "ServerProcess", "background", "spawn", "without_chatter"]

_CHATTER = re.compile(
    r"npm (?:notice|warn)\b"
    # Around the words of an error: empty lines, what else could be installed, where its log is.
    r"|npm (?:error|err!)(?: \d+)? *"
    r"(?:$|note that you can also install|tarball, folder, |a complete log)",
    re.IGNORECASE,
)


def without_chatter(lines: Iterable[str]) -> list[str]:
    """Return the lines without the small talk of npm; all lines if nothing else is left."""
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
_BYTES_PER_UNIT = 8_192
_STDERR_SHOWN = 500


@asynccontextmanager
async def spawn(
    config: ServerConfig, *, grace: float = GRACE, log: ServerLogger | None = None
) -> AsyncGenerator["ServerProcess"]:
    """Run the command of a server; leaving ends it, and every process it started.

    Raises:
        ServerUnavailableError: when there is no such command, or it cannot be started.
    """
    mark = next_mark()
    # No awaits between this line and the task group: a cancelled caller would leave it running.
    launched = await launch(config, mark)
    process = ServerProcess(config, launched, mark=mark, grace=grace, log=log)
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
        self,
        config: ServerConfig,
        process: LaunchedProcess,
        *,
        mark: str,
        grace: float,
        log: ServerLogger | None = None,
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
        self.launched: LaunchedProcess = process
        """How it was started, and by which process its end is noticed."""
        self._grace = grace
        self._ending = anyio.Event()
        self._stopped = anyio.Event()
        self._tail = bytearray()
        self._tail_is_cut = False
        self._log = log
        self._lines = StderrLines(config, log)
        for pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)
        _alive.add(self)
        self._note("started", f"process {self.pid}")

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal that killed it; ``None`` while it runs."""
        return self.launched.returncode

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
        words = self._how_it_ended()
        tail = "\n".join(map(visible, without_chatter(self.stderr_tail.splitlines()))).strip()
        if len(tail) > _STDERR_SHOWN:
            tail = tail[-_STDERR_SHOWN:]
            # Rather a line less than half a line, unless there is only one.
            tail = "…" + (tail.partition("\n")[2] or tail)
        return f"{words}; its last words: {tail}" if tail else words

    def _how_it_ended(self) -> str:
        code = self.returncode
        if code is None:
            return "is still running"
        return (
            f"exited with code {code}"
            if code >= 0
            else f"was killed by signal {_signal_name(-code)}"
        )

    def _note(self, event: ServerNote, text: str) -> None:
        if self._log is not None:
            self._log.note(self._config.name, event, text)

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
            else:
                self.launched.release()
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
        self.launched.leave_to_parent()

    def _pipes(self) -> tuple[FileIO, FileIO, FileIO]:
        return self.stdin, self.stdout, self._stderr

    async def _watch(self) -> None:
        descriptor = self.launched.exit_descriptor()
        if descriptor is None:
            while self.launched.poll() is None:  # noqa: ASYNC110 - nothing tells us
                await anyio.sleep(2 * _STEP)
        else:
            try:
                while self.launched.poll() is None:
                    await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
        for _ in range(_LAST_CHUNKS):
            if not self._take_stderr():
                break
        self._lines.end()
        self._note("exited", f"process {self.pid} {self._how_it_ended()}")
        self.exited.set()
        self._ending.set()

    async def _end_group(self) -> None:
        self.launched.wake_parent()
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
            await _in_thread(self.launched.kill_descendants, _KILL)
        with anyio.move_on_after(_KILL):
            await _in_thread(kill_orphans, self.mark)

    def _reap(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.launched.wait(_KILL)
        self.launched.kill_descendants(_KILL)
        kill_orphans(self.mark)
        self.launched.release()

    def _signal(self, number: signal.Signals) -> None:
        self.launched.wake_parent()
        with suppress(OSError):
            os.killpg(self.pid, number)
            # A frozen process sees no signal before it is thawed.
            os.killpg(self.pid, signal.SIGCONT)

    async def _read_stderr(self) -> None:
        pace = Pace()
        with suppress(OSError, ValueError, anyio.ClosedResourceError):
            while True:
                with anyio.move_on_after(1.0 if self._lines.dropped else math.inf) as waiting:
                    await anyio.wait_readable(self._stderr)
                if waiting.cancelled_caught:
                    self._lines.report()
                    continue
                chunk = self._take_stderr()
                if chunk == b"":
                    return
                # Each line is logged, if the log wants that much.
                lines = chunk.count(b"\n") if chunk and logger.isEnabledFor(logging.DEBUG) else 0
                if pause := pace.spend(len(chunk or b"") / _BYTES_PER_UNIT + lines):
                    await anyio.sleep(pause)

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
        self._lines.take(chunk)
        return chunk


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
