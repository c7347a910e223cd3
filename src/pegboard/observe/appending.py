"""Appending: lines go to the end of a file, whole or not at all."""

import os
from contextlib import suppress

__all__ = ["append_lines", "open_to_append"]


def open_to_append(path: str | os.PathLike[str]) -> int:
    """Return the descriptor of a file, made if there is none, for its owner to read.

    Raises:
        OSError: when it cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, 0o600)


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
