"""HttpRequest: one HTTP request with its headers, body limits and responses."""

import math
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from anyio.lowlevel import checkpoint
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.types import Message, Receive, Scope, Send

from pegboard.errors import ConfigError, LimitReachedError
from pegboard.gateway.errors import rpc_error_of
from pegboard.gateway.request import Face, RpcError
from pegboard.model.principal import ANONYMOUS, LOCAL, Principal
from pegboard.server.jsonrpc import encode, error_message
from pegboard.server.message_limits import BodyTooLargeError, RequestId

if TYPE_CHECKING:
    from pegboard.policies.fair_share import FairShare

__all__ = [
    "EVENT_STREAM",
    "LARGE",
    "ClientGoneError",
    "Header",
    "HttpRequest",
    "Limits",
    "accepts",
    "is_json",
    "retry_after",
    "too_many_requests",
    "too_much_unread",
]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of HTTP requests and sessions: sizes in bytes, times in seconds."""

    body: int = 4 * 1024 * 1024
    """The largest body of one request."""
    headers: int = 64 * 1024
    """The largest headers of one request, together with its URL."""
    request_seconds: float = 30.0
    """How long a request may take to arrive, from the opening of its connection or its begin."""
    unread_seconds: float = 30.0
    """How long a client may read nothing of what was sent to it."""
    connections: int = 4096
    """The most connections, and requests under way; of these one key has at most half."""
    sessions: int = 10_000
    """The most sessions of the handshake era; the largest holder's oldest idle one ends first."""
    sessions_per_principal: int = 2000
    """The most sessions of one key; without keys, of one address."""
    unread_bytes: int = 16 * 1024 * 1024
    """How many bytes may wait for a client that does not read its event stream."""
    unread_total: int = 256 * 1024 * 1024
    """How many bytes of large responses and events may wait for all clients; one key half."""
    session_idle_seconds: float = 1800.0
    """How long a session lasts without a request or an open stream."""
    keep_alive_seconds: float = 75.0
    """How long an idle connection is kept; longer than load balancers keep theirs."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            if getattr(self, field) <= 0:
                raise ConfigError(f"`limits.{field}` of the gateway must be positive.")


Header = tuple[bytes, bytes]

EVENT_STREAM: list[Header] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]
"""The headers of an event stream."""


_PIECE = 256 * 1024
"""The bytes of a response that are sent at once."""
_UNAUTHENTICATED = Principal(subject="")
"""The principal of a request before its authentication; it has no rights."""


LARGE = 65_536
"""Bytes of a body beyond which the limits of its sender are checked before it is read."""


class ClientGoneError(Exception):
    """The client has disconnected before its response."""


def retry_after(seconds: float) -> Header:
    """Return the header that tells when to try again."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))


