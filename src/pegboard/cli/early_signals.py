"""Signals before anybody hears them: `pegboard serve` takes a second to be imported."""

import os
import signal
import threading
from types import FrameType

from pegboard.cli.exit_codes import INTERRUPTED
from pegboard.server.process.signals import has_terminal

__all__ = ["hear_signals_as_usual", "hear_signals_early"]


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
