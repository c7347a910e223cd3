"""StdioWire: the standard input and output of this process as a wire for messages.

Nothing else may be written to standard output meanwhile, nor read from standard input: both names
are pointed elsewhere. The threads are daemons, because one that waits for a client which neither
writes nor reads must not keep the process from ending.
"""

import os
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from queue import SimpleQueue
from typing import NamedTuple

import anyio
import anyio.from_thread
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream

__all__ = ["LONGEST_LINE", "StdioWire", "claim_stdio", "open_wire"]

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; of a longer line only the mark below is passed on, which is no message."""

_TOO_LONG = b"?"
_CHUNK = 256 * 1024


class StdioWire:
    """Lines that come in, and lines that go out."""

    def __init__(
        self, lines: MemoryObjectReceiveStream[bytes], outgoing: "SimpleQueue[_Line | None]"
    ) -> None:
        self.lines = lines
        """What the client says, until it closes its end."""
        self._outgoing = outgoing

    async def write(self, line: bytes) -> None:
        """Send a line, and return when the client's end has taken it, or is closed."""
        taken = anyio.Event()
        self._outgoing.put(_Line(line, taken))
        await taken.wait()


class _Line(NamedTuple):
    content: bytes
    taken: anyio.Event


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


@asynccontextmanager
async def open_wire(source: int, target: int) -> AsyncGenerator[StdioWire]:
    """Read lines from one descriptor and write lines to another."""
    token = anyio.lowlevel.current_token()
    send, receive = anyio.create_memory_object_stream[bytes](0)
    outgoing: SimpleQueue[_Line | None] = SimpleQueue()

    def read() -> None:
        with suppress(anyio.RunFinishedError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            for line in _lines(source):
                anyio.from_thread.run(send.send, line, token=token)
        with suppress(anyio.RunFinishedError):
            anyio.from_thread.run_sync(send.close, token=token)

    def write() -> None:
        while (line := outgoing.get()) is not None:
            _write_all(target, line.content)
            with suppress(anyio.RunFinishedError):
                anyio.from_thread.run_sync(line.taken.set, token=token)

    for work in (read, write):
        threading.Thread(target=work, name=f"pegboard-stdio-{work.__name__}", daemon=True).start()
    try:
        with receive:
            yield StdioWire(receive, outgoing)
    finally:
        outgoing.put(None)


def _lines(source: int) -> Iterator[bytes]:
    kept = bytearray()
    is_too_long = False
    while chunk := _read_some(source):
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


def _read_some(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError:
        return b""


def _write_all(target: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        try:
            view = view[os.write(target, view) :]
        except OSError:  # nobody reads any more; the end of the input says the rest
            return
