"""HttpRequest: one HTTP request with its headers, body limits and responses."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from mcp_types import INVALID_REQUEST
from starlette.types import Receive, Scope, Send

from pegboard.gateway.request import Face, RpcError
from pegboard.model.principal import ANONYMOUS, LOCAL, Principal
from pegboard.server.jsonrpc import encode, error_message
from pegboard.server.message_limits import BodyTooLargeError, RequestId

__all__ = [
    "EVENT_STREAM",
    "ClientGoneError",
    "Header",
    "HttpRequest",
    "Limits",
    "accepts",
    "is_json",
]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
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
    sessions: int = 10_000
    """The most sessions of the handshake era."""
    sessions_per_principal: int = 2000
    session_idle_seconds: float = 1800.0
    """How long a session lasts without a request or an open stream."""
    keep_alive_seconds: float = 75.0
    """How long an idle connection is kept; longer than load balancers keep theirs."""


Header = tuple[bytes, bytes]

EVENT_STREAM: list[Header] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]
"""The headers of an event stream."""


_UNAUTHENTICATED = Principal(subject="")
"""The principal of a request before its authentication; it has no rights."""


class ClientGoneError(Exception):
    """The client has disconnected before its response."""


class HttpRequest:
    """A request with its principal, and the face that its path shows."""

    __slots__ = ("face", "headers", "is_answered", "principal", "receive", "scope", "send")

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
    def account(self) -> tuple[str, str, str]:
        """Who is counted for the session limits: the caller, or its address if it is local."""
        is_local = self.principal is LOCAL or self.principal is ANONYMOUS
        return *self.caller, self.source if is_local else ""

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
        """
        length = self.headers.get("content-length", "0")
        if not (length.isdecimal() and int(length[:20]) <= at_most):
            raise BodyTooLargeError("Request body too large")
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientGoneError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > at_most:
                raise BodyTooLargeError("Request body too large")
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def respond(
        self, status: int, body: bytes = b"", *, kind: bytes = b"", headers: Iterable[Header] = ()
    ) -> None:
        """Send a whole response."""
        self.is_answered = True
        said = [(b"content-length", b"%d" % len(body)), *headers]
        if kind:
            said.append((b"content-type", kind))
        await self.send({"type": "http.response.start", "status": status, "headers": said})
        await self.send({"type": "http.response.body", "body": body})

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
        await self.respond_json(status, error_message(request_id, error), headers=headers)

    async def refuse_repeated(self, name: str) -> bool:
        """Refuse a request that has a header more than once, and return true; else return false."""
        if not self.has_twice(name.lower()):
            return False
        # A proxy before us may have checked another one than we would.
        await self.refuse(
            400, RpcError(INVALID_REQUEST, f"Invalid {name} header: it is sent once.")
        )
        return True


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
