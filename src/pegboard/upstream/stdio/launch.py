"""Launch the process of a stdio server: find its command, and start it."""

import errno
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

import anyio
import anyio.to_thread

from pegboard.config.servers import ServerConfig
from pegboard.errors import ServerUnavailableError
from pegboard.upstream.stdio.environment import environment_for
from pegboard.upstream.stdio.guardian import WatchedProcess, guardian
from pegboard.upstream.stdio.subreaper import (
    SubreaperProcess,
    SubreaperUnavailableError,
    subreaper,
)

__all__ = ["LaunchedProcess", "cannot_start", "find_command", "launch"]

LaunchedProcess: TypeAlias = SubreaperProcess | WatchedProcess
"""A server's process: a descendant of the guardian on Linux, a child of this process elsewhere."""

T = TypeVar("T")

_DISCARD = 5.0

_WHERE_FROM = {
    "npx": "Install Node.js, which brings it.",
    "npm": "Install Node.js, which brings it.",
    "node": "Install Node.js.",
    "uvx": "Install uv, which brings it.",
    "uv": "Install uv.",
    "python": "Install Python, or try `python3`.",
    "python3": "Install Python.",
    "docker": "Install Docker.",
}
_NOT_A_LINE = "Put the program alone into `command`, and the rest into `args`."
_REFUSALS = {
    errno.EAGAIN: "too many processes run already",
    errno.ENOMEM: "there is not enough memory",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "the system has too many open files",
    errno.E2BIG: "its arguments and environment are too long",
    errno.ENOEXEC: "it is not a program, and names none in its first line",
}


async def launch(config: ServerConfig, mark: str) -> LaunchedProcess:
    """Start the server in a process session of its own, with pipes, watched by the guardian.

    A caller that is cancelled meanwhile leaves no process behind.

    Raises:
        ServerUnavailableError: when there is no such command, or it cannot be started.
    """
    start = _Start(config)
    environment = environment_for(config, mark)
    try:
        # A limiter of its own, so that tools that block every thread cannot hold it up.
        return await anyio.to_thread.run_sync(
            start.run, environment, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    except BaseException:
        start.abandon()
        raise


def find_command(config: ServerConfig, environment: Mapping[str, str]) -> str:
    """Return the full path of the server's command; this blocks.

    Raises:
        ServerUnavailableError: when the command is missing, or not executable.
    """
    command, directory = config.command or "", config.cwd
    try:
        if directory is not None and not Path(directory).is_dir():
            what = "is not a directory" if Path(directory).exists() else "does not exist"
            raise cannot_start(config, f"its working directory {directory!r} {what}")
        if os.sep in command:
            return _checked(config, (Path(directory or "") / command).absolute())
        found = shutil.which(command, path=environment["PATH"])
    except (OSError, ValueError) as error:
        if isinstance(error, ServerUnavailableError):
            raise
        raise cannot_start(config, error) from error
    if found is None:
        hint = _WHERE_FROM.get(command, "Check its `command`, or give the full path.")
        if " " in command:
            hint = _NOT_A_LINE
        raise cannot_start(config, f"the command {command!r} was not found", hint=hint)
    return found


def cannot_start(
    config: ServerConfig, why: str | Exception, *, hint: str = ""
) -> ServerUnavailableError:
    """Return the error that says why the server cannot start, without secrets."""
    if isinstance(why, OSError):
        why = _REFUSALS.get(why.errno or 0, why)
    reason = config.redact(str(why)).rstrip(".")
    message = f"Server {config.name!r} cannot be started: {reason}. {hint}".rstrip()
    return ServerUnavailableError(message, server=config.name)


class _Start:
    """One start, which may outlast the caller that asked for it."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._abandoned = False
        self._process: LaunchedProcess | None = None

    def run(self, environment: Mapping[str, str]) -> LaunchedProcess:
        command = find_command(self._config, environment)
        return self._start(command, environment)

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            process, self._process = self._process, None
        if process is not None:
            _thread.submit(lambda: _discard(process))

    def _start(self, command: str, environment: Mapping[str, str]) -> LaunchedProcess:
        if self._abandoned:
            raise cannot_start(self._config, "its caller was cancelled")
        process = _open(self._config, command, environment)
        with self._lock:
            if not self._abandoned:
                self._process = process
                return process
        _discard(process)
        return process


def _open(config: ServerConfig, command: str, environment: Mapping[str, str]) -> LaunchedProcess:
    try:
        try:
            return subreaper.start(
                [command, *config.args],
                cwd=config.cwd,
                env=environment,
                run_in_lasting_thread=_thread.run,
            )
        except SubreaperUnavailableError:
            return _thread.run(lambda: _open_watched(config, command, environment))
    except (OSError, ValueError) as error:
        raise cannot_start(config, error) from error


def _open_watched(
    config: ServerConfig, command: str, environment: Mapping[str, str]
) -> WatchedProcess:
    try:
        # Before the server: the guardian ends it should this process die in between.
        guardian.ensure_running()
        process = WatchedProcess(
            [*_dying_with_this_thread(), command, *config.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=config.cwd,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError):
        guardian.stop_if_idle()
        raise
    try:
        guardian.watch(process.pid)
    except BaseException:
        _discard(process)
        raise
    return process


def _discard(process: LaunchedProcess) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_DISCARD)
    process.kill_descendants(_DISCARD)
    process.release()


def _checked(config: ServerConfig, path: Path) -> str:
    if not path.exists():
        hint = _NOT_A_LINE if " " in (config.command or "") else "Check its `command`."
        raise cannot_start(config, f"there is no file {str(path)!r}", hint=hint)
    if path.is_dir() or not os.access(path, os.X_OK):
        raise cannot_start(config, f"{str(path)!r} is not an executable file")
    return str(path)


@cache
def _dying_with_this_thread() -> tuple[str, ...]:
    """Return the command that asks Linux to kill what it starts when its parent ends."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    silent = subprocess.DEVNULL
    try:
        subprocess.run(  # noqa: S603 - our own words only
            [*prefix, "true"], check=True, stdin=silent, stdout=silent, stderr=silent, timeout=2
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return prefix


class _LauncherThread:
    """One thread that ends only with this process.

    Linux takes the end of the thread that started a process for the death of its parent, so
    neither a worker thread nor an event loop's thread will do.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._started = False

    def run(self, work: Callable[[], T]) -> T:
        outcome: Future[T] = Future()

        def job() -> None:
            try:
                outcome.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller
                outcome.set_exception(error)

        self.submit(job)
        return outcome.result()

    def submit(self, job: Callable[[], object]) -> None:
        with self._lock:
            if not self._started:
                name = "pegboard-launcher"
                threading.Thread(
                    target=self._work, args=(self._jobs,), name=name, daemon=True
                ).start()
                self._started = True
        self._jobs.put(job)

    def reset(self) -> None:
        """Begin anew in a forked child, which has this object but not the thread."""
        self.__init__()

    @staticmethod
    def _work(jobs: SimpleQueue[Callable[[], object]]) -> None:
        while True:
            with suppress(Exception):
                jobs.get()()


_thread = _LauncherThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_thread.reset)
