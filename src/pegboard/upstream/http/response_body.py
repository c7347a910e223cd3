"""Read the body of a response in pieces, however the server cut it."""

import logging
from collections.abc import AsyncGenerator, Mapping

import aiohttp
import anyio
import msgspec

from pegboard.upstream.messages.response_limits import Pace

__all__ = ["Refusal", "chunks_of", "refusal_in"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_LARGEST_ERROR = 64 * 1024
_SECONDS_FOR_ERROR = 5.0
_CHUNKS_PER_UNIT = 8
"""How many chunks take the time of a notification."""


class Refusal(msgspec.Struct, frozen=True):
    """A response with an error status, of which the beginning was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    authorization: str = ""
    """The credentials that were refused, for redaction."""


async def chunks_of(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Yield a body as it comes, and read no more for a while if its chunks are very many.

    A chunk may have a single byte. To take all that have come at once, as the library offers, would
    parse hundreds of thousands of them while all other calls wait.
    """
    pace = Pace()
    async for piece, _ in response.content.iter_chunks():
        yield piece
        if pause := pace.spend(1 / _CHUNKS_PER_UNIT):
            await anyio.sleep(pause)


async def refusal_in(response: aiohttp.ClientResponse) -> Refusal:
    """Read the beginning of a response with an error status, and close it."""
    body = bytearray()
    try:
        with anyio.move_on_after(_SECONDS_FOR_ERROR):
            async for piece in chunks_of(response):
                body += piece
                if len(body) >= _LARGEST_ERROR:
                    break
    except (aiohttp.ClientError, OSError):
        # The status says enough.
        logger.debug("error_body_cut: the answer of %s", response.url.host)
    finally:
        response.close()
    sent = response.request_info.headers.get("authorization", "")
    return Refusal(response.status, response.headers, bytes(body[:_LARGEST_ERROR]), sent)
