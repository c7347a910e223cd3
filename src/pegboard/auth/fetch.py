"""Fetch a small document of an issuer: its metadata, its keys."""

import urllib.request
from collections.abc import Awaitable, Callable
from http.client import HTTPMessage
from typing import IO
from urllib.error import HTTPError

import anyio
import anyio.to_thread

from pegboard.auth.settings import is_safe_address

__all__ = ["Fetch", "fetch_document"]

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns what is at an address; raises `OSError` when that cannot be had."""

SECONDS = 5.0
MOST_BYTES = 512 * 1024


async def fetch_document(url: str) -> bytes:
    """Return what is at an address, within five seconds and half a megabyte; no detours.

    Raises:
        OSError: when it cannot be had.
    """
    with anyio.fail_after(SECONDS):
        return await anyio.to_thread.run_sync(_fetch, url, abandon_on_cancel=True)


def _fetch(url: str) -> bytes:
    if not is_safe_address(url):
        raise OSError(f"{url!r} is not an `https://` address.")
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked above
    try:
        with urllib.request.build_opener(_NoDetour).open(request, timeout=SECONDS) as answer:
            body: bytes = answer.read(MOST_BYTES + 1)
    except HTTPError as error:
        # It holds the connection.
        error.close()
        raise OSError(f"{url!r} answers {error.code}.") from None
    if len(body) > MOST_BYTES:
        raise OSError(f"What is at {url!r} is larger than {MOST_BYTES} bytes.")
    return body


class _NoDetour(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow nobody anywhere: the address was checked, the next one was not."""
