"""File lock between processes, on a file that its holder may also remove once it is empty."""

import os
import random
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LockedFile", "take"]

PATIENCE = 60.0
"""Seconds after which the holder of the lock counts as stuck."""
_TICK = 20_000_000
"""Nanoseconds between two times that a file system can tell apart, and some more."""
_FLAGS: int = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)

if sys.platform == "win32":
    import msvcrt

    # A lock keeps other processes from reading there, so it is on a byte that is never read.
    _FAR_AWAY = 1 << 62

    def take(handle: int, *, alone: bool) -> None:
        """Lock an open file at once, or raise an `OSError`."""
        # A holder that asks again would be refused, and wait for itself.
        _release(handle)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

    def _release(handle: int) -> None:
        os.lseek(handle, _FAR_AWAY, os.SEEK_SET)
        # It may not be locked at all.
        with suppress(OSError):
            msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def take(handle: int, *, alone: bool) -> None:
        """Lock an open file at once, or raise an `OSError`."""
        fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)

    def _release(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


class LockedFile:
    """A file that is opened, and made if need be, when its lock is taken."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self.handle: int | None = None
        """The file as it was last opened; without the lock it may be another by now."""
        self._folder = str(path.parent)
        self._unchanged: tuple[int, int] | None = None
        """The folder when the path led to the open file, if a change would show in its time."""

    @contextmanager
    def locked(self, *, alone: bool) -> Generator[int]:
        """Hold the lock, alone or beside other readers, and give the open file.

        Raises:
            OSError: when the file cannot be opened, or another process keeps the lock.
        """
        try:
            yield self._take(alone=alone)
        finally:
            if self.handle is not None:
                _release(self.handle)

    def close(self) -> None:
        """Close the file."""
        handle, self.handle, self._unchanged = self.handle, None, None
        if handle is not None:
            os.close(handle)

    def _take(self, *, alone: bool) -> int:
        while True:
            if self.handle is None:
                self.handle = os.open(self._path, _FLAGS, 0o600)
            _wait(self.handle, alone=alone)
            if self._is_at_path(self.handle):
                return self.handle
            # The last holder has removed the file, and another process may have made a new one.
            self.close()

    def _is_at_path(self, handle: int) -> bool:
        # Linux gives a file whose time was asked for a new time with the next write, which makes
        # its sync dearer. So the folder is asked: its time changes when an entry does.
        folder = os.stat(self._folder)  # noqa: PTH116 - faster
        found = (folder.st_ino, folder.st_mtime_ns)
        # A holder empties the file before removing it, so a clock with long steps hides no removal.
        if found == self._unchanged and _has_content(handle):
            return True
        try:
            is_same = os.path.samestat(os.stat(self._path), os.fstat(handle))  # noqa: PTH116 - faster
        except FileNotFoundError:
            return False
        # Two changes in one tick of the clock have the same time.
        is_settled = time.time_ns() - folder.st_mtime_ns > _TICK
        self._unchanged = found if is_same and is_settled else None
        return is_same


def _has_content(handle: int) -> bool:
    os.lseek(handle, 0, os.SEEK_SET)
    return bool(os.read(handle, 1))


def _wait(handle: int, *, alone: bool) -> None:
    end = None
    pause = 0.0005
    while True:
        try:
            return take(handle, alone=alone)
        except (BlockingIOError, PermissionError):
            now = time.monotonic()
            end = end or now + PATIENCE
            if now > end:
                raise
            # At random, so that of several waiting processes none is always the last.
            time.sleep(random.uniform(0, pause))  # noqa: S311 - not a secret
            # Short: a busy writer leaves the lock free for some microseconds only.
            pause = min(pause * 1.5, 0.002)
