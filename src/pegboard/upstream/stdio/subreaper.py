"""Subreaper: on Linux, start a server below a guardian that every descendant returns to."""

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path

from pegboard.upstream.stdio import subreaper_program
from pegboard.upstream.stdio.subreaper_program import FIELD_END

__all__ = ["Subreaper", "SubreaperProcess", "SubreaperUnavailableError", "subreaper"]

_START = 10.0
_PATIENCE = 0.1
_CHUNK = 256


class SubreaperUnavailableError(Exception):
    """There is no guardian of this kind here; the caller takes the shell instead."""


class _NoAnswerError(Exception):
    """The guardian ended before it answered."""


class Subreaper:
    """Starts servers below the guardian, which runs while there is a server. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers = 0
        self._guardian: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._has_served = False
        self._is_unavailable = False

    @property
    def pid(self) -> int | None:
        """The process id of the guardian; ``None`` while there is no server."""
        return None if self._guardian is None else self._guardian.pid

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        run_in_lasting_thread: Callable[[Callable[[], None]], None],
    ) -> "SubreaperProcess":
        """Start a server with pipes, in a process session of its own. This blocks.

        Args:
            command: the program's path, and its arguments.
            cwd: the working directory; ``None`` is that of this process.
            env: all variables of the server.
            run_in_lasting_thread: starts the guardian. Linux takes the end of the thread that
                starts a process for the death of its parent.

        Raises:
            SubreaperUnavailableError: when the guardian cannot do its work here.
            OSError: when the command cannot be started.
            ValueError: when an argument or a variable cannot be passed to a process.
        """
        # A frozen application is its own `sys.executable`, and no interpreter.
        is_possible = sys.platform == "linux" and sys.executable and not hasattr(sys, "frozen")
        if self._is_unavailable or not is_possible:
            raise SubreaperUnavailableError
        run = run_in_lasting_thread
        request = _request(command, cwd or str(Path.cwd()), env)
        with self._lock:
            self._servers += 1
        try:
            try:
                process = self._start(request, command[0], run)
            except _NoAnswerError:
                # A guardian that was killed is replaced; one that never answered cannot run here.
                if not self._has_served:
                    raise
                process = self._start(request, command[0], run)
        except BaseException as error:
            self.release()
            if isinstance(error, _NoAnswerError):
                self._is_unavailable = True
                raise SubreaperUnavailableError from error
            raise
        self._has_served = True
        return process

    def release(self) -> None:
        """Take note of the end of a server. The guardian ends with the last one."""
        with self._lock:
            self._servers -= 1
            if not self._servers:
                self._stop()

    def leave_to_parent(self) -> None:
        """Forget everything in a forked child: it must not hold the socket open."""
        if self._socket is not None:
            self._socket.close()
        if self._guardian is not None:
            # It is not a child of this process, so there is nothing to wait for.
            self._guardian.returncode = 0
        self.__init__()

    def _start(
        self, request: bytes, command: str, run: Callable[[Callable[[], None]], None]
    ) -> "SubreaperProcess":
        with ExitStack() as opened:
            control, keepers_end = socket.socketpair()
            process = SubreaperProcess(self, control)
            on_failure = opened.enter_context(ExitStack())
            on_failure.callback(process.close)
            opened.enter_context(keepers_end)
            theirs = process.open_pipes(opened)
            run(lambda: self._pass_on([keepers_end.fileno(), *theirs]))
            keepers_end.close()
            answer = process.request(request)
            if answer.startswith(b"!"):
                number = int(answer[1:])
                raise OSError(number, os.strerror(number), command)
            if not answer:
                raise _NoAnswerError
            process.pid = int(answer[1:])
            on_failure.pop_all()
        return process

    def _pass_on(self, descriptors: list[int]) -> None:
        with self._lock:
            if self._guardian is None or self._guardian.poll() is not None:
                self._stop()
                self._run_guardian()
            assert self._socket is not None
            assert self._guardian is not None
            # It may have been stopped, and would let every start wait.
            with suppress(OSError):
                self._guardian.send_signal(signal.SIGCONT)
            try:
                socket.send_fds(self._socket, [b"+"], descriptors)
            except (BrokenPipeError, ConnectionResetError) as error:
                raise _NoAnswerError from error

    def _run_guardian(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._guardian = subprocess.Popen(  # noqa: S603 - our own words only
                [sys.executable, "-I", "-S", str(Path(subreaper_program.__file__))],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,
            )

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._guardian is not None:
            guardian = self._guardian
            with suppress(OSError):
                guardian.send_signal(signal.SIGCONT)
            reaper = threading.Thread(target=guardian.wait, name="pegboard-reaper", daemon=True)
            # No more threads at the end of the interpreter, when init waits for it.
            with suppress(RuntimeError):
                reaper.start()
        self._guardian, self._socket = None, None


class SubreaperProcess:
    """A server that is the child of its keeper: what `subprocess.Popen` is for other children."""

    stdin: FileIO
    stdout: FileIO
    stderr: FileIO

    def __init__(self, owner: Subreaper, control: socket.socket) -> None:
        self.pid: int = 0
        self.keeper: int = 0
        self.returncode: int | None = None
        self._owner = owner
        self._control = control
        self._lock = threading.Lock()
        self._unread = b""
        self._is_over = False
        self._opened: list[FileIO] = []

    def open_pipes(self, others: ExitStack) -> list[int]:
        """Open the three pipes; return the ends of the server, which `others` closes."""
        theirs: list[int] = []
        for mode in ("w", "r", "r"):
            pair = os.pipe()
            ours, other = pair if mode == "r" else pair[::-1]
            self._opened.append(FileIO(ours, mode))
            others.callback(os.close, other)
            theirs.append(other)
        self.stdin, self.stdout, self.stderr = self._opened
        return theirs

    def request(self, request: bytes) -> bytes:
        """Send the request; return the line that answers it, empty if there is none."""
        self._control.settimeout(_START)
        # A guardian that is not there has closed the socket.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._control.sendall(request)
        self.keeper = int(self._next_line()[1:] or 0)
        # The server may stop its keeper before the keeper has answered.
        self._control.settimeout(_PATIENCE)
        for _ in range(int(_START / _PATIENCE)):
            try:
                line = self._next_line()
            except TimeoutError:
                self.wake_parent()
            else:
                self._control.settimeout(0)
                return line
        raise TimeoutError(errno.ETIMEDOUT, "the guardian does not answer")

    def _next_line(self) -> bytes:
        with suppress(BrokenPipeError, ConnectionResetError):
            while b"\n" not in self._unread and (chunk := self._control.recv(_CHUNK)):
                self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal that killed it; ``None`` while it runs."""
        with self._lock:
            while not self._is_over:
                try:
                    chunk = self._control.recv(_CHUNK)
                except BlockingIOError:
                    break
                except OSError:
                    chunk = b""
                self._unread += chunk
                self._is_over = not chunk
            if self.returncode is None and self._unread.startswith(b"="):
                self.returncode = int(self._unread[1:])
            if self.returncode is None and self._is_over:
                # The keeper was killed, and the guardian kills the server for that.
                self.returncode = -signal.SIGKILL
            return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for its end; this blocks.

        Raises:
            subprocess.TimeoutExpired: when it still runs then.
        """
        if not self._poll_until(lambda: self.returncode is not None, timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        assert self.returncode is not None
        return self.returncode

    def exit_descriptor(self) -> int:
        """Return a new descriptor that is readable as soon as the server has ended."""
        return os.dup(self._control.fileno())

    def wake_parent(self) -> None:
        """Wake the keeper, which the server may have stopped."""
        if not self._is_over:
            with suppress(OSError):
                os.kill(self.keeper, signal.SIGCONT)

    def kill_descendants(self, timeout: float) -> None:
        """Let the keeper kill the server and everything it started, and end; this blocks."""
        self.wake_parent()
        with suppress(OSError):
            self._control.send(b"k")
        self._poll_until(lambda: self._is_over, timeout)

    def release(self) -> None:
        """Take leave of the keeper, which ends everything that still runs."""
        self._control.close()
        self._owner.release()

    def leave_to_parent(self) -> None:
        """Forget it in a forked child, which must not hold the socket open."""
        self._control.close()
        self.returncode = 0

    def close(self) -> None:
        """Close every descriptor."""
        self._control.close()
        for pipe in self._opened:
            pipe.close()

    def _poll_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        end = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            self.poll()
            if condition():
                return True
            left = end - time.monotonic()
            if left <= 0 or self._is_over:
                return condition()
            poll.poll(left * 1000)


def _request(command: Sequence[str], cwd: str, env: Mapping[str, str]) -> bytes:
    if any("=" in name or not name for name in env):
        raise ValueError("illegal environment variable name")
    program, *args = command
    variables = [f"{name}={value}" for name, value in env.items()]
    fields = [os.fsencode(it) for it in (cwd, program, str(len(args)), *args, *variables)]
    if any(FIELD_END in field for field in fields):
        raise ValueError("embedded null byte")
    body = FIELD_END.join(fields)
    return len(body).to_bytes(8, "big") + body


subreaper: Subreaper = Subreaper()
"""The one guardian of this process on Linux."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=subreaper.leave_to_parent)
