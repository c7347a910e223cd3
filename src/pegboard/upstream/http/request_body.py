"""RequestBody: the bytes of a request to a server, and how they are written."""

import sys

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from aiohttp.http import StreamWriter
from aiohttp.payload import Payload

__all__ = ["REQUEST_CLASS", "RequestBody"]

_PIECE = 256 * 1024
_SMALL_BODY = 32 * 1024
"""Smaller than the buffer of a connection, so that writing it never waits."""


class RequestBody(Payload):
    """The bytes of a request, which know whether all of them were handed to the connection."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, content_type="application/json")
        self._data = data
        self.is_written: bool = False

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self._data)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the bytes as text."""
        return self._data.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all bytes to the connection."""
        data = self._data
        # In pieces, so that a large request does not stop all other calls.
        for start in range(0, len(data), _PIECE):
            try:
                await writer.write(data[start : start + _PIECE])
            except aiohttp.ClientConnectionResetError:
                # The connection was closed before this piece, so the request is not complete.
                raise
            except BaseException:
                # Cancelled or broken while the connection was busy: all of it may be on its way.
                self.is_written = start + _PIECE >= len(data)
                raise
        self.is_written = True

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        """Write all bytes to the connection; the length is known."""
        await self.write(writer)


class _PromptRequest(aiohttp.ClientRequest):
    """Writes a small request at once, where the library starts a task for each body."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        body, protocol = self.body, conn.protocol
        assert protocol is not None
        if not isinstance(body, RequestBody) or body.size > _SMALL_BODY:
            return await super().send(conn)
        if self.proxy is not None or protocol.writing_paused:
            return await super().send(conn)
        writer = StreamWriter(protocol, self.loop)
        await writer.write_headers(f"{self.method} {self.url.raw_path_qs} HTTP/1.1", self.headers)
        await body.write(writer)
        await writer.write_eof()
        protocol.start_timeout()
        self.response = aiohttp.ClientResponse(
            self.method,
            self.original_url,
            writer=None,
            continue100=None,
            timer=self._timer,
            request_info=self.request_info,
            traces=[],
            loop=self.loop,
            session=self._session,
            stream_writer=writer,
        )
        return self.response


# From Python 3.12 on the library writes at once by itself, and its inner names are not used.
REQUEST_CLASS: type[aiohttp.ClientRequest] = (
    _PromptRequest if sys.version_info < (3, 12) else aiohttp.ClientRequest
)
