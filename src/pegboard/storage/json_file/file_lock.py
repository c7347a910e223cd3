"""An advisory lock on a file that whoever has it may also remove or replace."""

import os
import random
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Held", "LockedFile", "take", "write_all"]

PATIENCE = 60.0
"""Seconds after which whoever holds the lock counts as stuck."""

if sys.platform == "win32":
    import msvcrt

    # Locks keep others from reading there, so it is a byte that nobody reads.
    _FAR_AWAY = 1 << 62

    def take(handle: int, *, alone: bool) -> None:
        """Lock an open file at once, or raise an `OSError`."""
        # Whoever has it already would be refused, and wait for themselves.
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


class Held(NamedTuple):
    """An open file whose lock is held."""

    handle: int
    found: os.stat_result
    """What it was when the lock was taken."""


class LockedFile:
    """A file that is opened, and made if need be, when its lock is taken."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._handle: int | None = None
        self._identity = (0, 0)

    @property
    def handle(self) -> int | None:
        """The file as it was last opened; without the lock it may be another by now."""
        return self._handle

    @contextmanager
    def locked(self, *, alone: bool) -> Generator[Held]:
        """Hold the lock, alone or beside other readers, and give the open file.

        Raises:
            OSError: when the file cannot be opened, or nobody lets go of it.
        """
        try:
            yield self.take(alone=alone)
        finally:
            self.release()

    def release(self) -> None:
        """Let others have the lock, if it was taken."""
        if self._handle is not None:
            _release(self._handle)

    def forget(self) -> None:
        """Close the file."""
        # First forgotten: a fork in between must not close it a second time.
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def take_again(self) -> int | None:
        """Take the lock of the file that was last opened, alone, and return that, if there is one.

        Nobody has looked whether it still has its name: see whether it says what it said.
        """
        if self._handle is not None:
            _wait(self._handle, alone=True)
        return self._handle

    def take(self, *, alone: bool) -> Held:
        """Take the lock and return the open file; `release` it. See `locked`, which does both."""
        while True:
            handle = self._handle
            if handle is None:
                handle = self._open()
            _wait(handle, alone=alone)
            try:
                found = os.stat(self._path)  # noqa: PTH116 - faster
                if (found.st_ino, found.st_dev) == self._identity:
                    return Held(handle, found)
            except FileNotFoundError:
                pass
            except OSError:
                _release(handle)
                raise
            # Whoever had the lock has removed the file, and others may have made a new one.
            self.forget()

    def _open(self) -> int:
        handle = self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | _O_BINARY, 0o600)
        found = os.fstat(handle)
        self._identity = (found.st_ino, found.st_dev)
        return handle


_O_BINARY: int = getattr(os, "O_BINARY", 0)


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
            # Of several who wait none is always the last.
            time.sleep(random.uniform(0, pause))  # noqa: S311 - not a secret
            pause = min(pause * 1.5, 0.02)


def write_all(handle: int, data: bytes) -> None:
    """Write to an open file, however many attempts that takes."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, data[written:])
