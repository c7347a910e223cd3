"""JsonLines: a file with one call record per line, to evaluate and to replay."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec

from pegboard.model import CallRecord
from pegboard.model.fork_guard import start_anew_in_children
from pegboard.observe.appending import append_lines, open_to_append

__all__ = ["JsonLines", "read_records"]

_decoder = msgspec.json.Decoder(CallRecord)


class JsonLines:
    """An observer that appends to a file, readable by its owner only.

    Each record is one write to a file opened for appending, so several processes may share one;
    what a full disk cuts short is taken back. To replay calls later, let the registry keep their
    arguments: ``Registry(telemetry=Telemetry([JsonLines(path)], arguments=True))``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self.after_fork()
        start_anew_in_children(self)
        self._file: int | None = open_to_append(self.path)

    def after_fork(self) -> None:
        """Make a new lock: the thread that held the old one is not in a forked child."""
        self._lock = threading.Lock()

    def __call__(self, record: CallRecord, /) -> None:
        """Append one record."""
        line = msgspec.json.encode(record, enc_hook=repr) + b"\n"
        with self._lock:
            if self._file is None:
                raise ValueError(f"{str(self.path)!r} is closed; no more calls are recorded.")
            append_lines(self._file, line)

    def close(self) -> None:
        """Close the file; may be called more than once."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_records(path: str | os.PathLike[str]) -> Iterator[CallRecord]:
    """Read back what `JsonLines` wrote, oldest first.

    A last line without its end is left out: it was being written when the writer died, or still is.

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
