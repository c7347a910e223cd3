"""JoinedWrites: a transport that sends the head of an answer together with its body."""

import asyncio  # noqa: TID251 - uvicorn's transports are asyncio's
from typing import Any

__all__ = ["JoinedWrites"]

_HEAD = b"HTTP/1."
_LENGTH = b"\r\ncontent-length: "


class JoinedWrites:
    """Keeps a head back until the body comes, so that both leave in one packet.

    uvicorn writes them one after the other: two calls of the system for every answer, and a client
    that is woken twice. A head without a length begins a stream, and leaves at once.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send it, with what was kept back before it; a head of known length is kept back."""
        if self._head:
            data = self._head + data
            self._head = b""
        elif data.startswith(_HEAD) and _LENGTH in data:
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send what was kept back: an answer may end without a body."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Close when everything is sent."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
