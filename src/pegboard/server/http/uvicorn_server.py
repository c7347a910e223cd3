"""HttpServer: uvicorn with limits on headers, slow clients and the number of connections."""

import asyncio  # noqa: TID251 - uvicorn's transports are asyncio's
import re
import resource
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pegboard.errors import ConfigError
from pegboard.server.http.request import Limits

__all__ = ["HttpServer", "JoinedWrites", "listen_on", "within_descriptors"]

_HEAD = b"HTTP/1."
_LENGTH = b"\r\ncontent-length: "


_LOOK_EVERY = 1.0
_KEPT_BACK = 64
"""The least number of file descriptors that are kept from clients; else an eighth of all."""
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)
_TOO_MANY_CHUNKS = (
    b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)
_READ = 16_384
"""Bytes that are read at once: they are parsed at a stretch, and may be a thousand requests."""
_ACCEPTED = 64
"""Connections that the event loop accepts at a stretch."""
_BACKLOG = 2048
"""Connections that may wait until they are accepted."""
_MOST_HEADERS = 500
_SMALL_CHUNK = 200
"""Bytes that the chunks of the largest body have on average, at least."""
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


class JoinedWrites:
    """Holds the head of a response back until its body, so that both leave in one packet.

    uvicorn writes them one after the other: two system calls for every response, and a client
    that wakes twice. A head without a length begins a stream, and is sent at once.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send data, after what was held back; hold back a head with a known length."""
        if self._head:
            data = self._head + data
            self._head = b""
        elif data.startswith(_HEAD) and _LENGTH in data:
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send what was held back: a response may end without a body."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Close when everything is sent."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpServer(uvicorn.Server):
    """Serves an application until `end` is called; it handles no signals."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        end_within: int = 5,
        descriptors: int | None = None,
    ) -> None:
        allowed = _ConnectionLimits(limits, _descriptors() if descriptors is None else descriptors)
        protocol: Any = partial(_Connection, limits=limits, allowed=allowed)
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                ws="none",
                lifespan="off",
                loop="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=int(limits.keep_alive_seconds),
                timeout_graceful_shutdown=end_within,
                backlog=_ACCEPTED,
            )
        )
        self._is_ending = anyio.Event()

    def end(self, *, at_once: bool = False) -> None:
        """Accept no more connections, and let `serve` return when the open ones are done."""
        self.should_exit = True
        self.force_exit: bool = self.force_exit or at_once
        self._is_ending.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve; more connections may wait than are accepted at a stretch."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)

    async def main_loop(self) -> None:
        """Wait for the end, and update the ``Date`` header meanwhile."""
        while not self.should_exit:
            await self.on_tick(0)
            with anyio.move_on_after(_LOOK_EVERY):
                await self._is_ending.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals alone: uvicorn would raise them again at the end."""
        yield

    async def close_slow_connections(self) -> None:
        """Close connections whose clients neither send nor read, for as long as this runs."""
        while True:
            await anyio.sleep(_LOOK_EVERY)
            now = anyio.current_time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, _Connection) and connection.is_stuck(now):
                    connection.transport.abort()


def listen_on(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; port 0 takes any free port.

    Raises:
        ConfigError: when the address cannot be bound.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise _cannot_listen(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from error
    return listener


def within_descriptors(limits: Limits) -> Limits:
    """Return limits with as many connections as the file descriptors of this process allow."""
    served = _ConnectionLimits(limits, _descriptors()).served
    return msgspec.structs.replace(limits, connections=served)


def _descriptors() -> int:
    """Return how many file descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _cannot_listen(host: str, port: int, error: OSError | UnicodeError) -> ConfigError:
    # Not a host name: a part of it is empty, or longer than 63 letters.
    why = "this is not a host name" if isinstance(error, UnicodeError) else error.strerror
    return ConfigError(
        f"Cannot listen on {host}:{port}: {why or error}. "
        "Choose another with `--host` and `--port`."
    )


class _ConnectionLimits:
    """How many connections are allowed: servers, stores and files need descriptors, too."""

    def __init__(self, limits: Limits, descriptors: int) -> None:
        self.kept = max(1, descriptors - max(_KEPT_BACK, descriptors // 8))
        """Further connections are closed at once."""
        self.served = min(limits.connections, self.kept * 7 // 8)
        """Further connections get the response 503."""


class _Connection(HttpToolsProtocol):
    """Limits the size of the headers, and the time that a client may take."""

    def __init__(
        self, *args: Any, limits: Limits, allowed: _ConnectionLimits, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._allowed = allowed
        self._head: int | None = 0
        """Bytes of the headers or trailers being read; ``None`` while none are read."""
        self._is_in_body = False
        self._chunks = 0
        self._reading_since: float = self.loop.time()
        """Since when a request is being read; infinity if none is."""
        self._unread = 0
        """Bytes that waited for the client at the last check."""
        self._unread_since: float = self._reading_since
        """Since when the client has read none of them."""

    def connection_made(self, transport: Any) -> None:
        transport.max_size = _READ
        joined: Any = JoinedWrites(transport)
        super().connection_made(joined)
        if len(self.connections) > self._allowed.kept:
            self.transport.abort()
        elif len(self.connections) > self._allowed.served:
            # For this connection only: uvicorn would also refuse the older ones.
            self.limit_concurrency = 0

    def on_response_complete(self) -> None:
        joined: Any = self.transport
        joined.flush()
        super().on_response_complete()
        if self.pipeline:
            # uvicorn reads on after each response, and so many requests more than it answers.
            self.flow.pause_reading()

    def is_stuck(self, now: float) -> bool:
        """Tell whether the client does not finish its request, or does not read its response.

        Each check compares with the one before, so it has to be called again and again.
        """
        unread = self.transport.get_write_buffer_size()
        if not 0 < self._unread <= unread:
            self._unread_since = now
        self._unread = unread
        return (
            self._reading_since < now - self._limits.request_seconds
            or self._unread_since < now - self._limits.unread_seconds
        )

    def data_received(self, data: bytes) -> None:
        before = self._head
        super().data_received(data if self._is_in_body else _without_upgrade(data))
        if before is not None and self._head is not None:
            self._head += len(data)
            if self._head > self._limits.headers and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._head = 0
        self._chunks = 0
        self._reading_since = self.loop.time()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer would be added to the headers after a proxy before us has checked them.
        if not self._is_in_body and len(self.headers) <= _MOST_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head = None
        self._is_in_body = True
        if len(self.headers) > _MOST_HEADERS or (
            len(self.url) + sum(len(it) + len(value) for it, value in self.headers)
            > self._limits.headers
        ):
            self.app = _headers_too_large
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self._head = 0  # behind the last chunk there may be trailers without an end
        self._chunks += 1
        too_many = self._chunks > self._limits.body // _SMALL_CHUNK + 1
        if too_many and not self.transport.is_closing():
            self.transport.write(_TOO_MANY_CHUNKS)
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        self._head = None
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head = None
        self._is_in_body = False
        self._reading_since = float("inf")
        super().on_message_complete()


async def _headers_too_large(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse headers that came in one packet, which the parser read before the size check."""
    del scope, receive
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 431, "headers": headers})
    await send({"type": "http.response.body"})


def _without_upgrade(data: bytes) -> bytes:
    """Return the beginning of a request without the offer to upgrade the protocol.

    The server does not upgrade, but the parser would, and lose the body. Java clients offer HTTP/2
    like this.
    """
    if b"pgrade:" not in data and b"PGRADE:" not in data:
        return data
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-upgrade:", head) + end + rest
