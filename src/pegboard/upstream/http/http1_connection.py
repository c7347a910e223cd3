"""A small HTTP/1.1 client and its connection pool, for the fast path.

The general client costs several times as much as one exchange, because it can do everything. This
one has no TLS, no proxies and no redirects; requests that need those use the general client.
"""

import asyncio  # noqa: TID251 - transports of the event loop are the matter of this file
from collections import defaultdict
from collections.abc import Callable
from time import monotonic
from typing import TypeAlias

import httptools

from pegboard.upstream.http.shared_connections import KEPT_IDLE, MOST_IDLE, keep_alive_options

__all__ = [
    "Address",
    "TooLargeError",
    "WireClient",
    "WireConnection",
    "WireError",
    "WirePool",
    "WireResponse",
]

Address: TypeAlias = tuple[str, int]

_MUCH = 256 * 1024
"""The most bytes of a stream that may wait to be read before reading is paused."""
_A_MOMENT = 1.0
_LITTLE = 64 * 1024
"""How many seconds, and how many bytes, to wait for the end of a stream after its result."""
_LONGEST_HEAD = 256 * 1024
"""The most bytes of the headers of a response, and of the trailers after its chunks."""


class WireError(Exception):
    """The exchange failed; ``sent`` says whether the server may have received the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class TooLargeError(WireError):
    """The response is larger than the limit."""


class WireResponse:
    """The response to one request."""

    def __init__(self, connection: "WireConnection", largest: int) -> None:
        self.status: int = 0
        self.headers: dict[str, str] = {}
        """With names in lower case."""
        self.kind: str = ""
        """The content type, in lower case and without parameters."""
        self.is_plain: bool = False
        """True when the body is read as a whole; streams and errors are read in parts."""
        self.is_whole: bool = False
        self._connection = connection
        self._largest = largest
        self._chunks: list[bytes] = []
        self._size = 0

    def begin(self, status: int) -> None:
        """Note the status and the content type, once all headers are there."""
        self.status = status
        self.kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.is_plain = 200 <= status < 300 and self.kind != "text/event-stream"

    def take(self) -> bytes:
        """Return the part of the body that has come and was not taken yet."""
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        self._connection.go_on()
        return body

    async def more(self) -> bytes:
        """Return the next part of the body; empty at its end.

        Raises:
            WireError: when the connection breaks before the end.
        """
        while not self._chunks and not self.is_whole:
            await self._connection.news()
        return self.take()

    def leave(self) -> None:
        """Read no more; the connection is kept if the body ends soon."""
        if self.is_whole:
            self._connection.give_back()
        else:
            self._connection.linger()

    def close(self) -> None:
        """Close the connection, which cancels the request at the server."""
        self._connection.close()

    def add(self, chunk: bytes) -> int:
        """Add a part of the body; return how many bytes wait to be taken."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self.is_plain and self._size > self._largest:
            raise TooLargeError("The response is too large", sent=True)
        return self._size