class HttpRequest:
    """A request with its principal, and the face that its path shows."""

    __slots__ = (
        *("face", "headers", "is_answered", "is_refused", "on_large", "principal"),
        *("receive", "scope", "send", "unread"),
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope: Scope = scope
        self.receive: Receive = receive
        self.send: Send = send
        self.headers: dict[str, str] = {
            name.decode("latin-1"): value.strip(b" \t").decode("latin-1")
            for name, value in scope["headers"]
        }
        """By lower-case name; of several with one name, the last."""
        self.principal: Principal = _UNAUTHENTICATED
        self.face: Face = Face()
        self.is_answered: bool = False
        """Whether this object has begun to send a response."""
        self.is_refused: bool = False
        """Whether the response is an error that this object has sent."""
        self.on_large: Callable[[Principal], None] | None = None
        """Called before the rest of a large body is read; it may raise."""
        self.unread: FairShare | None = None
        """The bytes that wait for all clients."""

    @property
    def method(self) -> str:
        """The HTTP method, in capitals."""
        return self.scope["method"]

    def has_twice(self, name: str) -> bool:
        """Tell whether a header came more than once."""
        if len(self.headers) == len(self.scope["headers"]):
            return False
        wanted = name.encode("latin-1")
        return sum(it == wanted for it, _ in self.scope["headers"]) > 1

    @property
    def caller(self) -> tuple[str, str]:
        """The tenant and subject of the caller, who alone may use what the request opens."""
        return self.principal.tenant, self.principal.subject

    @property
    def is_local(self) -> bool:
        """Whether the caller needed no credential; then all callers are one principal."""
        return self.principal is LOCAL or self.principal is ANONYMOUS

    @property
    def account(self) -> tuple[str, str, str]:
        """Who is counted for the session limits: the caller, or its address if it is local."""
        return *self.caller, self.source if self.is_local else ""

    @property
    def source(self) -> str:
        """The address of the sender, as far as this machine knows."""
        client = self.scope.get("client")
        return "" if client is None else str(client[0])

    async def body(self, *, at_most: int) -> bytes:
        """Return the whole body; `HttpServer` limits the time this takes.

        Raises:
            BodyTooLargeError: when the body has more bytes than ``at_most``.
            ClientGoneError: when the client disconnects before it has sent all.
            RateLimitedError: when the body is large, and its sender has to wait.
        """
        length = self.headers.get("content-length", "0")
        if not (length.isdecimal() and int(length[:20]) <= at_most):
            raise BodyTooLargeError("Request body too large")
        parts: list[bytes] = []
        size = 0
        waits = self.on_large
        if waits is not None and int(length) > LARGE:
            waits(self.principal)
            waits = None
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientGoneError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > at_most:
                raise BodyTooLargeError("Request body too large")
            if waits is not None and size > LARGE:
                waits(self.principal)
                waits = None
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def limited_receive(self, at_most: int) -> Receive:
        """Return a `receive` that refuses a body with more bytes.

        Raises:
            BodyTooLargeError: when it is called, and the body is too large.
        """
        size = 0

        async def receive() -> Message:
            nonlocal size
            message = await self.receive()
            size += len(message.get("body", b""))
            if size > at_most:
                raise BodyTooLargeError("Request body too large")
            return message

        return receive

    def may_wait(self, size: int) -> bool:
        """Tell whether so many bytes may wait for the client: they need memory until it reads."""
        unread = self.unread
        if unread is None:
            return True
        return unread.fits(size) if self.is_local else unread.admits(self.caller, size)

    @contextmanager
    def waiting(self, size: int) -> Generator[None]:
        """Count bytes that wait for the client."""
        holder, unread = self.caller, self.unread
        if unread is not None:
            unread.add(holder, size)
        try:
            yield
        finally:
            if unread is not None:
                unread.remove(holder, size)

    async def respond(
        self, status: int, body: bytes = b"", *, kind: bytes = b"", headers: Iterable[Header] = ()
    ) -> None:
        """Send a whole response."""
        self.is_answered = True
        said = [(b"content-length", b"%d" % len(body)), *headers]
        if kind:
            said.append((b"content-type", kind))
        await self.send({"type": "http.response.start", "status": status, "headers": said})
        await self.send_body(body, is_last=True)

    async def send_body(self, body: bytes, *, is_last: bool) -> None:
        """Send a part of the body; a large one in pieces, so that other requests run in between."""
        start = 0
        while len(body) - start > _PIECE:
            piece = body[start : start + _PIECE]
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})
            # The socket takes much at once from a client that reads fast.
            await checkpoint()
            start += _PIECE
        rest = body[start:] if start else body
        await self.send({"type": "http.response.body", "body": rest, "more_body": not is_last})

    async def respond_json(
        self, status: int, value: Any, *, headers: Iterable[Header] = ()
    ) -> None:
        """Send a value as JSON, or bytes that are JSON already."""
        body = value if isinstance(value, bytes) else encode(value)
        await self.respond(status, body, kind=b"application/json", headers=headers)

    async def refuse(
        self,
        status: int,
        error: RpcError,
        *,
        request_id: RequestId | None = None,
        headers: Iterable[Header] = (),
    ) -> None:
        """Send a JSON-RPC error."""
        self.is_refused = True
        await self.respond_json(status, error_message(request_id, error), headers=headers)

    async def refuse_beyond(
        self, error: LimitReachedError, *, request_id: RequestId | None = None
    ) -> None:
        """Send the error of a request that is beyond a limit of its caller."""
        said = rpc_error_of(error, self.principal)
        headers = [retry_after(error.retry_after or 1)]
        await self.refuse(429, said, request_id=request_id, headers=headers)

    async def refuse_repeated(self, name: str) -> bool:
        """Refuse a request that has a header more than once, and return true; else return false."""
        if not self.has_twice(name.lower()):
            return False
        # A proxy before us may have checked another one than we would.
        await self.refuse(
            400, RpcError(INVALID_REQUEST, f"Invalid {name} header: it is sent once.")
        )
        return True


def too_much_unread(size: int) -> RpcError:
    """Return the error instead of a response that would wait for a client that does not read."""
    words = (
        f"The response has {size:,} bytes, and too many of your responses wait until you read them "
        "(`gateway.limits.unread_total`). The request has run: look before you repeat it."
    )
    return RpcError(INTERNAL_ERROR, words)


def too_many_requests() -> LimitReachedError:
    """Return the error of a caller whose requests take its share of the gateway."""
    setting = "gateway.limits.connections"
    words = f"Too many of your requests are under way (`{setting}`). Wait for some of them to end."
    return LimitReachedError(words, setting=setting, retry_after=1.0)


LONGEST_CACHED = 300


def accepts(header: str) -> tuple[bool, bool]:
    """Tell whether an ``Accept`` header allows JSON, and whether it allows event streams."""
    return _accepts(header) if len(header) <= LONGEST_CACHED else _accepts.__wrapped__(header)


def is_json(header: str) -> bool:
    """Tell whether a ``Content-Type`` header is that of JSON."""
    return header == "application/json" or _kind_of(header) == "application/json"


@lru_cache(256)
def _accepts(header: str) -> tuple[bool, bool]:
    kinds = {_kind_of(part) for part in header.split(",")}
    anything = "*/*" in kinds
    return (
        anything or not kinds.isdisjoint({"application/json", "application/*"}),
        anything or not kinds.isdisjoint({"text/event-stream", "text/*"}),
    )


def _kind_of(part: str) -> str:
    return part.split(";")[0].strip().lower()
