"""File lock between processes, on a file that its holder may also remove or replace."""

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
        handle, self.handle = self.handle, None
        if handle is not None:
            os.close(handle)

    def _take(self, *, alone: bool) -> int:
        while True:
            if self.handle is None:
                self.handle = os.open(self._path, _FLAGS, 0o600)
            _wait(self.handle, alone=alone)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.stat(self._path), os.fstat(self.handle)):  # noqa: PTH116 - faster
                    return self.handle
            # The last holder has removed the file, and another process may have made a new one.
            self.close()


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