class WireConnection(asyncio.Protocol):
    """One connection; the callbacks of the parser fill in the response."""

    def __init__(
        self,
        address: Address,
        *,
        keep: Callable[["WireConnection"], None],
        forget: Callable[["WireConnection"], None],
    ) -> None:
        self.address: Address = address
        self.idle_since: float = 0.0
        """When it was last given back."""
        self._keep = keep
        self._forget = forget
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: WireResponse | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: WireError | None = None
        self._is_paused = False
        self._began = False
        self._head: int | None = None
        """Bytes of the headers or trailers being read; ``None`` while none are read."""
        self._is_kept_alive = False
        self._has_surplus = False
        self._lingering: asyncio.TimerHandle | None = None
        self._left = 0
        self._in_use: set[WireConnection] = set()

    @property
    def is_open(self) -> bool:
        """True until either side has closed it."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(
        self, request: bytes, answer: WireResponse, in_use: "set[WireConnection]"
    ) -> None:
        """Send a request and wait until its response is whole, or its stream begins.

        Raises:
            WireError: when there is no response.
        """
        assert self._transport is not None
        self._in_use = in_use
        self._answer = answer
        self._began = False
        self._transport.write(request)
        await self.news()

    async def news(self) -> None:
        """Wait for more of the response.

        Raises:
            WireError: when there is no more.
        """
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._error is not None:
            raise self._error

    def give_back(self) -> None:
        """Return the connection to the pool, if it can be used again."""
        self._answer = None
        self._in_use.discard(self)
        self._lingering = None
        if self.is_open and self._is_kept_alive and not self._has_surplus:
            self._keep(self)
        else:
            self.close()

    def linger(self) -> None:
        """Wait a moment, in the background, for the end of a body that is no longer read."""
        self._left = 0
        self._lingering = asyncio.get_running_loop().call_later(_A_MOMENT, self.close)
        self.go_on()

    def go_on(self) -> None:
        """Resume reading."""
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection at once; a waiting exchange fails."""
        self._forget(self)
        self._in_use.discard(self)
        if self._lingering is not None:
            self._lingering.cancel()
        self._fail("The connection was closed")
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the socket."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("socket")
        for option in keep_alive_options():
            peer.setsockopt(*option)

    def data_received(self, data: bytes) -> None:
        """Read what the server sent."""
        if self._answer is None:
            # There is no request, and this is not the response to the next one.
            self.close()
            return
        before = self._head
        try:
            self._parser.feed_data(data)
            if before is not None and self._head is not None:
                self._head += len(data)
                if self._head > _LONGEST_HEAD:
                    self._break("The headers of the response never end")
        except httptools.HttpParserUpgrade:
            self._break("The server wants to switch to another protocol")
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self._error = cause if isinstance(cause, WireError) else None
            self._break("The response cannot be read")
        except httptools.HttpParserError:
            self._break("The response is not HTTP")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting exchange, unless this is the end of the response."""
        self._forget(self)
        answer = self._answer
        if answer is not None and self._began and _ends_with_connection(answer) and exc is None:
            answer.is_whole = True
            self._wake()
            return
        told = "in the middle of its response" if self._began else "without sending a response"
        self._fail(f"Server disconnected {told}")

    def on_message_begin(self) -> None:
        """Expect headers; called by the parser."""
        self._head = 0
        if self._answer is not None and self._answer.is_whole:
            # A second response to one request: not part of the first, nor for the next request.
            self._answer = WireResponse(self, _MUCH)
            self._has_surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header; called by the parser, for trailers too."""
        assert self._answer is not None
        if self._began:
            return
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Begin a response; called by the parser."""
        self._head = None
        answer = self._answer
        assert answer is not None
        status = self._parser.get_status_code()
        if status < 200:
            # An interim response; the final one is still to come.
            answer.headers.clear()
            return
        self._began = True
        answer.begin(status)
        if not answer.is_plain:
            self._wake()

    def on_chunk_header(self) -> None:
        """Expect trailers, which may come after any chunk; called by the parser."""
        self._head = 0

    def on_body(self, body: bytes) -> None:
        """Add to the body; called by the parser."""
        self._head = None
        answer = self._answer
        assert answer is not None
        if self._lingering is not None:
            self._left += len(body)
            if self._left > _LITTLE:
                self.close()
            return
        waiting = answer.add(body)
        if answer.is_plain:
            return
        self._wake()
        if waiting > _MUCH and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """End a response; called by the parser."""
        self._head = None
        if self._answer is not None and self._began:
            # The parser knows this only now.
            self._is_kept_alive = self._parser.should_keep_alive()
            self._answer.is_whole = True
            if self._lingering is not None:
                self._lingering.cancel()
                self.give_back()
            self._wake()

    def _break(self, reason: str) -> None:
        self._error = self._error or WireError(reason, sent=True)
        self.close()

    def _fail(self, reason: str) -> None:
        self._error = self._error or WireError(reason, sent=True)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _ends_with_connection(answer: WireResponse) -> bool:
    return "content-length" not in answer.headers and "transfer-encoding" not in answer.headers


class WirePool:
    """Connections to any number of addresses; each is used by one exchange at a time."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[WireConnection]] = defaultdict(list)
        self._all: set[WireConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def open(self, address: Address, patience: float) -> WireConnection:
        """Return a connection to an address, for one exchange.

        Raises:
            WireError: when the server takes no connection.
        """
        return self._take(address) or await self._connect(address, patience)

    def close(self) -> None:
        """Close all connections; later requests fail."""
        self._is_closed = True
        for connection in list(self._all):
            connection.close()
        if self._sweep is not None:
            self._sweep.cancel()

    def keep(self, connection: WireConnection) -> None:
        """Keep a connection for the next exchange, for a while."""
        idle = self._idle[connection.address]
        if self._is_closed or len(idle) >= MOST_IDLE:
            connection.close()
            return
        connection.idle_since = monotonic()
        idle.append(connection)
        if self._sweep is None:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(KEPT_IDLE, self._close_the_old)

    def forget(self, connection: WireConnection) -> None:
        """Remove a connection that is gone."""
        self._all.discard(connection)
        idle = self._idle[connection.address]
        if connection in idle:
            idle.remove(connection)

    def _take(self, address: Address) -> WireConnection | None:
        idle = self._idle[address]
        while idle:
            # The one used last, so that the others can expire.
            connection = idle.pop()
            if monotonic() - connection.idle_since < KEPT_IDLE and connection.is_open:
                return connection
            connection.close()
        return None

    def _close_the_old(self) -> None:
        self._sweep = None
        limit = monotonic() - KEPT_IDLE
        for idle in list(self._idle.values()):
            for connection in list(idle):
                if connection.idle_since <= limit:
                    connection.close()
        if any(self._idle.values()):
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(KEPT_IDLE, self._close_the_old)

    async def _connect(self, address: Address, patience: float) -> WireConnection:
        if self._is_closed:
            raise WireError("The pool of connections is closed", sent=False)
        try:
            async with asyncio.timeout(patience):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: WireConnection(address, keep=self.keep, forget=self.forget),
                    *address,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            reason = f"The server took no connection within {patience:g} s"
            raise WireError(reason, sent=False) from None
        except (OSError, UnicodeError) as error:
            raise WireError("All connection attempts failed", sent=False) from error
        self._all.add(connection)
        return connection


class WireClient:
    """The exchanges of one session with one address; closing it ends all of them."""

    def __init__(self, pool: WirePool, address: Address, *, patience: float, largest: int) -> None:
        self._pool = pool
        self._address = address
        self._patience = patience
        self._largest = largest
        self._in_use: set[WireConnection] = set()
        self._is_closed = False

    async def send(self, request: bytes) -> WireResponse:
        """Send a request and return its response: whole, or with a body that is still coming.

        The caller has to call ``leave`` or ``close`` on a response that is not plain.

        Raises:
            WireError: when there is no response.
        """
        connection = await self._pool.open(self._address, self._patience)
        if self._is_closed:
            self._pool.keep(connection)
            raise WireError("The connection was closed", sent=False)
        self._in_use.add(connection)
        answer = WireResponse(connection, self._largest)
        try:
            await connection.exchange(request, answer, self._in_use)
        except BaseException:
            connection.close()
            raise
        if answer.is_whole and answer.is_plain:
            # For other responses, the caller returns the connection with `leave`.
            connection.give_back()
        return answer

    def close(self) -> None:
        """End all running exchanges."""
        self._is_closed = True
        for connection in list(self._in_use):
            connection.close()
