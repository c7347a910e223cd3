"""Appending: lines go to the end of a file, whole or not at all."""

import errno
import os
import stat
from contextlib import suppress

__all__ = ["append_lines", "open_file_to_append", "open_to_append"]


def open_to_append(path: str | os.PathLike[str]) -> int:
    """Return the descriptor of a file, made if there is none, for its owner to read.

    Raises:
        OSError: when it cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, 0o600)


def open_file_to_append(path: str | os.PathLike[str]) -> int:
    """Do the same, but only with an ordinary file: whoever reads from a pipe can hold up all.

    Raises:
        OSError: when it cannot be written, or is something else.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - of whatever names a file
            words = "it is no ordinary file; name one, and let others follow what is added to it"
            raise OSError(errno.EINVAL, words, str(path))
    return open_to_append(path)


def append_lines(file: int, lines: bytes) -> None:
    """Write lines; when there is room for a part of them only, that part is taken back.

    Raises:
        OSError: when they could not be written.
    """
    start, rest = os.fstat(file).st_size, lines
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        end = start + len(lines) - len(rest)
        # Unless somebody else has written meanwhile, whose lines are not ours to cut off.
        with suppress(OSError):
            if start < end == os.fstat(file).st_size:
                os.ftruncate(file, start)
        raise
