"""Signals: SIGTERM and Ctrl-C shut the process down, SIGHUP reloads the configuration."""

import os
import signal
from collections.abc import Callable

import anyio

__all__ = ["Shutdown", "has_terminal", "watch_signals"]

_HANGUP = getattr(signal, "SIGHUP", None)
_WATCHED = tuple(it for it in (signal.SIGTERM, signal.SIGINT, _HANGUP) if it is not None)


class Shutdown:
    """Whether the process is to end, and whether it may finish its running calls first."""

    def __init__(self) -> None:
        self.requested: anyio.Event = anyio.Event()
        """Set when the process is to end once it has drained."""
        self.forced: anyio.Event = anyio.Event()
        """Set when the process is to end at once."""

    def request(self) -> None:
        """Request the shutdown; the second request forces it."""
        (self.forced if self.requested.is_set() else self.requested).set()


def has_terminal() -> bool:
    """Tell whether the process belongs to a terminal that still exists."""
    try:
        # A process that has lost its terminal gets an error here: no such device.
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
    except (OSError, AttributeError):  # on Windows there is neither the file nor the flags
        return False
    return True


async def watch_signals(shutdown: Shutdown, on_hangup: Callable[[], object]) -> None:
    """Handle the signals of this process for as long as this runs.

    A hangup shuts the process down when the terminal that started it is gone.
    """
    was_at_terminal = has_terminal()
    # Under `nohup` the process ignores hangups, and has to go on ignoring them.
    watched = [it for it in _WATCHED if it != _HANGUP or signal.getsignal(it) != signal.SIG_IGN]
    with anyio.open_signal_receiver(*watched) as signals:
        async for it in signals:
            if it == _HANGUP and not (was_at_terminal and not has_terminal()):
                on_hangup()
            else:
                shutdown.request()
