"""Lines of standard error of a server: split, readable without secrets, and limited in number."""

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic

from pegboard.config.secret_detection import secrets_in
from pegboard.config.servers import ServerConfig
from pegboard.model.hidden_characters import visible
from pegboard.upstream.events import ServerLogger

__all__ = ["LONGEST_LINE", "StderrLines", "readable"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

LONGEST_LINE = 2_000
"""How many characters of a line are shown."""
_KEPT = 8_192
"""How many bytes of a line are searched for secrets: more, so that none is cut in two."""
_LOOKED_AT = 1_000
_BURST = 500
_PER_SECOND = 100


class StderrLines:
    """Takes what a process writes, and passes its lines on: to its log, and to a debugging logger.

    The log gets at most 100 lines a second, after a first 500; it is told how many were dropped.
    """

    def __init__(self, config: ServerConfig, log: ServerLogger | None) -> None:
        self._name = config.name
        self._log = log
        self._read: Callable[[bytes], str] = partial(readable, redact=config.redact)
        self._line = bytearray()
        self._allowed = float(_BURST)
        self._at = monotonic()
        self._is_flooded = False
        self.dropped: int = 0
        """How many lines were dropped since `report`."""

    def take(self, chunk: bytes) -> None:
        """Take the next part of what the process wrote."""
        is_debugging = logger.isEnabledFor(logging.DEBUG)
        if self._log is None and not is_debugging:
            self._line.clear()
            return
        room = self._room()
        lines, left_out = self._split(chunk, most=chunk.count(b"\n") if is_debugging else room)
        if is_debugging:
            for line in lines:
                text = self._read(line)
                context = {"server": self._name, "line": text}
                logger.debug("server_stderr: %r: %s", self._name, text, extra=context)
        if self._log is not None:
            left_out += max(0, len(lines) - room)
            self._pass_on(lines[:room], left_out)

    def report(self) -> None:
        """Tell the log how many lines were dropped."""
        if self.dropped and self._log is not None:
            lines = "1 line" if self.dropped == 1 else f"{self.dropped:,} lines"
            self._log.note(self._name, "dropped", f"{lines} dropped")
        self.dropped = 0

    def end(self) -> None:
        """Pass on what is left once the process has ended."""
        if self._line:
            self.take(b"\n")
        self.report()

    def _pass_on(self, lines: list[bytes], left_out: int) -> None:
        assert self._log is not None
        self._allowed -= len(lines)
        if lines:
            self.report()
            self._log.wrote(self._name, lines, self._read)
        self.dropped += left_out
        self._is_flooded = bool(left_out)

    def _room(self) -> int:
        """Return how many lines the log takes now; after a flood it waits for a second's worth."""
        now = monotonic()
        self._allowed = min(_BURST, self._allowed + (now - self._at) * _PER_SECOND)
        self._at = now
        return 0 if self._is_flooded and self._allowed < _PER_SECOND else int(self._allowed)

    def _split(self, chunk: bytes, *, most: int) -> tuple[list[bytes], int]:
        """Return so many whole lines, and how many more there are; the rest waits for its end."""
        *lines, rest = chunk.split(b"\n", most)
        left_out = rest.count(b"\n")
        if left_out:
            rest = rest[rest.rindex(b"\n") + 1 :]
        if lines:
            lines[0] = bytes(self._line) + lines[0]
        if lines or left_out:
            self._line.clear()
        # One byte more than is kept tells that the line is longer.
        self._line += rest[: _KEPT + 1 - len(self._line)]
        return lines, left_out


def readable(line: bytes, *, redact: Callable[[str], str]) -> str:
    """Return a line without secrets, without what steers a terminal, and cut to its length.

    Besides the secrets of the server, which ``redact`` knows, what looks like one is hidden.
    """
    whole = redact(line[:_KEPT].decode(errors="replace").rstrip())
    text = whole[:LONGEST_LINE]
    for found in sorted({it.value for it in secrets_in(text[:_LOOKED_AT])}, key=len, reverse=True):
        text = text.replace(found, "***")
    end = "…" if len(whole) > LONGEST_LINE or len(line) > _KEPT else ""
    return visible(text).replace("\r", "\\r") + end
