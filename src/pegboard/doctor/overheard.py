"""What servers print while the doctor looks at them, taken out of our own log."""

import logging
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["Overheard", "overhearing"]

_LINES = 100


class Overheard(logging.Filter):
    """Keeps what is logged about servers' output, and passes everything else on."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level
        self._printed: dict[str, deque[str]] = {}
        self._said: dict[str, deque[str]] = {}

    def printed(self, server: str) -> list[str]:
        """Return the last lines of its standard output that were no messages."""
        return list(self._printed.get(server, ()))

    def said(self, server: str) -> list[str]:
        """Return the last lines of its standard error."""
        return list(self._said.get(server, ()))

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep a record that is for us, and tell whether it is for others."""
        event = str(record.msg).partition(":")[0]
        kept = {"not_a_message": self._printed, "server_stderr": self._said}.get(event)
        server, line = getattr(record, "server", None), getattr(record, "line", None)
        if kept is not None and isinstance(server, str) and isinstance(line, str):
            kept.setdefault(server, deque(maxlen=_LINES)).append(line)
            return False
        return record.levelno >= self._level


@contextmanager
def overhearing() -> Generator[Overheard]:
    """Listen to the loggers of servers meanwhile; nobody else hears more than before."""
    loggers = [logging.getLogger(name) for name in ("pegboard.upstream", "pegboard.server")]
    before = [logger.level for logger in loggers]
    ears = Overheard(min(logger.getEffectiveLevel() for logger in loggers))
    try:
        for logger in loggers:
            logger.addFilter(ears)
            logger.setLevel(logging.DEBUG)
        yield ears
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeFilter(ears)
            logger.setLevel(level)
