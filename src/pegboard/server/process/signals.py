"""Signals: what whoever runs the process wants of it."""

import os
import signal
from collections.abc import Callable

import anyio

__all__ = ["Ending", "has_terminal", "watch_signals"]


def has_terminal() -> bool:
    """Tell whether the process belongs to a terminal that is still there."""
    try:
        # Opened by a process that has none any more, it is no such device.
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
    except (OSError, AttributeError):  # on Windows there is neither the file nor the flags
        return False
    return True


_HANGUP = getattr(signal, "SIGHUP", None)
_WATCHED = tuple(it for it in (signal.SIGTERM, signal.SIGINT, _HANGUP) if it is not None)


class Ending:
    """Whether the process is to end, and how soon."""

    def __init__(self) -> None:
        self.asked: anyio.Event = anyio.Event()
        """Set when it is to end, in good order."""
        self.pressed: anyio.Event = anyio.Event()
        """Set when it is to end at once."""

    def ask(self) -> None:
        """Let it end; once more, and at once."""
        (self.pressed if self.asked.is_set() else self.asked).set()


async def watch_signals(ending: Ending, on_hangup: Callable[[], object]) -> None:
    """Hear the signals of this process for as long as this runs.

    A hangup ends it when the terminal is gone at which it was started.
    """
    was_at_terminal = has_terminal()
    # Whoever started it with `nohup` wants it to hear of no hangup.
    watched = [it for it in _WATCHED if it != _HANGUP or signal.getsignal(it) != signal.SIG_IGN]
    with anyio.open_signal_receiver(*watched) as signals:
        async for it in signals:
            if it == _HANGUP and not (was_at_terminal and not has_terminal()):
                on_hangup()
            else:
                ending.ask()
