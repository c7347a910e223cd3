"""The pipes of a server process: write messages to its standard input, read its standard output."""

import asyncio  # noqa: TID251 - the event loop itself calls the reader, which saves a task switch
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from io import FileIO
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel

from pegboard.config.servers import ServerConfig
from pegboard.registry.threads import context_of_asyncio
from pegboard.upstream.messages.channel import DuplexChannel
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.messages.response_limits import LARGE, RESPONSES

__all__ = ["LineTooLongError", "Lines", "StdinWriter", "StdoutReader"]

_NOT_SENT = Failure(kind="not_sent", message="Its process is gone.")
_COURTESY = b'"method":"notifications/cancelled"'
_MOST_PUT_OFF = 64 * 1024


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
        self._put_off = bytearray()
        """Cancellations that could not be written at once."""

    async def write(self, line: bytes, number: int | str | None) -> None:
        """Write one message; ``number`` is the id of a request.

        Raises:
            FailedError: when the server certainly did not get it.
        """
        is_busy = bool(self._rest) or self._turn.locked()
        if is_busy and number is None and _COURTESY in line[:100]:
            # The caller need not wait for a server that does not read: the next message brings it.
            if len(self._put_off) < _MOST_PUT_OFF:
                self._put_off += line + b"\n"
            return
        data = line + b"\n"
        async with self._turn:
            unwritten = len(data)
            try:
                # The rest of a message whose sender was cancelled must come first.
                if self._rest or self._put_off:
                    await self._write_rest()
                    self._take_put_off()
                    await self._write_rest()
                self._rest = memoryview(data)
                await self._write_rest()
                unwritten = 0
                if self._put_off:
                    self._take_put_off()
                    self._write_now()
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

    def _take_put_off(self) -> None:
        self._rest = memoryview(bytes(self._put_off))
        self._put_off.clear()

    async def _write_rest(self) -> None:
        while self._rest:
            if not self._write_now():
                await anyio.wait_writable(self._pipe)

    def _write_now(self) -> bool:
        """Write what the pipe takes; return whether it took something."""
        if self._gone.is_set():
            raise BrokenPipeError
        written = self._pipe.write(self._rest)
        if written is not None:
            self._rest = self._rest[written:]
        return written is not None


class LineTooLongError(Exception):
    """A line is longer than the limit."""


class Lines:
    """Splits chunks of bytes into complete lines."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def held(self) -> int:
        """How many bytes of an incomplete line there are."""
        return self._size

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
_LINES_A_TURN = 32
"""The most lines that are taken in one turn of the event loop."""
_BAD_LINES = 50
_SHOWN = 100


class StdoutReader:
    """Reads the pipe whenever the event loop says that there is something to read.

    A task takes over for a large message, and a server that sends too much has to wait.

    Args:
        config: the server.
        pipe: its standard output.
        channel: takes the messages.
        lose: called when the pipe ends or cannot be read, with the reason if there is one.
        start_soon: starts a task.
        max_line_bytes: the longest line.
    """

    def __init__(
        self,
        config: ServerConfig,
        pipe: FileIO,
        *,
        channel: DuplexChannel,
        lose: Callable[[str | None], None],
        start_soon: Callable[[Callable[[], Coroutine[Any, Any, None]]], object],
        max_line_bytes: int,
    ) -> None:
        self.why_lost: str = ""
        """Why the pipe is read no more, for the errors of running calls; mostly empty."""
        self._config = config
        self._pipe = pipe
        self._channel = channel
        self._lose = lose
        self._start_soon = start_soon
        self._limit = max_line_bytes
        self._lines = Lines(limit=max_line_bytes)
        self._complete: deque[bytes] = deque()
        self._share = RESPONSES.share(config.name)
        self._pausing: anyio.Event | None = None
        """Set when the pipe is read again; ``None`` while it is."""
        self._pipe_ended = False
        self._bad_lines = 0
        self._speaks_mcp = False
        self._loop = asyncio.get_running_loop()
        self._context = context_of_asyncio()
        self._listen()

    async def read_what_is_left(self) -> None:
        """Read what a dead server has left in the pipe."""
        for _ in range(_LAST_CHUNKS):
            while self._pausing is not None and not self._pipe_ended:
                await self._pausing.wait()
            if self._pipe_ended or not self._read():
                return

    def end(self) -> None:
        """Read no more."""
        self._pipe_ended = True
        self._share.close()
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe)
        if self._pausing is not None:
            self._pausing.set()

    def _listen(self) -> None:
        self._context.run(self._loop.add_reader, self._pipe, self._read)

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
        for index, line in enumerate(lines):
            if self._pipe_ended:
                break
            if index == _LINES_A_TURN or len(line) > LARGE or self._channel.pause:
                self._complete.extend(lines[index:])
                break
            self._take(line, self._channel.take(line))
        if self._complete or self._channel.pause or self._lines.held > max(LARGE, self._share.size):
            self._pause()
        return True

    def _pause(self) -> None:
        if not self._pipe_ended:
            self._pausing = anyio.Event()
            self._loop.remove_reader(self._pipe)
            self._start_soon(self._catch_up)

    async def _catch_up(self) -> None:
        """Take the lines that wait, and go on reading when the server may send more."""
        if self._channel.pause:
            await anyio.sleep(self._channel.pause)
            self._channel.pause = 0.0
        for number in count():
            if number % _LINES_A_TURN == 0:
                # Each of these lines may wake a task; those of other servers get their turn, too.
                await anyio.lowlevel.checkpoint()
            if not self._complete or self._pipe_ended:
                break
            line = self._complete.popleft()
            self._take(line, await self._channel.take_any(line))
        if self._lines.held <= LARGE:
            self._share.close()
        elif not self._pipe_ended:
            try:
                await self._share.grow(self._lines.held + _CHUNK)
            finally:
                if self._pipe_ended:
                    self._share.close()
        pausing, self._pausing = self._pausing, None
        if not self._pipe_ended:
            self._listen()
        if pausing is not None:
            pausing.set()

    def _stop_reading(self, reason: str | None) -> None:
        self.end()
        self._lose(reason)

    def _take(self, line: bytes, is_message: bool) -> None:  # noqa: FBT001 - for every line
        if is_message:
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
