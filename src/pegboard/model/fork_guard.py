"""Fork guard: what one process opened raises `ForkedProcessError` in a forked child of it.

A forked child has the objects of its parent, but neither its threads nor its connections. A lock
that another thread held at that moment would never be released there.
"""

import os
import threading
from typing import Protocol

from pegboard.errors import ForkedProcessError

__all__ = ["ForkGuard", "GuardedLock"]


class ForkGuard:
    """Remembers which process made an object, and keeps a forked child from using the object.

    Args:
        owner: what the object is called in the error, such as ``registry``.
    """

    __slots__ = ("_owner", "_process")

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._process = os.getpid()

    @property
    def in_child(self) -> bool:
        """True in a forked child of the process that made the object."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Let only the process go on that made the object.

        Raises:
            ForkedProcessError: in a forked child of that process.
        """
        if os.getpid() != self._process:
            raise ForkedProcessError(self._owner)


class _Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...  # noqa: FBT001, FBT002

    def release(self) -> None: ...


class GuardedLock(ForkGuard):
    """A lock that raises in a forked child, where waiting for it might never end.

    Args:
        owner: what the locked object is called in the error.
        lock: the lock itself; a re-entrant one by default.
    """

    __slots__ = ("_lock",)

    def __init__(self, owner: str, lock: _Lock | None = None) -> None:
        super().__init__(owner)
        self._lock: _Lock = threading.RLock() if lock is None else lock

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def acquire(self, *, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, and tell whether that was possible.

        Raises:
            ForkedProcessError: in a forked child of the process that made the lock.
        """
        self.check()
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()
