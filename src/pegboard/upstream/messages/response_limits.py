"""Limits on what servers send: values of one message, bytes under way, and messages per second."""

import asyncio  # noqa: TID251 - a future can be woken from another thread, which no event can be
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from time import monotonic

from anyio.lowlevel import checkpoint

from pegboard.model.json_limits import (
    LONGEST_NUMBER,
    MOST_DIGITS,
    MOST_EXPONENTS,
    has_slow_numbers,
    slow_numbers_in,
)
from pegboard.upstream.messages.failures import FailedError, Failure

__all__ = [
    "FEW_NUMBERS",
    "LARGE",
    "RESPONSES",
    "Pace",
    "ResponseBudget",
    "Share",
    "check_numbers",
    "check_numbers_at_once",
    "check_values",
]

LARGE = 64 * 1024
"""Larger messages are counted, and read in a way that lets other calls run in between."""
RESPONSE_BYTES = 128 * 1024 * 1024
"""The bytes of large responses that may be under way at once, in one process."""

_SLICE = 512 * 1024
_FINE_SLICE = 128 * 1024
_MARKS = (b",", b":", b"[", b"{")
"""What stands before each value: decoding takes about the same time for each."""
_ESCAPES_PER_VALUE = 32
"""Decoding so many escapes in texts takes as long as one value."""
FEW_NUMBERS = 16 * 1024
"""Bytes of a message in which no numbers take long."""
_SLOW_NUMBERS = Failure(
    kind="unreadable",
    message=f"The server sent a response with a number of more than {MOST_DIGITS} digits, or more "
    f"than {MOST_EXPONENTS} numbers with exponents of three digits: ask for less at once.",
)


async def check_values(data: bytes, most: int) -> None:
    """Refuse a message that has too many values, before it is decoded.

    A value of an object counts twice, because of its key; so does an empty list or object.

    Raises:
        FailedError: when it has more values than ``most``.
    """
    # Without a look at it: a value has at least one byte.
    if len(data) > most and not await _has_at_most(data, most):
        words = (
            f"The server sent a response of more than {most} values: ask for less at once, or "
            "raise its `max_response_values`."
        )
        raise FailedError(Failure(kind="unreadable", message=words))


async def check_numbers(data: bytes) -> None:
    """Refuse a message with numbers that take far more time to decode than their bytes suggest.

    Raises:
        FailedError: when it has numbers that are too long, or too many with long exponents.
    """
    # Some texts look so, too: hexadecimal numbers and base64.
    if await _are_slow(_slices(data)) and await _are_slow(_outside_texts(data)):
        raise FailedError(_SLOW_NUMBERS)


def check_numbers_at_once(data: bytes) -> None:
    """Do what `check_numbers` does, for a message that is not large.

    Raises:
        FailedError: when it has numbers that are too long, or too many with long exponents.
    """
    if has_slow_numbers(data):
        raise FailedError(_SLOW_NUMBERS)


async def _are_slow(pieces: AsyncIterator[bytes]) -> bool:
    found, rest = 0, b""
    async for piece in pieces:
        found += slow_numbers_in(rest + piece)
        if found > MOST_EXPONENTS:
            return True
        # A number may be cut in two; one with a long exponent counts twice then.
        rest = (rest + piece)[-LONGEST_NUMBER:]
        await checkpoint()
    return False


async def _has_at_most(data: bytes, most: int) -> bool:
    """Count roughly first: a text may have commas, too, but few messages have that many."""
    found = 0
    async for piece in _slices(data):
        found += sum(map(piece.count, _MARKS)) + piece.count(b"\\") // _ESCAPES_PER_VALUE
        if found > most:
            return await _has_at_most_outside_texts(data, most)
        await checkpoint()
    return True


async def _has_at_most_outside_texts(data: bytes, most: int) -> bool:
    found = 0
    async for outside in _outside_texts(data):
        found += sum(map(outside.count, _MARKS)) + outside.count(b"\\")
        if found > most:
            return False
        await checkpoint()
    return True


async def _slices(data: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(data), _SLICE):
        yield data[start : start + _SLICE]


