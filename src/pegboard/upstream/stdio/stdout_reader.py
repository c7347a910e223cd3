"""StdoutReader: read messages from the standard output of a server process."""

import logging
from collections import deque
from collections.abc import Callable
from io import FileIO

import anyio
import anyio.lowlevel
from anyio.abc import ObjectReceiveStream
from mcp.shared.message import SessionMessage

from pegboard.config.servers import ServerConfig
from pegboard.upstream.messages.jsonrpc import read_message
from pegboard.upstream.stdio.fast_path import StdioFastPath

__all__ = ["LineTooLongError", "Lines", "StdoutReader"]


class LineTooLongError(Exception):
    """A line is longer than the limit."""


class Lines:
    """Splits chunks of bytes into complete lines."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their ends.

        Raises:
            LineTooLongError: when a line, complete or not, is longer than the limit.
        """
        *lines, rest = chunk.split(b"\n")
        if lines:
            if self._size + len(lines[0]) > self._limit:
                raise LineTooLongError
            if self._parts:
                lines[0] = b"".join((*self._parts, lines[0]))
                self._parts.clear()
                self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._limit:
                raise LineTooLongError
        return lines


logger: logging.Logger = logging.getLogger("pegboard.upstream")

_CHUNK = 65_536
_LAST_CHUNKS = 64
_BAD_LINES = 50
_SHOWN = 100


class StdoutReader(ObjectReceiveStream[SessionMessage | Exception]):
    """The stream that a session reads. It reads the pipe in the task of its reader."""

    def __init__(
        self,
        config: ServerConfig,
        pipe: FileIO,
        *,
        lose: Callable[[str | None], None],
        max_line_bytes: int,
        exchanges: StdioFastPath | None = None,
    ) -> None:
        self._config = config
        self._pipe = pipe
        self._lose = lose
        self._exchanges = exchanges or StdioFastPath()
        self._limit = max_line_bytes
        self._lines = Lines(limit=max_line_bytes)
        self._messages: deque[SessionMessage | Exception] = deque()
        self._pipe_ended = False
        self._over = anyio.Event()
        self._closed = False
        self._bad_lines = 0
        self._speaks_mcp = False

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: when the server is lost.
            anyio.ClosedResourceError: when this stream was closed.
        """
        while not self._messages:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._over.is_set():
                raise anyio.EndOfStream
            await self._wait()
        return self._messages.popleft()

    def answer(self, message: SessionMessage) -> bool:
        """Add a message of our own to those of the server; ``False`` if the stream is closed."""
        if self._closed:
            return False
        self._messages.append(message)
        self._wake()
        return True

    def read_what_is_left(self) -> None:
        """Read what a dead server has left in the pipe."""
        for _ in range(_LAST_CHUNKS):
            if self._pipe_ended or not self._read():
                return

    def end(self) -> None:
        """End the stream once the messages that have arrived are taken."""
        self._over.set()
        self._exchanges.close()
        self._wake()

    async def aclose(self) -> None:
        """Accept no more messages."""
        # Without await: a session that ends and closes in one step leaves no gap for a request.
        self._closed = True
        self._exchanges.close()
        self._messages.clear()

    async def _wait(self) -> None:
        if self._pipe_ended:
            await self._over.wait()
            return
        try:
            await anyio.wait_readable(self._pipe)
        except (anyio.ClosedResourceError, OSError, ValueError):
            # There is a message, or the pipe is closed; the caller checks which.
            await anyio.lowlevel.checkpoint()
            self._pipe_ended = self._pipe_ended or self._pipe.closed
            return
        self._read()

    def _wake(self) -> None:
        if not self._pipe.closed:
            anyio.notify_closing(self._pipe)

    def _read(self) -> bool:
        try:
            chunk = self._pipe.read(_CHUNK)
            if chunk is None:
                return False
            lines = self._lines.feed(chunk)
        except (OSError, ValueError):
            chunk, lines = b"", []
        except LineTooLongError:
            size = f"{self._limit / 2**20:g} MiB"
            self._exchanges.why_lost = f"a response had more than {size}: ask for less at once"
            self._stop_reading(f"sent a line of more than {self._limit} bytes")
            return False
        if not chunk:
            self._stop_reading(None)
            return False
        for line in lines:
            if self._pipe_ended:
                break
            self._take(line)
        return True

    def _stop_reading(self, reason: str | None) -> None:
        self._pipe_ended = True
        self._lose(reason)

    def _take(self, line: bytes) -> None:
        if self._exchanges.take(line):
            self._speaks_mcp = True
            return
        message = read_message(line)
        if message is None:
            if line and not line.isspace():
                self._take_bad(line)
            return
        self._speaks_mcp = True
        if not self._exchanges.take_message(message):
            self._messages.append(SessionMessage(message))

    def _take_bad(self, line: bytes) -> None:
        self._bad_lines += 1
        level = logging.WARNING if self._bad_lines == 1 else logging.DEBUG
        if logger.isEnabledFor(level):
            name, shown = self._config.name, self._shown(line)
            context = {"server": name, "line": shown}
            logger.log(level, "not_a_message: server %r printed %r", name, shown, extra=context)
        if self._bad_lines >= _BAD_LINES and not self._speaks_mcp:
            self._stop_reading(f"does not speak MCP: it printed {self._shown(line)!r}")

    def _shown(self, line: bytes) -> str:
        # Cut twice: a huge line is not searched for secrets, and none is cut in two.
        text = self._config.redact(line[: 40 * _SHOWN].decode(errors="replace"))
        return text[:_SHOWN]
