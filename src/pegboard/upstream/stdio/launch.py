"""Launch: start the process of a server so that nothing of it can be left behind."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import TypeVar

import anyio
import anyio.to_thread

from pegboard.config.servers import ServerConfig
from pegboard.upstream.stdio.command import cannot_start, environment_for, find_command
from pegboard.upstream.stdio.guardian import guardian

__all__ = ["launch"]

T = TypeVar("T")


async def launch(config: ServerConfig, mark: str) -> subprocess.Popen[bytes]:
    """Start the server in a session of its own, with pipes; the guardian knows it already.

    A caller that is cancelled meanwhile leaves no process behind.

    Raises:
        ServerUnavailableError: when there is no such command, or it cannot be started.
    """
    birth = _Birth(config)
    environment = environment_for(config, mark)
    try:
        # A limiter of its own, so that tools that block every thread cannot hold it up.
        return await anyio.to_thread.run_sync(
            birth.give, environment, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    except BaseException:
        birth.abandon()
        raise


class _Birth:
    """One start, which may outlast the caller that asked for it."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._abandoned = False
        self._process: subprocess.Popen[bytes] | None = None

    def give(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        command = find_command(self._config, environment)
        return _thread.run(lambda: self._start(command, environment))

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            process, self._process = self._process, None
        if process is not None:
            _thread.submit(lambda: _discard(process))

    def _start(self, command: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        if self._abandoned:
            raise cannot_start(self._config, "nobody waits for it any more")
        process = _open(self._config, command, environment)
        with self._lock:
            if not self._abandoned:
                self._process = process
                return process
        _discard(process)
        return process


def _open(
    config: ServerConfig, command: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        # Before the server: should this process die in between, there is one who looks for it.
        guardian.rouse()
        process = subprocess.Popen(  # noqa: S603 - to run what the configuration says is the point
            [*_dying_with_this_thread(), command, *config.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=config.cwd,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        guardian.rest()
        raise cannot_start(config, error) from error
    try:
        guardian.watch(process.pid)
    except BaseException as error:
        _discard(process)
        if isinstance(error, OSError):
            raise cannot_start(config, error) from error
        raise
    return process


def _discard(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()
    guardian.forget(process.pid)


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


class _LastingThread:
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


_thread = _LastingThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_thread.reset)
