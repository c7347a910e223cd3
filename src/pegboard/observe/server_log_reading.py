"""Read the log of the servers from its files, and follow it through their rotation."""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from pegboard.observe.server_log import LogLine, log_files

__all__ = ["LogReader"]

_decoder = msgspec.json.Decoder(LogLine)


class LogReader:
    """Reads what was added to a log since it read last; at first, everything.

    The files may be rotated and removed meanwhile: each is known by its inode, whatever its name.

    Args:
        folder: where the log is.
        server: only the lines of this server.
        since: only lines that are not older.
    """

    def __init__(
        self, folder: Path, *, server: str | None = None, since: datetime | None = None
    ) -> None:
        self._folder = folder
        self._server = server
        self._since = since
        self._read: dict[tuple[int, int], int] = {}
        self._before: dict[tuple[int, int], int] = {}

    def read(self) -> list[LogLine]:
        """Return the new lines, the oldest first; an unreadable line is left out."""
        found: list[LogLine] = []
        # A file that is renamed in this moment may be missed once.
        known = {**self._before, **self._read}
        self._before, self._read = self._read, {}
        with suppress(FileNotFoundError):
            for path in log_files(self._folder):
                # It may be rotated away in this moment; then it is read under its new name.
                with suppress(FileNotFoundError), path.open("rb") as file:
                    about = os.fstat(file.fileno())
                    inode = about.st_dev, about.st_ino
                    position = self._read.get(inode, known.get(inode, 0))
                    # A new file may have the inode of one that was removed.
                    position = position if position <= about.st_size else 0
                    file.seek(position)
                    for line in file:
                        if not line.endswith(b"\n"):
                            # Its writer is not done with it yet.
                            break
                        position += len(line)
                        found.extend(self._wanted(line))
                    self._read[inode] = position
        return sorted(found, key=lambda it: it.at)

    def _wanted(self, line: bytes) -> Iterator[LogLine]:
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            read = _decoder.decode(line)
            is_meant = self._server is None or read.server == self._server
            if is_meant and (self._since is None or read.at >= self._since):
                yield read
