"""JSON Lines file of call records: append one line per call, and read them back."""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from pegboard.model import CallRecord
from pegboard.model.fork_guard import GuardedLock

__all__ = ["JsonLines", "append_lines", "open_file_to_append", "open_to_append", "read_records"]


def open_to_append(path: str | os.PathLike[str]) -> int:
    """Open a file for appending and return its descriptor; a new file is private to its owner.

    Raises:
        OSError: when it cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, 0o600)


def open_file_to_append(path: str | os.PathLike[str]) -> int:
    """Open a regular file for appending; a pipe is refused, as its reader could block all writers.

    Raises:
        OSError: when it cannot be written, or is not a regular file.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - of whatever names a file
            words = "it is not a regular file; name one, and let other programs follow the file"
            raise OSError(errno.EINVAL, words, str(path))
    return open_to_append(path)


def append_lines(file: int, lines: bytes) -> None:
    """Append lines; if the disk has room for only a part of them, that part is removed again.

    Raises:
        OSError: when the lines could not be written.
    """
    start, rest = os.fstat(file).st_size, lines
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        end = start + len(lines) - len(rest)
        # Not if another process has written meanwhile, whose lines must not be cut off.
        with suppress(OSError):
            if start < end == os.fstat(file).st_size:
                os.ftruncate(file, start)
        raise


_decoder = msgspec.json.Decoder(CallRecord)


class JsonLines:
    """An observer that appends to a file, which only its owner may read.

    Each record is one write to a file opened for appending, so several processes may share the
    file. A line that a full disk cuts short is removed. To replay calls later, let the registry
    keep their arguments: ``Registry(telemetry=Telemetry([JsonLines(path)], arguments=True))``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._lock = GuardedLock("file of calls", threading.Lock())
        self._file: int | None = open_to_append(self.path)

    def __call__(self, record: CallRecord, /) -> None:
        """Append one record."""
        line = msgspec.json.encode(record, enc_hook=repr) + b"\n"
        with self._lock:
            if self._file is None:
                raise ValueError(f"{str(self.path)!r} is closed. No more calls are recorded.")
            append_lines(self._file, line)

    def close(self) -> None:
        """Close the file; may be called more than once."""
        if self._lock.in_child:
            return
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_records(path: str | os.PathLike[str]) -> Iterator[CallRecord]:
    """Read the records that `JsonLines` wrote, oldest first.

    An incomplete last line is left out: its writer died in the middle, or is still writing.

    Raises:
        ValueError: naming the line that is not a call record.
    """
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"{str(path)!r}, line {number}: {error}.") from error