async def _outside_texts(data: bytes) -> AsyncGenerator[bytes]:
    """Give the pieces of a message without its texts; a backslash stands for many escapes."""
    start = in_text = 0
    while start < len(data):
        piece = data[start : start + _FINE_SLICE]
        # Not between a backslash and what it escapes.
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and start + len(piece) < len(data):
            piece = piece[:-1]
        start += len(piece)
        escapes = b"\\" * (piece.count(b"\\") // _ESCAPES_PER_VALUE)
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[in_text::2]) + escapes
        in_text = (in_text + len(parts) - 1) % 2


class ResponseBudget:
    """The bytes of large responses under way; a response beyond them waits for its turn.

    The oldest response never waits, so that those which hold a part of the budget cannot wait for
    each other. The responses of one server hold half of it at most.
    """

    def __init__(self, most: int) -> None:
        self.most: int = most
        self.held: int = 0
        """How many bytes are under way."""
        self._shares: dict[Share, None] = {}
        self._waiting: deque[tuple[Share, int, asyncio.Future[None]]] = deque()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many responses wait for their turn."""
        return len(self._waiting)

    def share(self, server: str) -> "Share":
        """Return the share of one response, which is empty; close it when the response is read."""
        return Share(self, server)

    async def grow(self, share: "Share", size: int) -> None:
        """Let a share grow to this size, or wait until it may."""
        with self._lock:
            if not self._waiting and self._fits(share, size):
                self._grant(share, size)
                return
            turn = asyncio.get_running_loop().create_future()
            entry = (share, size, turn)
            self._waiting.append(entry)
            self._grant_waiting()
        try:
            await turn
        except BaseException:
            with self._lock:
                if entry in self._waiting:
                    self._waiting.remove(entry)
            raise

    def release(self, share: "Share") -> None:
        """Give the bytes of a share back."""
        with self._lock:
            self._shares.pop(share, None)
            self.held -= share.size
            share.size = 0
            self._grant_waiting()

    def _fits(self, share: "Share", size: int) -> bool:
        if not self._shares or next(iter(self._shares)) is share:
            return True
        others = sum(it.size for it in self._shares if it.server == share.server and it != share)
        is_fair = not others or others + size <= self.most // 2
        return is_fair and self.held - share.size + size <= self.most

    def _grant(self, share: "Share", size: int) -> None:
        self.held += size - share.size
        share.size = size
        self._shares[share] = None

    def _grant_waiting(self) -> None:
        for entry in tuple(self._waiting):
            share, size, turn = entry
            if self._fits(share, size):
                self._waiting.remove(entry)
                self._grant(share, size)
                # The response may be read by another thread.
                turn.get_loop().call_soon_threadsafe(_wake, turn)


class Share:
    """The bytes of one response that are under way."""

    __slots__ = ("_budget", "server", "size")

    def __init__(self, budget: ResponseBudget, server: str) -> None:
        self._budget = budget
        self.server: str = server
        self.size: int = 0

    async def grow(self, size: int) -> None:
        """Wait until so many bytes may be read; small responses never wait."""
        if size > LARGE and size > self.size:
            await self._budget.grow(self, -(-size // _SLICE) * _SLICE)

    def close(self) -> None:
        """Give the bytes back."""
        if self.size:
            self._budget.release(self)


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


RESPONSES = ResponseBudget(RESPONSE_BYTES)
"""The budget of this process: its memory is shared by all hubs in it."""


class Pace:
    """Tells how long to read no more from a server that sends too much that no call waits for.

    A notification costs one unit, and a long one more. A normal server never gets there.
    """

    PER_SECOND = 5000.0
    BURST = 200.0
    _LONGEST = 1.0

    def __init__(self) -> None:
        self._spent = 0.0
        self._at = 0.0

    def spend(self, units: float) -> float:
        """Return the seconds to pause after something that costs so much; mostly none."""
        self._spent += units
        if self._spent < self.BURST:
            return 0.0
        now = monotonic()
        self._spent = max(0.0, self._spent - (now - self._at) * self.PER_SECOND)
        self._at = now
        if self._spent < self.BURST:
            return 0.0
        return min(self._spent / self.PER_SECOND, self._LONGEST)
