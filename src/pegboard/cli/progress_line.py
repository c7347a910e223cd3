"""One line about a call that runs, on standard error."""

import sys

from pegboard.cli.output import warn
from pegboard.cli.plain_text import one_line
from pegboard.cli.waiting import Waiting, is_live

__all__ = ["ProgressLine"]

_WIDEST = 78


class ProgressLine:
    """Overwrites itself where a person looks; elsewhere each message is a line of its own."""

    def __init__(self, words: str) -> None:
        self._is_seen = is_live()
        self._is_shown = False
        # Until the server says something: most of them never do.
        self._waiting = Waiting(words)

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
