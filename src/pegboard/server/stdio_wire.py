"""StdioWire: the standard input and output of this process as a wire for messages.

Nothing else may be written to standard output meanwhile, nor read from standard input: both names
are pointed elsewhere. Nothing here blocks: a client which neither writes nor reads must not keep
the process from ending.
"""

import os
import select
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager, suppress

import anyio
import anyio.lowlevel
import anyio.to_thread

__all__ = ["LONGEST_LINE", "StdioWire", "claim_stdio"]

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; of a longer line only the mark below is passed on, which is no message."""

_TOO_LONG = b"?"
_CHUNK = 256 * 1024


class StdioWire:
    """Lines that come in by one descriptor, and lines that go out by another."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._outlet = select.poll()
        self._outlet.register(target, select.POLLOUT)
        self._inlet = select.poll()
        # Of a socket only this tells that nothing more will be said, and not every system has it.
        self._inlet.register(source, getattr(select, "POLLRDHUP", 0))
        self._writing = anyio.Lock(fast_acquire=True)

    @property
    def is_left(self) -> bool:
        """Whether the client has closed its end, and takes nothing more either."""
        return bool(self._inlet.poll(0)) and not self._outlet.poll(0)

    async def lines(self) -> AsyncGenerator[bytes]:
        """Give what the client says, line by line, until it closes its end."""
        kept = bytearray()
        is_too_long = False
        async for chunk in self._chunks():
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                kept += part
                yield _TOO_LONG if is_too_long else bytes(kept)
                kept.clear()
                is_too_long = False
            kept += rest
            if len(kept) > LONGEST_LINE:
                is_too_long = True
                kept.clear()
        if kept:
            yield bytes(kept)

    async def write(self, line: bytes) -> None:
        """Send a line; when nobody reads any more, the end of the input will say so."""
        with suppress(OSError):
            async with self._writing:
                rest = memoryview(line)
                while rest:
                    await self._until_writable()
                    # What can be written to takes so much without making us wait.
                    rest = rest[os.write(self._target, rest[: select.PIPE_BUF]) :]

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            try:
                await anyio.wait_readable(self._source)
                chunk = os.read(self._source, _CHUNK)
            except PermissionError:  # an ordinary file, which is never waited for
                chunk = await anyio.to_thread.run_sync(os.read, self._source, _CHUNK)
            except OSError:
                return
            if not chunk:
                return
            yield chunk

    async def _until_writable(self) -> None:
        try:
            if not self._outlet.poll(0):
                await anyio.wait_writable(self._target)
        except PermissionError:  # an ordinary file, which is never waited for
            await anyio.lowlevel.checkpoint()


@contextmanager
def claim_stdio() -> Generator[tuple[int, int]]:
    """Return descriptors of standard input and output that only the caller knows.

    Until the end, whoever reads from standard input finds nothing, and what is written to
    standard output goes to standard error.
    """
    own_input, own_output = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield own_input, own_output
    finally:
        os.close(nothing)
        with suppress(OSError):
            os.dup2(own_input, 0)
            os.dup2(own_output, 1)
