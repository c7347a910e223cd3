"""Signals of a command: Ctrl-C before startup, and interruption only between steps."""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pegboard.cli.exit_codes import INTERRUPTED
from pegboard.server.process.signals import has_terminal

__all__ = ["Interruption", "hear_signals_as_usual", "hear_signals_early", "interruptible"]


def hear_signals_early() -> None:
    """Let Ctrl-C end the process without more words, and a hangup only if its terminal is gone."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:  # as `nohup` has it
        # It would have the file read again, which has not been read yet. Not SIG_IGN, which the
        # servers that are started would inherit.
        signal.signal(hangup, _end_without_terminal if has_terminal() else _pass)


def hear_signals_as_usual() -> None:
    """Let Ctrl-C be a KeyboardInterrupt again: from now on there is something to clean up."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    # Not an exception: an import may be at a place where that is printed and forgotten.
    os._exit(INTERRUPTED)


def _end_without_terminal(_number: int, _frame: FrameType | None) -> None:
    if not has_terminal():
        signal.raise_signal(signal.SIGINT)


def _pass(_number: int, _frame: FrameType | None) -> None:
    pass


_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Interruption:
    """The signal that came, and whether it has to wait."""

    def __init__(self) -> None:
        self.came: int | None = None
        self._waits = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal: it raises at once, unless it has to wait."""
        self.came = number
        if not self._waits:
            # Not again: the code that catches the interruption cleans up.
            self._waits = True
            raise KeyboardInterrupt

    def put_off(self) -> None:
        """Let a signal wait from now on."""
        self._waits = True

    def let_in(self) -> None:
        """Let signals wait no longer.

        Raises:
            KeyboardInterrupt: when one came meanwhile.
        """
        self._waits = False
        if self.came is not None:
            self._waits = True
            raise KeyboardInterrupt


@contextmanager
def interruptible() -> Generator[Interruption]:
    """Let what would end this process raise ``KeyboardInterrupt``, and end it behind this."""
    interruption = Interruption()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        # A signal that is ignored, as under `nohup`, stays ignored.
        heard = [it for it in numbers if signal.getsignal(it) not in (signal.SIG_IGN, None)]
        before = {number: signal.signal(number, interruption) for number in heard}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if interruption.came is not None:
            signal.raise_signal(interruption.came)
