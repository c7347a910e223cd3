"""The program of the guardian on Linux: start servers, and kill every process they leave behind.

`subreaper` runs this file with an interpreter that imports little, so that it starts quickly. The
guardian forks one keeper for each server, and the keeper starts the server:

    host (gateway) ── guardian ─┬─ keeper ── server ── whatever the server starts
                                └─ keeper ── server ── …

Guardian and keepers are subreapers. A daemon that leaves its session and clears its environment
therefore becomes a child of its server's keeper, and dies with the server. The end of the control
socket tells a keeper that the host is gone. The guardian kills what a killed keeper has left. The
host's death wakes a stopped guardian, and the guardian wakes a stopped keeper.
"""

import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Collection

__all__ = ["FIELD_END", "main"]

FIELD_END = b"\0"
"""What ends each field of a request; no argument and no variable can contain it."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PASSED_DESCRIPTORS = 4
_POLITE_ROUNDS = 150
_ROUND = 0.01
_IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGPIPE,
)
_RESET = (*_IGNORED, signal.SIGXFSZ)

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def main() -> None:
    """Serve the host on the socket that is standard input, until the host closes it or dies."""
    os.chdir("/")
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _adopt_descendants()
    host = socket.socket(fileno=0)
    events = _Events(host)
    keepers: set[int] = set()
    while True:
        spoken = events.wait()
        ended = _reap()
        keepers.difference_update(ended)
        if any(ended.values()):
            # A keeper that was killed has left its server's processes to the guardian.
            keepers.difference_update(_kill_descendants(spared=keepers))
        if spoken:
            descriptors = _receive(host)
            if not descriptors:
                break
            _fork_keeper(descriptors, keepers)
    for keeper in keepers:
        _kill(keeper, signal.SIGCONT)
    while keepers:
        keepers.difference_update(_reap())
        time.sleep(_ROUND)
    _kill_descendants()


class _Events:
    """Waits for a socket and for the end of children, whichever comes first."""

    def __init__(self, peer: socket.socket) -> None:
        self._ended, ending = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # Without a handler the signal would not be written there.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(ending, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(peer, select.POLLIN)
        self._poll.register(self._ended, select.POLLIN)

    def wait(self) -> bool:
        """Wait; tell whether the peer has said something, or closed the socket."""
        ready = {descriptor for descriptor, _ in self._poll.poll()}
        if self._ended in ready:
            os.read(self._ended, 65_536)
            ready.discard(self._ended)
        return bool(ready)


def _adopt_descendants() -> None:
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
    # The parent's death wakes a stopped process, which then sees that its socket was closed.
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


def _receive(host: socket.socket) -> list[int]:
    descriptors = socket.recv_fds(host, 1, _PASSED_DESCRIPTORS)[1]
    for descriptor in descriptors:
        # A server must not hold its pipes twice, nor the socket of its keeper.
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - as the system calls it
    return descriptors


def _fork_keeper(descriptors: list[int], keepers: set[int]) -> None:
    with socket.socket(fileno=descriptors[0]) as control:
        try:
            pid = os.fork()
        except OSError as error:
            _tell(control, b"!%d\n" % (error.errno or 0))
        else:
            if pid == 0:
                _keep(control, descriptors[1:])
            keepers.add(pid)
    for descriptor in descriptors[1:]:
        os.close(descriptor)


def _keep(control: socket.socket, pipes: list[int]) -> None:
    """Run one server as its parent: the whole life of a keeper. It never returns."""
    status = 1
    try:
        os.setsid()
        _adopt_descendants()
        # The guardian's socket and the host see each other's end, so no keeper may hold it.
        os.dup2(1, 0)
        events = _Events(control)
        _tell(control, b"@%d\n" % os.getpid())
        if server := _start(control, pipes):
            _wait_for_host(control, server, events)
            _kill_descendants()
        status = 0
    finally:
        os._exit(status)


def _start(control: socket.socket, pipes: list[int]) -> int:
    try:
        request = _read_request(control)
        pid = _spawn_server(request, pipes) if request else 0
    except OSError as error:
        _tell(control, b"!%d\n" % (error.errno or 0))
        return 0
    for descriptor in pipes:
        os.close(descriptor)
    return pid


def _read_request(control: socket.socket) -> list[bytes]:
    head = control.recv(8, socket.MSG_WAITALL)
    length = int.from_bytes(head, "big")
    body = bytearray()
    while len(body) < length and (chunk := control.recv(min(length - len(body), 1 << 20))):
        body += chunk
    # A host that died meanwhile has asked for nothing.
    return bytes(body).split(FIELD_END) if head and len(body) == length else []


def _spawn_server(request: list[bytes], pipes: list[int]) -> int:
    directory, command, count, *rest = request
    args, variables = rest[: int(count)], rest[int(count) :]
    os.chdir(directory)
    pid = os.posix_spawn(
        command,
        [command, *args],
        dict(variable.split(b"=", 1) for variable in variables),
        file_actions=[(os.POSIX_SPAWN_DUP2, it, target) for target, it in enumerate(pipes)],
        setsid=True,
        setsigdef=_RESET,
    )
    os.chdir("/")
    return pid


def _wait_for_host(control: socket.socket, server: int, events: _Events) -> None:
    """Report the end of the server, until the host wants the rest ended or is gone."""
    _tell(control, b"+%d\n" % server)
    while not events.wait():
        for pid, status in _reap().items():
            if pid == server:
                _tell(control, b"=%d\n" % os.waitstatus_to_exitcode(status))
    try:
        is_asked = bool(control.recv(1))
    except OSError:
        is_asked = False
    if not is_asked:
        # The host is gone: the server gets the time to end in an orderly way.
        for number in (signal.SIGTERM, signal.SIGCONT):
            _kill(-server, number)
        for _ in range(_POLITE_ROUNDS):
            _reap()
            if not _kill(-server, 0):
                break
            time.sleep(_ROUND)


def _tell(control: socket.socket, line: bytes) -> None:
    try:
        control.sendall(line)
    except OSError:
        # The host is gone, which the next `recv` finds.
        return


def _reap() -> dict[int, int]:
    """Return the children that have ended, with their exit status."""
    ended: dict[int, int] = {}
    try:
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended[child[0]] = child[1]
    except ChildProcessError:
        pass
    return ended


def _kill_descendants(*, spared: Collection[int] = ()) -> set[int]:
    """Kill all descendants, also those forked meanwhile; return the children that have ended.

    The spared ones are keepers, which take care of their own descendants.
    """
    reaped: set[int] = set()
    # A process of another user cannot be killed: it is left to the next subreaper.
    while sum(_kill(pid, signal.SIGKILL) for pid in _descendants(spared)):
        time.sleep(_ROUND)
        reaped.update(_reap())
    return reaped


def _descendants(spared: Collection[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would double the start
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - the same
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        fresh = [pid for pid in children.get(waiting.pop(), ()) if pid not in spared]
        found += fresh
        waiting += fresh
    return found


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _run() -> int:
    try:
        main()
    except OSError as error:
        return error.errno or 1
    return 0


if __name__ == "__main__":
    sys.exit(_run())
