"""The bodies of HTTP answers: read with limits, or left to flow."""

import logging
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2

from pegboard.upstream.messages.messages import mended

__all__ = [
    "EndsQuietly",
    "MendedEvents",
    "is_event_stream",
    "set_read_limit",
    "start_of_body",
    "whole_body",
    "with_body",
]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_LARGEST_ERROR = 64 * 1024
_SECONDS_FOR_ERROR = 5.0
# Only a whole message on one line: part of one might look like another.
_MESSAGE = re.compile(rb'^(data: ?)(\{[^\r\n]*?"jsonrpc"[^\r\n]*)', re.MULTILINE)


class EndsQuietly(httpx2.AsyncByteStream):
    """A stream that ends where its connection breaks.

    The SDK opens such a stream anew for ever, but a broken one only twice in its life.
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
    """The events of an answer, with the messages in them as the SDK can read them."""

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
            # Whoever reads it refuses a line that is too long.
            if end or size > self._largest:
                yield _MESSAGE.sub(_mended, b"".join(line))
                line, size = [chunk[end:]] if end else [], len(chunk) - end
        yield _MESSAGE.sub(_mended, b"".join(line))

    async def aclose(self) -> None:
        """Close the connection."""
        await self._answer.aclose()


def _mended(event: re.Match[bytes]) -> bytes:
    return event[1] + mended(event[2])


def is_event_stream(answer: httpx2.Response) -> bool:
    """Tell whether an answer is a stream of events."""
    kind, _, _ = answer.headers.get("content-type", "").partition(";")
    return kind.strip().lower() == "text/event-stream"


def set_read_limit(request: httpx2.Request, seconds: float | None) -> None:
    """Let the answer that has begun be silent for so long, or as long as it likes."""
    request.extensions["timeout"]["read"] = seconds


async def whole_body(answer: httpx2.Response, *, limit: int) -> bytes | None:
    """Read the body of an answer; ``None`` if it is larger than the limit."""
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
    """Read as much of an error page as is worth it."""
    body = bytearray()
    try:
        with anyio.move_on_after(_SECONDS_FOR_ERROR):
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) >= _LARGEST_ERROR:
                    break
    except httpx2.HTTPError:
        # The status has said enough.
        logger.debug("error_body_cut: the answer of %s", answer.url.host)
    finally:
        await answer.aclose()
    return bytes(body[:_LARGEST_ERROR])


def with_body(answer: httpx2.Response, body: bytes | MendedEvents) -> httpx2.Response:
    """Return the answer with the body that was, or is, read from it."""
    headers = answer.headers.copy()
    for name in ("content-encoding", "content-length", "transfer-encoding"):
        headers.pop(name, None)
    content, stream = (body, None) if isinstance(body, bytes) else (None, body)
    whole = httpx2.Response(
        answer.status_code, headers=headers, content=content, stream=stream, request=answer.request
    )
    whole.next_request = answer.next_request
    return whole
