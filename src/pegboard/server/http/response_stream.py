"""Response streams: the response to one request, or an event stream that a client keeps open."""

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Never

import anyio
from mcp_types import INVALID_REQUEST

from pegboard.gateway.request import RpcError
from pegboard.server.http.request import EVENT_STREAM, LARGE, Header, HttpRequest, Limits
from pegboard.server.jsonrpc import PING, as_event, notification_message

__all__ = ["PushStream", "ResponseStream", "SessionResponseStream"]

logger: logging.Logger = logging.getLogger("pegboard.server")

SLOWEST_READER = 60.0
"""Seconds after which a client that does not read an event is given up."""
_FREE = nullcontext()


class ResponseStream:
    """Sends plain JSON, or an event stream once there is a notification before the response.

    It is the `Channel` of its request: notifications go on the same stream as the response.
    """

    __slots__ = (
        "_headers",
        "_is_over",
        "_is_stream",
        "_lock",
        "_most_unread",
        "_request",
        "_unread",
        "is_abandoned",
        "scope",
    )

    def __init__(
        self,
        request: HttpRequest,
        *,
        headers: Iterable[Header] = (),
        most_unread: int = Limits().unread_bytes,
    ) -> None:
        self._request = request
        self._headers = tuple(headers)
        self._most_unread = most_unread
        self._unread = 0
        """Bytes of the events that wait for the client."""
        self._is_stream = False
        self._is_over = False
        self._lock = anyio.Lock(fast_acquire=True)
        self.scope: anyio.CancelScope = anyio.CancelScope()
        """The scope in which the request runs."""
        self.is_abandoned: bool = False
        """Whether the client no longer waits for the response."""

    @property
    def is_over(self) -> bool:
        """Whether the response is complete or abandoned."""
        return self._is_over

    def abandon(self) -> None:
        """Cancel the request, since the client no longer waits for its result."""
        self._is_over = self.is_abandoned = True
        self.scope.cancel()

    def client_left(self) -> None:
        """Note that the client closed its connection, which cancels a request of this era."""
        self.abandon()

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification ahead of the response."""
        await self.send(notification_message(method, params))

    async def send(self, message: bytes) -> None:
        """Send a message ahead of the response, unless the client is gone."""
        await self._send_part(as_event(message))

    @property
    def can_ask(self) -> bool:
        """Whether the client can be asked: not in this era."""
        return False

    async def ask(self, method: str, params: Mapping[str, Any]) -> Never:
        """Refuse: in this era a server asks by its result, ``input_required``.

        Raises:
            RpcError: always.
        """
        del params
        raise RpcError(INVALID_REQUEST, f"A client of this protocol version is not asked {method}.")

    async def ping(self) -> None:
        """Keep the connection open while there is nothing to send."""
        await self._send_part(PING)

    async def finish(self, status: int, message: bytes, *, headers: Iterable[Header] = ()) -> None:
        """Send the response; status and headers count only if nothing was sent before."""
        async with self._last(message):
            self._is_over = True
            if self._is_stream:
                await self._send(as_event(message), is_last=True)
            else:
                await self._request.respond_json(status, message, headers=headers)

    @asynccontextmanager
    async def _last(self, message: bytes) -> AsyncGenerator[None]:
        # It waits, too, while the client does not read what was sent before.
        with self._request.waiting(len(message)) if len(message) > LARGE else _FREE:
            async with self._lock:
                yield

    async def break_off(self) -> None:
        """End without a response; a client that is still connected is told that it was refused."""
        async with self._lock:
            self._is_over = True
            if self._is_stream:
                await self._send(b"", is_last=True)
            else:
                words = "This credential is not accepted any more"
                await self._request.refuse(401, RpcError(INVALID_REQUEST, words))

    async def _send_part(self, event: bytes) -> None:
        if self._is_over:
            return
        # One event may be larger: a client that reads gets any result.
        if self._unread > self._most_unread:
            self._give_up(f"`limits.unread_bytes` is {self._most_unread}")
            return
        # A client that reads gets pings, however much its other requests have left unread.
        needs_room = self._unread or len(event) > LARGE
        if needs_room and not self._request.may_wait(len(event)):
            self._give_up("`limits.unread_total`")
            return
        self._unread += len(event)
        try:
            with self._request.waiting(len(event)):
                await self._write(event)
        finally:
            self._unread -= len(event)

    def _give_up(self, limit: str) -> None:
        """Close the stream: more and more would wait for its client."""
        tenant, subject = self._request.caller
        reason = f"its client reads too slowly ({limit})"
        context = {"tenant": tenant, "subject": subject, "reason": reason}
        logger.warning("stream_closed: %r of %r: %s", subject, tenant, reason, extra=context)
        self.abandon()

    async def _write(self, event: bytes) -> None:
        async with self._lock:
            if self._is_over:
                return
            with anyio.move_on_after(SLOWEST_READER) as patience:
                await self._begin()
                await self._send(event, is_last=False)
            if patience.cancelled_caught:
                self.abandon()

    async def _begin(self) -> None:
        if not self._is_stream:
            headers = [*EVENT_STREAM, *self._headers]
            await self._request.send(
                {"type": "http.response.start", "status": 200, "headers": headers}
            )
            # Only now: if this task is cancelled while it waits, nothing has been sent.
            self._is_stream = self._request.is_answered = True

    async def _send(self, event: bytes, *, is_last: bool) -> None:
        await self._request.send_body(event, is_last=is_last)


class SessionResponseStream(ResponseStream):
    """The response to a request of the handshake era: always events, also for a single message.

    Some clients of this era expect nothing else.
    """

    __slots__ = ()

    def client_left(self) -> None:
        """Note that the client closed its connection; in this era that cancels nothing."""
        self._is_over = self.is_abandoned = True

    async def end(self, message: bytes, *, headers: Iterable[Header]) -> None:
        """Send the response; the headers count only if nothing was sent before."""
        event = as_event(message)
        async with self._last(event):
            self._is_over = True
            if self._is_stream:
                await self._send(event, is_last=True)
            else:
                await self._request.respond(200, event, headers=[*EVENT_STREAM, *headers])


class PushStream(ResponseStream):
    """An event stream that a client of the handshake era keeps open for messages to it."""

    __slots__ = ()

    async def hold(self, first: bytes = b"") -> None:
        """Keep the stream open until the client closes it, or its scope is cancelled.

        Then `break_off` ends the response.

        Args:
            first: the event that the stream begins with.
        """
        with self.scope:
            async with self._lock:
                await self._begin()
                if first:
                    await self._send(first, is_last=False)
            await anyio.sleep_forever()
