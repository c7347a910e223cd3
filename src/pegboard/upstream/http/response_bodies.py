"""Bodies of HTTP responses: JSON read within limits, and server-sent events (SSE) parsed."""

import logging
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import msgspec

from pegboard.upstream.messages.jsonrpc import mended

__all__ = [
    "EndsQuietly",
    "Event",
    "EventReader",
    "EventTooLargeError",
    "MendedEvents",
    "is_event_stream",
    "set_read_limit",
    "start_of_body",
    "whole_body",
    "with_body",
]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LARGEST_ERROR = 64 * 1024
_SECONDS_FOR_ERROR = 5.0
# Only a whole message on one line: part of one might look like another.
_MESSAGE = re.compile(rb'^(data: ?)(\{[^\r\n]*?"jsonrpc"[^\r\n]*)', re.MULTILINE)


class EndsQuietly(httpx2.AsyncByteStream):
    """A stream that ends, without an error, when its connection breaks.

    The SDK reopens such a stream for ever, but a broken one only twice.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
        except httpx2.TransportError as error:
            reason = type(error).__name__
            logger.debug("stream_broke: %s", reason, extra={"reason": reason})

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


class MendedEvents(httpx2.AsyncByteStream):
    """The events of a response, with their messages repaired so that the SDK can read them."""

    def __init__(self, answer: httpx2.Response, *, largest: int) -> None:
        self._answer = answer
        self._largest = largest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line: list[bytes] = []
        size = 0
        async for chunk in self._answer.aiter_bytes():
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            line.append(chunk[:end] if end else chunk)
            size += len(chunk)
            # The reader of the stream refuses a line that is too long.
            if end or size > self._largest:
                yield _MESSAGE.sub(_mended, b"".join(line))
                line, size = [chunk[end:]] if end else [], len(chunk) - end
        yield _MESSAGE.sub(_mended, b"".join(line))

    async def aclose(self) -> None:
        """Close the connection."""
        await self._answer.aclose()


class Event(msgspec.Struct, frozen=True):
    """One event of a stream."""

    kind: str
    data: bytes
    id: str | None = None
    retry: int | None = None
    """Milliseconds after which the client is to reconnect."""


class EventTooLargeError(Exception):
    """An event is larger than the limit."""


class EventReader:
    """Parses server-sent events from a stream that comes in pieces of any size."""

    def __init__(self, *, largest: int) -> None:
        self._largest = largest
        self._pieces: list[bytes] = []
        self._held = 0
        self._is_first = True
        self._ended_in_cr = False
        self._start()

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this piece completes.

        Raises:
            EventTooLargeError: when an event is larger than the limit.
        """
        if self._ended_in_cr and chunk:
            # The second half of a line end that was cut in two.
            chunk = chunk.removeprefix(b"\n")
            self._ended_in_cr = False
        self._pieces.append(chunk)
        self._held += len(chunk)
        events: list[Event] = []
        # A line of many pieces is joined once, when it ends.
        if b"\n" in chunk or b"\r" in chunk:
            text = b"".join(self._pieces)
            if self._is_first:
                self._is_first = False
                text = text.removeprefix(_BYTE_ORDER_MARK)
            self._ended_in_cr = text.endswith(b"\r")
            *lines, rest = _LINE_END.split(text)
            self._pieces, self._held = [rest], len(rest)
            events = [event for line in lines if (event := self._take(line)) is not None]
        if self._size + self._held > self._largest:
            raise EventTooLargeError
        return events

    def _take(self, line: bytes) -> Event | None:
        if not line:
            event = self._event()
            self._start()
            return event
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
            case b"event":
                self._kind = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self._retry = int(value)
            case _:
                pass
        return None

    def _event(self) -> Event | None:
        if not self._data and self._id is None and self._retry is None:
            return None
        return Event(self._kind or "message", b"\n".join(self._data), self._id, self._retry)

    def _start(self) -> None:
        self._kind = ""
        self._data: list[bytes] = []
        self._size = 0
        self._id: str | None = None
        self._retry: int | None = None


def is_event_stream(answer: httpx2.Response) -> bool:
    """Tell whether a response is a stream of events."""
    kind, _, _ = answer.headers.get("content-type", "").partition(";")
    return kind.strip().lower() == "text/event-stream"


def set_read_limit(request: httpx2.Request, seconds: float | None) -> None:
    """Set how long the response that has begun may be silent; ``None`` for no limit."""
    request.extensions["timeout"]["read"] = seconds


async def whole_body(answer: httpx2.Response, *, limit: int) -> bytes | None:
    """Read the body of a response; ``None`` if it is larger than the limit."""
    body = bytearray()
    try:
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > limit:
                return None
    finally:
        await answer.aclose()
    return bytes(body)


async def start_of_body(answer: httpx2.Response) -> bytes:
    """Read the beginning of an error page."""
    body = bytearray()
    try:
        with anyio.move_on_after(_SECONDS_FOR_ERROR):
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) >= _LARGEST_ERROR:
                    break
    except httpx2.HTTPError:
        # The status says enough.
        logger.debug("error_body_cut: the answer of %s", answer.url.host)
    finally:
        await answer.aclose()
    return bytes(body[:_LARGEST_ERROR])


def with_body(answer: httpx2.Response, body: bytes | MendedEvents) -> httpx2.Response:
    """Return the response with the body that was, or is, read from it."""
    headers = answer.headers.copy()
    for name in ("content-encoding", "content-length", "transfer-encoding"):
        headers.pop(name, None)
    content, stream = (body, None) if isinstance(body, bytes) else (None, body)
    whole = httpx2.Response(
        answer.status_code, headers=headers, content=content, stream=stream, request=answer.request
    )
    whole.next_request = answer.next_request
    return whole


def _mended(event: re.Match[bytes]) -> bytes:
    return event[1] + mended(event[2])
