"""LogFloods: the same complaint again and again fills no disk."""

import logging
import time
from collections.abc import Callable

__all__ = ["LogFloods"]

_MOST_KINDS = 256


class LogFloods(logging.Filter):
    """Lets so many records of a kind pass in a while, and says once that others are left out.

    Records are of a kind when they have the same words before values are put in.

    Args:
        most: how many; as many servers may fail at once, each with a line of its own.
        seconds: how long a while is.
        clock: tells the time.
    """

    def __init__(
        self,
        most: int = 200,
        seconds: float = 60.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._seen: dict[tuple[str, int, object], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is written."""
        kind = (record.name, record.levelno, str(record.msg))
        now = self._clock()
        began, count = self._seen.get(kind, (now, 0))
        if now - began >= self._seconds:
            if count > self._most:
                _say(record, f"{count - self._most:,} like it were left out")
            began, count = now, 0
        if len(self._seen) >= _MOST_KINDS and kind not in self._seen:
            self._seen.clear()
        self._seen[kind] = began, count + 1
        if count + 1 == self._most:
            _say(record, f"others like it are left out for {self._seconds:.0f} seconds")
        return count < self._most


def _say(record: logging.LogRecord, words: str) -> None:
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 - values that do not fit: whoever writes it says so
        return
    record.msg, record.args = f"{message} [{words}]", ()
