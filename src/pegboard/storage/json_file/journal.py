"""The journal of a JSON store as a file: what its lines say, and room for more of them."""

import os
from contextlib import suppress

import msgspec

from pegboard.storage.json_file.changes import Change, read_frames
from pegboard.storage.json_file.file_lock import write_all
from pegboard.storage.json_file.format import damaged
from pegboard.storage.json_file.paths import JsonPaths

__all__ = ["NOTHING", "keep_room", "read_at", "read_journal", "restarted", "write_at"]

ROOM = 1 << 16
"""Bytes of zeros that are kept ready behind the last line.

To write where a file has its blocks already is much less work for the disk than to let it grow.
"""
NOTHING = b"\0"
"""What the room is filled with: no line has it."""


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
        write_at(handle, 0, line)
    except OSError:
        # On a full disk there is none: then the next one to write begins the journal.
        os.ftruncate(handle, 0)
        return b""
    return line


def keep_room(handle: int, end: int) -> int:
    """Have room behind the last line, if the disk has any, and return where it ends."""
    with suppress(OSError):
        write_at(handle, end, NOTHING * ROOM)
    return end + ROOM


if hasattr(os, "pread"):

    def read_at(handle: int, start: int, size: int) -> bytes:
        """Return what an open file holds from an offset on."""
        return os.pread(handle, size, start)

    def write_at(handle: int, start: int, data: bytes) -> None:
        """Write to an open file from an offset on, however many attempts that takes."""
        written = os.pwrite(handle, data, start)
        while written < len(data):
            written += os.pwrite(handle, data[written:], start + written)
else:

    def read_at(handle: int, start: int, size: int) -> bytes:
        """Return what an open file holds from an offset on."""
        os.lseek(handle, start, os.SEEK_SET)
        return os.read(handle, size)

    def write_at(handle: int, start: int, data: bytes) -> None:
        """Write to an open file from an offset on, however many attempts that takes."""
        os.lseek(handle, start, os.SEEK_SET)
        write_all(handle, data)
