"""Read a file that a person named, and never wait where nothing will come."""

import errno
import os
import stat
from pathlib import Path

__all__ = ["read_named_file"]

_NOBODY_WRITES = "it is a pipe, and nobody writes to it"


def read_named_file(path: Path, at_most: int = -1) -> bytes:
    """Return what is in a file, or what comes by a pipe that somebody else has open.

    Args:
        path: the file, or a pipe such as a shell makes of ``<(…)``.
        at_most: so many bytes are enough, or one more; ``-1`` for all of them.

    Raises:
        OSError: when it cannot be read, or is a pipe to which nobody writes.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        begin = _begin_of_pipe(file.fileno(), path)
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(file.fileno(), True)
        return begin + file.read(at_most)


def _open_at_once(path: str, flags: int) -> int:
    # Otherwise to open a pipe is to wait until somebody else opens it, too.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _begin_of_pipe(descriptor: int, path: Path) -> bytes:
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return b""
    try:
        begin = os.read(descriptor, 1)
    except BlockingIOError:
        # Somebody has it open, and has not written yet.
        return b""
    if not begin:
        raise OSError(errno.EPIPE, _NOBODY_WRITES, str(path))
    return begin
