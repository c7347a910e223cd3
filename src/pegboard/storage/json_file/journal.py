"""The journal of a JSON store as a file: what its lines say, and how it begins again."""

import os

import msgspec

from pegboard.storage.json_file.changes import Change, read_frames
from pegboard.storage.json_file.file_lock import write_all
from pegboard.storage.json_file.format import damaged
from pegboard.storage.json_file.paths import JsonPaths

__all__ = ["read_at", "read_journal", "restarted"]


def read_journal(data: bytes, start: int, paths: JsonPaths) -> tuple[list[Change], int]:
    """Return the changes from an offset on, and where the last whole line ends.

    What follows it was never acknowledged: whoever wrote it died.

    Raises:
        StoreDamagedError: when a line is not whole and is not the last.
    """
    changes: list[Change] = []
    end = start
    broken = False
    try:
        for frame in read_frames(data, start):
            if frame is None:
                broken = True
                continue
            if broken:
                break
            changes += frame.changes
            end = frame.end
        else:
            return changes, end
        problem = "This line of the journal is not what was written."
    except msgspec.MsgspecError as error:
        problem = f"This line of the journal is not known: {error}."
    raise damaged(paths.journal, problem, data[:end].decode(errors="replace"), end)


def restarted(handle: int, line: bytes) -> bytes:
    """Leave nothing but a header in a journal, and return it."""
    os.ftruncate(handle, 0)
    try:
        write_all(handle, line)
    except OSError:
        # On a full disk there is none: then the next one to write begins the journal.
        os.ftruncate(handle, 0)
        return b""
    return line


if hasattr(os, "pread"):

    def read_at(handle: int, start: int, size: int) -> bytes:
        """Return what an open file holds from an offset on."""
        return os.pread(handle, size, start)
else:

    def read_at(handle: int, start: int, size: int) -> bytes:
        """Return what an open file holds from an offset on."""
        os.lseek(handle, start, os.SEEK_SET)
        return os.read(handle, size)
