"""HttpRequest: one request as it comes in, and how it is answered."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope, Send

from pegboard.gateway.request import Face, RpcError
from pegboard.model.principal import LOCAL, Principal
from pegboard.server.jsonrpc import BodyTooLargeError, RequestId, encode, error_message

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
    """Sizes in bytes, times in seconds."""

    body: int = 4 * 1024 * 1024
    """Of one request."""
    headers: int = 64 * 1024
    """Of one request, with its address."""
    request_seconds: float = 30.0
    """Within which a request must have come, from when its connection was opened or it began."""
    unread_seconds: float = 30.0
    """Within which a client must have taken something of what was sent to it."""
    connections: int = 4096
    sessions: int = 10_000
    """Of the handshake era, together."""
    sessions_per_principal: int = 2000
    session_idle_seconds: float = 1800.0
    """A session without a request or an open stream ends after so many seconds."""
    keep_alive_seconds: float = 75.0
    """A connection between two requests is kept so long; longer than load balancers do."""


Header = tuple[bytes, bytes]

EVENT_STREAM: list[Header] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]
"""The headers of an answer that comes piece by piece."""


_NOBODY = Principal(subject="")
"""Who sends a request as long as nobody has asked: somebody who may do nothing."""


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""


class HttpRequest:
    """A request, the client it comes from, and what this client sees at this address."""

    __slots__ = ("face", "headers", "is_answered", "principal", "receive", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope: Scope = scope
        self.receive: Receive = receive
        self.send: Send = send
        self.headers: dict[str, str] = {
            name.decode("latin-1"): value.strip(b" \t").decode("latin-1")
            for name, value in scope["headers"]
        }
        """By name in small letters; of several with one name, the last."""
        self.principal: Principal = _NOBODY
        self.face: Face = Face()
        self.is_answered: bool = False
        """Whether an answer was begun, as far as it was sent from here."""

    @property
    def method(self) -> str:
        """The verb of HTTP, in capitals."""
        return self.scope["method"]

    def has_twice(self, name: str) -> bool:
        """Tell whether a header came more than once."""
        if len(self.headers) == len(self.scope["headers"]):
            return False
        wanted = name.encode("latin-1")
        return sum(it == wanted for it, _ in self.scope["headers"]) > 1

    @property
    def caller(self) -> tuple[str, str]:
        """Whose it is: what it opens is for nobody else."""
        return self.principal.tenant, self.principal.subject

    @property
    def account(self) -> tuple[str, str, str]:
        """Who is charged for what it opens: a caller, or an address where all callers are one."""
        return *self.caller, self.source if self.principal is LOCAL else ""

    @property
    def source(self) -> str:
        """The address of whoever sent it, as far as this machine knows."""
        client = self.scope.get("client")
        return "" if client is None else str(client[0])

    async def body(self, *, at_most: int) -> bytes:
        """Return everything that was sent with it. The server looks after the time that takes.

        Raises:
            BodyTooLargeError: when that is more than so many bytes.
            ClientGoneError: when the client went before it had sent all.
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
        """Send a whole answer."""
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

    def replay(self, body: bytes) -> None:
        """Let the body be read once more, by somebody who reads for themselves."""
        first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        receive_more = self.receive

        async def receive() -> Message:
            return first.pop() if first else await receive_more()

        self.receive: Receive = receive


LONGEST_REMEMBERED = 300


def accepts(header: str) -> tuple[bool, bool]:
    """Tell of an ``Accept`` header whether JSON is taken, and whether event streams are."""
    return _accepts(header) if len(header) <= LONGEST_REMEMBERED else _accepts.__wrapped__(header)


def is_json(header: str) -> bool:
    """Tell of a ``Content-Type`` header whether it announces JSON."""
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
