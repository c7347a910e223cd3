"""Files that are replaced as a whole, and are on the disk when that is said."""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from pegboard.storage.json_file.changes import Signature
from pegboard.storage.json_file.file_lock import take, write_all

__all__ = [
    "NewFile",
    "free_name",
    "make_folder",
    "replace_file",
    "set_aside",
    "signature",
    "sync_folder",
    "tidy_up",
]

_FLAGS: int = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)


class NewFile:
    """What is to take the place of a file, beside it until it is complete.

    It is locked for as long as somebody works on it: one that is not was left by a dead process.
    """

    def __init__(self, path: Path) -> None:
        # A link stays one, and what it leads to is replaced.
        self._target = path.resolve()
        self._temporary = self._target.with_name(f".{self._target.name}.{token_hex(4)}.tmp")
        self._handle = os.open(self._temporary, _FLAGS, 0o600)
        self.signature: Signature = None
        try:
            take(self._handle, alone=True)
        except BaseException:
            self.discard()
            raise

    def write(self, pieces: Iterable[bytes], *, keeps_mode: bool = True) -> None:
        """Write everything, and wait until it is on the disk; mode and owner stay what they were.

        Raises:
            OSError: when that is not possible.
        """
        mode = 0o600
        with suppress(FileNotFoundError):
            # Somebody may have made it readable for others on purpose, or given it to them.
            old = self._target.stat() if keeps_mode else None
            if old is not None:
                mode = old.st_mode & 0o777
                self._give_to(old)
        self._temporary.chmod(mode)
        for piece in pieces:
            write_all(self._handle, piece)
        os.fsync(self._handle)
        self.signature = signature(os.fstat(self._handle))

    def put_in_place(self) -> None:
        """Take the place of the file; `sync_folder` makes it last.

        Raises:
            OSError: when that is not possible; then the old file is still there.
        """
        if os.name == "nt":
            self._close()
        self._temporary.replace(self._target)

    def discard(self) -> None:
        """Let go of it, and remove it unless it has taken its place."""
        self._close()
        with suppress(OSError):
            self._temporary.unlink()

    def _give_to(self, old: os.stat_result) -> None:
        new = os.fstat(self._handle)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with suppress(OSError):
                os.chown(self._temporary, old.st_uid, old.st_gid)

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def replace_file(path: Path, pieces: Iterable[bytes], *, keeps_mode: bool = True) -> None:
    """Put new content under a path; `sync_folder` makes it last.

    Who could read the old content can read the new one, unless ``keeps_mode`` is false: then only
    whoever writes it can.

    Raises:
        OSError: when that is not possible; then the old content is still there.
    """
    new = NewFile(path)
    try:
        new.write(pieces, keeps_mode=keeps_mode)
        new.put_in_place()
    finally:
        new.discard()


def set_aside(path: Path, content: bytes) -> Path:
    """Keep what is damaged beside a file, under a name that says so, and return that.

    Raises:
        OSError: when that is not possible.
    """
    kept = free_name(path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"))
    replace_file(kept, [content])
    return kept


def free_name(path: Path) -> Path:
    """Return a path, with a number if there is something already."""
    free, number = path, 1
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


def tidy_up(path: Path) -> None:
    """Remove what dead processes left that were replacing a file.

    Nobody may begin to replace it meanwhile.
    """
    start = f".{path.name}."
    for found in path.parent.iterdir():
        if found.name.startswith(start) and found.suffix == ".tmp":
            _remove_if_dead(found)


def signature(found: os.stat_result) -> Signature:
    """Return what changes whenever a file does."""
    return found.st_ino, found.st_mtime_ns, found.st_size


def sync_folder(folder: Path) -> None:
    """Wait until names that were given or taken away in a folder are on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read, and those above it, unless there is one."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def _remove_if_dead(path: Path) -> None:
    # Who is alive has it locked, and on Windows open.
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR)
        try:
            take(handle, alone=True)
        finally:
            os.close(handle)
        path.unlink()
