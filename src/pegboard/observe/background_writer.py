"""BackgroundWriter: a thread writes what waits in its queue, so that slow output delays nothing."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from pegboard.model.fork_guard import GuardedLock

__all__ = ["BackgroundWriter"]

T = TypeVar("T")

logger: logging.Logger = logging.getLogger("pegboard.observe")

PAUSE = 0.2
"""Seconds between two writes, so that many items are written at once."""
_PATIENCE = 5.0


class BackgroundWriter(Generic[T]):
    """Takes items at once; a thread hands them to a function, in order.

    Args:
        write: gets the items, and how many were dropped before them.
        most: how many items may wait; further ones are dropped, and counted.
        owner: what is written, for the name of the thread.
    """

    def __init__(self, write: Callable[[Sequence[T], int], None], *, most: int, owner: str) -> None:
        self._write = write
        self._most = most
        self._owner = owner
        self._lock = GuardedLock(owner, threading.Lock())
        self._writing = GuardedLock(owner, threading.Lock())
        self._waiting: list[T] = []
        self._dropped = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, item: T) -> None:
        """Take an item, or drop it if too many are waiting."""
        with self._lock:
            if len(self._waiting) >= self._most:
                self._dropped += 1
                return
            self._waiting.append(item)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._run, name=f"pegboard-{self._owner}", daemon=True
                )
                self._thread.start()
        if not self._wake.is_set():
            self._wake.set()

    def flush(self) -> None:
        """Write what is waiting now."""
        with self._writing:
            with self._lock:
                items, self._waiting = self._waiting, []
                dropped, self._dropped = self._dropped, 0
            if items or dropped:
                try:
                    self._write(items, dropped)
                except Exception:
                    logger.exception("write_failed: %s", self._owner)

    def close(self, *, patience: float = _PATIENCE) -> None:
        """Write what is waiting and stop, unless the output is stuck for longer than this."""
        if self._lock.in_child:
            return
        self._closing.set()
        self._wake.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(timeout=patience)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._wake.clear()
            self.flush()
            self._closing.wait(PAUSE)
        self.flush()
