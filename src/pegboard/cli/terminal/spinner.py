"""Spinner and progress line on standard error while a command is busy."""

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import cycle

from pegboard.cli.terminal.output import warn
from pegboard.cli.terminal.plain_text import one_line

__all__ = ["ProgressLine", "Spinner", "is_live", "waiting"]

_PATIENCE = 0.5
"""Seconds after which the spinner appears."""
_PAUSE = 0.1
_WIDEST = 78
_BAR = 20
Tell = Callable[[int, int], None]
"""Takes how many are done, and of how many."""


def is_live() -> bool:
    """Tell whether standard error is a terminal on which a line can be overwritten."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


@contextmanager
def waiting(words: str) -> Generator[Tell]:
    """Show a spinner on a terminal after half a second.

    Nothing else may be printed meanwhile. The function that it gives shows a progress bar.
    """
    line = Spinner(words)
    try:
        yield line.tell
    finally:
        line.stop()


class Spinner:
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


class ProgressLine:
    """Overwrites itself on a terminal; elsewhere each message is a line of its own."""

    def __init__(self, words: str) -> None:
        self._is_seen = is_live()
        self._is_shown = False
        # Until the server says something: most of them never do.
        self._waiting = Spinner(words)

    def tell(self, progress: float, total: float | None, message: str | None) -> None:
        """Show how far a call is."""
        amount = f"{progress / total:4.0%}" if total else f"{progress:g}"
        words = one_line(f"{amount} {message or ''}".rstrip())
        if self._is_seen:
            self._waiting.stop()
            self._write(f"\r\x1b[K{words[:_WIDEST]}", is_shown=True)
        elif message:
            warn(words.strip())

    def clear(self) -> None:
        """Take the line away."""
        self._waiting.stop()
        if self._is_shown:
            self._write("\r\x1b[K", is_shown=False)

    def _write(self, text: str, *, is_shown: bool) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
        self._is_shown = is_shown
