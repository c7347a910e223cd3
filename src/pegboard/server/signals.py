"""Signals: what whoever runs the process wants of it."""

import signal
from collections.abc import Callable

import anyio

__all__ = ["Ending", "watch_signals"]

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
    """Hear the signals of this process for as long as this runs."""
    with anyio.open_signal_receiver(*_WATCHED) as signals:
        async for it in signals:
            if it == _HANGUP:
                on_hangup()
            else:
                ending.ask()
