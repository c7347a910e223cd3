"""A line on standard error while a command is busy: gone when it is done."""

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import cycle

from pegboard.cli.plain_text import one_line

__all__ = ["Waiting", "is_live", "waiting"]

_PATIENCE = 0.5
"""Seconds: what is done sooner needs no words."""
_PAUSE = 0.1
_WIDEST = 78
_BAR = 20
Tell = Callable[[int, int], None]
"""Takes how many are done, and of how many."""


def is_live() -> bool:
    """Tell whether somebody looks at a terminal on which a line can be overwritten."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


@contextmanager
def waiting(words: str) -> Generator[Tell]:
    """Show that something goes on, from half a second on, where a person looks.

    Nothing else may be printed meanwhile. With what is given, a bar says how far it is.
    """
    line = Waiting(words)
    try:
        yield line.tell
    finally:
        line.stop()


class Waiting:
    """A line that moves until it is stopped."""

    def __init__(self, words: str) -> None:
        self._words = one_line(words)
        self._amount = ""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if is_live() else None
        if self._thread is not None:
            self._thread.start()

    def tell(self, done: int, total: int) -> None:
        """Show how far it is."""
        full = _BAR * done // max(total, 1)
        self._amount = f" {'█' * full}{'░' * (_BAR - full)} {done:,}/{total:,}"

    def stop(self) -> None:
        """Take the line away, if it is there."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _show(self) -> None:
        if self._is_over.wait(_PATIENCE):
            return
        for mark in cycle("|/-\\"):
            sys.stderr.write(f"\r\x1b[K{f'{mark} {self._words}…{self._amount}'[:_WIDEST]}")
            sys.stderr.flush()
            if self._is_over.wait(_PAUSE):
                break
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
