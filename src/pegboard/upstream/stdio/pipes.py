"""The pipes of a server process: write messages to its standard input, read its standard output."""

import asyncio  # noqa: TID251 - the event loop itself calls the reader, which saves a task switch
import logging
from collections.abc import Callable
from io import FileIO

import anyio

from pegboard.config.servers import ServerConfig
from pegboard.upstream.messages.failures import FailedError, Failure

__all__ = ["LineTooLongError", "Lines", "StdinWriter", "StdoutReader"]

_NOT_SENT = Failure(kind="not_sent", message="Its process is gone.")
_COURTESY = b'"method":"notifications/cancelled"'


class StdinWriter:
    """Writes messages in order. A message is on the pipe when `write` returns."""

    def __init__(
        self, pipe: FileIO, *, gone: anyio.Event, lose: Callable[[str | None], None]
    ) -> None:
        self._pipe = pipe
        self._gone = gone
        self._lose = lose
        self._turn = anyio.Lock(fast_acquire=True)
        self._rest = memoryview(b"")

    async def write(self, line: bytes, number: int | str | None) -> None:
        """Write one message; ``number`` is the id of a request.

        Raises:
            FailedError: when the server certainly did not get it.
        """
        is_busy = bool(self._rest) or self._turn.locked()
        if is_busy and number is None and _COURTESY in line[:100]:
            # A server that does not read will not read this either, so the caller need not wait.
            return
        data = line + b"\n"
        async with self._turn:
            unwritten = len(data)
            try:
                # The rest of a message whose sender was cancelled must come first.
                while self._rest:
                    await self._write_some()
                self._rest = memoryview(data)
                while self._rest:
                    await self._write_some()
            except (OSError, ValueError, anyio.ClosedResourceError):
                if self._rest.obj is data:
                    unwritten = len(self._rest)
                self._rest = memoryview(b"")
                self._lose(None)
                # Without its line end it may have been read all the same.
                if unwritten > 1:
                    raise FailedError(_NOT_SENT) from None
            except BaseException:
                if len(self._rest) == len(data) and self._rest.obj is data:
                    self._rest = memoryview(b"")
                raise

    def end(self) -> None:
        """Wake the tasks that wait for the server to read."""
        if not self._pipe.closed:
            anyio.notify_closing(self._pipe)

    async def _write_some(self) -> None:
        if self._gone.is_set():
            raise BrokenPipeError
        written = self._pipe.write(self._rest)
        if written is None:
            await anyio.wait_writable(self._pipe)
        else:
            self._rest = self._rest[written:]


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


class StdoutReader:
    """Reads the pipe whenever the event loop says that there is something to read.

    Args:
        config: the server.
        pipe: its standard output.
        take: takes one line, and tells whether it was a message.
        lose: called when the pipe ends or cannot be read, with the reason if there is one.
        max_line_bytes: the longest line.
    """

    def __init__(
        self,
        config: ServerConfig,
        pipe: FileIO,
        *,
        take: Callable[[bytes], bool],
        lose: Callable[[str | None], None],
        max_line_bytes: int,
    ) -> None:
        self.why_lost: str = ""
        """Why the pipe is read no more, for the errors of running calls; mostly empty."""
        self._config = config
        self._pipe = pipe
        self._take_message = take
        self._lose = lose
        self._limit = max_line_bytes
        self._lines = Lines(limit=max_line_bytes)
        self._pipe_ended = False
        self._bad_lines = 0
        self._speaks_mcp = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(pipe, self._read)

    def read_what_is_left(self) -> None:
        """Read what a dead server has left in the pipe."""
        for _ in range(_LAST_CHUNKS):
            if self._pipe_ended or not self._read():
                return

    def end(self) -> None:
        """Read no more."""
        self._pipe_ended = True
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe)

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
            self.why_lost = f"a response had more than {size}: ask for less at once"
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
        self.end()
        self._lose(reason)

    def _take(self, line: bytes) -> None:
        if self._take_message(line):
            self._speaks_mcp = True
        elif line and not line.isspace():
            self._take_bad(line)

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
