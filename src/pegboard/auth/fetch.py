"""Fetch a small document of an issuer: its metadata, its keys."""

import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPMessage, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket
from ssl import create_default_context
from typing import IO, Any
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
    opened: list[socket] = []
    try:
        with anyio.fail_after(SECONDS):
            return await anyio.to_thread.run_sync(_fetch, url, opened, abandon_on_cancel=True)
    except TimeoutError:
        raise TimeoutError(f"{url!r} did not answer within {SECONDS:g} s") from None
    finally:
        # Whoever sends a byte now and then would keep the thread reading for ever.
        for it in opened:
            with suppress(OSError):
                it.shutdown(SHUT_RDWR)


def _fetch(url: str, opened: list[socket]) -> bytes:
    if not is_safe_address(url):
        raise OSError(f"{url!r} is not an `https://` address.")
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked above
    try:
        opener = urllib.request.build_opener(_NoDetour, _Plain(opened), _Secure(opened))
        with opener.open(request, timeout=SECONDS) as answer:
            body: bytes = answer.read(MOST_BYTES + 1)
    except HTTPError as error:
        # It holds the connection.
        error.close()
        raise OSError(f"{url!r} answers {error.code}.") from None
    if len(body) > MOST_BYTES:
        raise OSError(f"What is at {url!r} is larger than {MOST_BYTES} bytes.")
    return body


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, opened: list[socket]) -> None:
        super().__init__()
        self._opened = opened

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_watched, HTTPConnection, self._opened), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, opened: list[socket]) -> None:
        super().__init__()
        self._opened = opened

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        make = partial(_watched, HTTPSConnection, self._opened)
        return self.do_open(make, req, context=create_default_context())


def _watched(
    kind: Callable[..., HTTPConnection], opened: list[socket], host: str, /, **options: Any
) -> HTTPConnection:
    """Return a connection that tells which socket it opens."""
    connection = kind(host, **options)
    connect = connection.connect

    def connect_and_tell() -> None:
        connect()
        opened.append(connection.sock)

    connection.connect = connect_and_tell
    return connection


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
