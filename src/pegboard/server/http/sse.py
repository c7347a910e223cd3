"""The HTTP+SSE transport of 2024-11-05: an event stream to the client, POSTs from it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple, Self
from urllib.parse import parse_qs, quote
from uuid import uuid4

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.requests import Request

from pegboard.gateway.request import RpcError
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.request import EVENT_STREAM, HttpRequest, Limits
from pegboard.server.jsonrpc import PING, as_event, encode, message_of
from pegboard.server.legacy_session import LegacySession, PendingRequests
from pegboard.server.message_limits import read_json
from pegboard.server.request_pipeline import RequestPipeline

__all__ = ["MESSAGES", "SseHttp"]

MESSAGES = "/messages"
"""The path that clients post to; each is told the address of its own session."""

PING_EVERY = 15.0
WAITING = 100
"""The most messages of a client that may wait; a client that sends more has to wait."""
LAST_WORDS = 1.0
"""Seconds that clients have to read their last responses when all sessions end."""

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


class _Session(NamedTuple):
    caller: tuple[str, str]
    account: tuple[str, str, str]
    incoming: Incoming
    scope: anyio.CancelScope
    pending: PendingRequests


class SseHttp:
    """Holds one session for each open stream; the session ends with its stream."""

    def __init__(
        self, pipeline: RequestPipeline, *, authenticator: HttpAuthenticator, limits: Limits
    ) -> None:
        self._pipeline = pipeline
        self._authenticator = authenticator
        self._limits = limits
        self._sessions: dict[str, _Session] = {}

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """Accept streams for as long as this is open; then all of them end."""
        try:
            yield self
        finally:
            self._cancel_all()

    async def end_all(self) -> None:
        """End all sessions once their responses are written, or after a second."""
        with anyio.move_on_after(LAST_WORDS):
            for session in [*self._sessions.values()]:
                await session.pending.wait(LAST_WORDS)
        self._cancel_all()

    def _cancel_all(self) -> None:
        for session in self._sessions.values():
            session.scope.cancel()

    @property
    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    async def serve_stream(self, request: HttpRequest) -> None:
        """Open a stream, and serve its session until the client closes it."""
        if request.method != "GET":
            await request.respond(405, headers=[(b"allow", b"GET")])
            return
        name = uuid4().hex
        legacy_session = LegacySession(
            self._pipeline, session=f"sse-{name}", principal=request.principal, face=request.face
        )
        try:
            await self._pipeline.admit(legacy_session.client)
        except RpcError as error:
            await request.refuse(404 if self._pipeline.gateway.is_ready else 503, error)
            return
        if not self._has_room(request.account):
            await request.refuse(503, RpcError(INTERNAL_ERROR, "Too many open sessions"))
            return
        to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](WAITING)
        outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        with to_us, from_us, anyio.CancelScope() as scope:
            session = _Session(request.caller, request.account, to_us, scope, PendingRequests())
            self._sessions[name] = session
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_cancel_when_gone, request, scope)
                    tasks.start_soon(self._cancel_when_refused, request, scope)
                    tasks.start_soon(_write_events, request, name, from_us, session.pending)
                    await legacy_session.run(incoming, outgoing)
            finally:
                del self._sessions[name]
        if scope.cancelled_caught:
            await request.send({"type": "http.response.body", "body": b""})

    async def serve_message(self, request: HttpRequest) -> None:
        """Handle a message that belongs to an open stream.

        Raises:
            BodyTooLargeError: when its body is too large.
            ClientGoneError: when its client has disconnected.
        """
        if request.method != "POST":
            await request.respond(405, headers=[(b"allow", b"POST")])
            return
        asked = parse_qs(request.scope["query_string"].decode("latin-1")).get("session_id", [""])
        session = self._sessions.get(asked[0])
        if session is None or session.caller != request.caller:
            await request.refuse(404, RpcError(INVALID_REQUEST, "Session not found"))
            return
        body = await request.body(at_most=self._limits.body)
        try:
            message = message_of(read_json(body))
        except RpcError as error:
            await request.refuse(400, error)
            return
        request.scope["pegboard.principal"] = request.principal
        metadata = ServerMessageMetadata(request_context=Request(request.scope))
        session.pending.add(message)
        try:
            await session.incoming.send(SessionMessage(message, metadata=metadata))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            await request.refuse(404, RpcError(INVALID_REQUEST, "Session not found"))
            return
        await request.respond(202, b"Accepted", kind=b"text/plain; charset=utf-8")

    async def _cancel_when_refused(self, request: HttpRequest, scope: anyio.CancelScope) -> None:
        # By the clock: a stream that is never silent has no pause for a check.
        while not scope.cancel_called:
            await anyio.sleep(PING_EVERY)
            if not await self._authenticator.still_admits(request):
                scope.cancel()

    def _has_room(self, account: tuple[str, str, str]) -> bool:
        limits, sessions = self._limits, self._sessions.values()
        if len(sessions) >= limits.sessions:
            return False
        return sum(it.account == account for it in sessions) < limits.sessions_per_principal


async def _write_events(
    request: HttpRequest,
    name: str,
    from_us: MemoryObjectReceiveStream[SessionMessage],
    pending: PendingRequests,
) -> None:
    address = quote(request.scope.get("root_path", "").rstrip("/") + MESSAGES)
    event = f"event: endpoint\r\ndata: {address}?session_id={name}\r\n\r\n".encode()
    request.is_answered = True
    await request.send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
    message: object = None
    while True:
        await request.send({"type": "http.response.body", "body": event, "more_body": True})
        pending.remove(message)
        event, message = PING, None
        with anyio.move_on_after(PING_EVERY):
            message = (await from_us.receive()).message
            event = as_event(encode(message.model_dump(by_alias=True, exclude_unset=True)))


async def _cancel_when_gone(request: HttpRequest, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
