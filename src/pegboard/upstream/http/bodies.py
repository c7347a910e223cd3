"""The bodies of HTTP answers: read with limits, or left to flow."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2

__all__ = [
    "EndsQuietly",
    "is_event_stream",
    "lift_read_limit",
    "start_of_body",
    "whole_body",
    "with_body",
]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_LARGEST_ERROR = 64 * 1024
_SECONDS_FOR_ERROR = 5.0


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
            logger.debug("stream_broke", extra={"reason": type(error).__name__})

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


def is_event_stream(answer: httpx2.Response) -> bool:
    """Tell whether an answer is a stream of events."""
    kind, _, _ = answer.headers.get("content-type", "").partition(";")
    return kind.strip().lower() == "text/event-stream"


def lift_read_limit(request: httpx2.Request) -> None:
    """Let the answer that has begun be silent for as long as it likes; the kernel watches."""
    request.extensions["timeout"]["read"] = None


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
        logger.debug("error_body_cut")  # the status has said enough
    finally:
        await answer.aclose()
    return bytes(body[:_LARGEST_ERROR])


def with_body(answer: httpx2.Response, body: bytes) -> httpx2.Response:
    """Return the answer with the body that was read from it."""
    headers = answer.headers.copy()
    for name in ("content-encoding", "content-length", "transfer-encoding"):
        headers.pop(name, None)
    whole = httpx2.Response(
        answer.status_code, headers=headers, content=body, request=answer.request
    )
    whole.next_request = answer.next_request
    return whole
