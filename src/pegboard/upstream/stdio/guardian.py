"""Guardian without Linux: a small shell that kills the servers' process groups if we die."""

import os
import subprocess
import threading
from contextlib import suppress

from pegboard.upstream.stdio.orphans import MARK, host_mark

__all__ = ["SCRIPT", "Guardian", "WatchedProcess", "guardian"]

# Lines on standard input: `+GROUP` to watch a process group, `-GROUP` to forget it. Only the host
# has the write end, so the end of the input means that the host is gone, however it died.
SCRIPT = r"""
trap '' INT TERM HUP QUIT PIPE TSTP
cd /
groups=' '
while read -r line; do
    group=${line#?}
    case $line in
    +*) groups="$groups$group " ;;
    -*) case $groups in
        *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
        esac ;;
    esac
done
mark=$1
set -- $groups
tell() {
    signal=$1
    shift
    for group; do kill -s "$signal" -- "-$group"; done
}
living() {
    for group; do kill -s 0 -- "-$group" && echo "$group"; done
}
tell TERM "$@"
tell CONT "$@"
for tenth in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    set -- $(living "$@")
    [ $# -gt 0 ] || break
    sleep 0.1 || { sleep 1; break; }
done
tell KILL "$@"
cd /proc || exit 0
for round in 1 2 3; do
    for orphan in $(grep -lsF -e "$mark" [0-9]*/environ); do kill -s KILL "${orphan%%/*}"; done
    sleep 0.2 || sleep 1
done
"""


class Guardian:
    """Watches the process groups that must not outlive this process. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    @property
    def pid(self) -> int | None:
        """The process id of the shell; ``None`` while there is nothing to guard."""
        return None if self._shell is None else self._shell.pid

    def ensure_running(self) -> None:
        """Start the shell before a server process is started. This blocks.

        Raises:
            OSError: when there is no shell, or it cannot be started.
        """
        with self._lock:
            if not self._is_running():
                self._start()

    def stop_if_idle(self) -> None:
        """Stop the shell if it watches no process group."""
        with self._lock:
            if not self._groups:
                self._stop()

    def watch(self, group: int) -> None:
        """End this process group when the host dies. This blocks: it may have to start the shell.

        Raises:
            OSError: when there is no shell, or it cannot be started.
        """
        with self._lock:
            self._groups.add(group)
            if not (self._is_running() and self._tell(f"+{group}\n")):
                self._start()

    def forget(self, group: int) -> None:
        """Stop watching this process group. The shell ends with the last group."""
        with self._lock:
            self._groups.discard(group)
            if self._groups:
                self._tell(f"-{group}\n")
            else:
                self._stop()

    def leave_to_parent(self) -> None:
        """Forget everything in a forked child: it must not hold the pipe open."""
        if self._pipe >= 0:
            with suppress(OSError):
                os.close(self._pipe)
        if self._shell is not None:
            # It is not a child of this process, so there is nothing to wait for.
            self._shell.returncode = 0
        self.__init__()

    def _is_running(self) -> bool:
        return self._shell is not None and self._shell.poll() is None

    def _start(self) -> None:
        self._stop()
        read_end, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            self._shell = subprocess.Popen(  # noqa: S603 - our own words only
                ["/bin/sh", "-c", SCRIPT, "pegboard-guardian", f"{MARK}={host_mark()}"],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
            )
        finally:
            os.close(read_end)
        for group in sorted(self._groups):
            self._tell(f"+{group}\n")

    def _tell(self, line: str) -> bool:
        try:
            # A few bytes are written whole or not at all: no half line in a full pipe.
            os.write(self._pipe, line.encode())
        except OSError:
            return False
        return True

    def _stop(self) -> None:
        if self._shell is not None:
            # Killed before its input ends, which it would take for the death of the host.
            self._shell.kill()
            reaper = threading.Thread(target=self._shell.wait, name="pegboard-reaper", daemon=True)
            # No more threads at the end of the interpreter, when init waits for it.
            with suppress(RuntimeError):
                reaper.start()
        if self._pipe >= 0:
            os.close(self._pipe)
        self._shell, self._pipe = None, -1


guardian: Guardian = Guardian()
"""The one shell of this process."""


class WatchedProcess(subprocess.Popen[bytes]):
    """A server that is a child of this process, watched by the shell."""

    def exit_descriptor(self) -> int | None:
        """Return a new descriptor that is readable as soon as the server has ended, if there is."""
        try:
            return os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return None

    def wake_parent(self) -> None:
        """Do nothing: this process is the parent."""

    def kill_descendants(self, timeout: float) -> None:
        """Do nothing: its descendants are found by their group and their mark."""

    def release(self) -> None:
        """Stop watching it."""
        guardian.forget(self.pid)

    def leave_to_parent(self) -> None:
        """Forget it in a forked child: there is nothing to wait for."""
        self.returncode = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=guardian.leave_to_parent)
