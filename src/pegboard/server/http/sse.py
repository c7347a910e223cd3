"""The HTTP+SSE transport of 2024-11-05: an event stream to the client, POSTs from it."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, quote
from uuid import uuid4

import anyio
import anyio.abc
from mcp_types import INVALID_REQUEST

from pegboard.errors import LimitReachedError
from pegboard.gateway.request import RpcError
from pegboard.policies.fair_share import FairShare
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.request import HttpRequest, Limits, too_many_requests
from pegboard.server.http.response_stream import PushStream
from pegboard.server.jsonrpc import check_message
from pegboard.server.legacy_session import LegacySession
from pegboard.server.message_limits import read_json
from pegboard.server.request_pipeline import RequestPipeline

__all__ = ["MESSAGES", "SseHttp"]

MESSAGES = "/messages"
"""The path that clients post to; each is told the address of its own session."""

LAST_WORDS = 1.0
"""Seconds that clients have to read their last responses when all sessions end."""


class _SseSession(NamedTuple):
    caller: tuple[str, str]
    legacy_session: LegacySession
    stream: PushStream
    tasks: anyio.abc.TaskGroup
    """Runs its requests."""


class SseHttp:
    """Holds one session for each open stream; the session ends with its stream."""

    def __init__(
        self,
        pipeline: RequestPipeline,
        *,
        disconnects: DisconnectWatcher,
        limits: Limits,
        sessions: FairShare,
        requests: FairShare,
        make_room: Callable[[HttpRequest], LimitReachedError | None],
    ) -> None:
        self._pipeline = pipeline
        self._disconnects = disconnects
        self._limits = limits
        self._session_shares = sessions
        self._request_shares = requests
        self._make_room = make_room
        self._sessions: dict[str, _SseSession] = {}

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
                await session.legacy_session.peer.wait_until_answered(LAST_WORDS)
        self._cancel_all()

    def _cancel_all(self) -> None:
        for session in self._sessions.values():
            session.stream.scope.cancel()

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
        stream = PushStream(request, most_unread=self._limits.unread_bytes)
        legacy_session = LegacySession(
            self._pipeline,
            session=f"sse-{name}",
            principal=request.principal,
            face=request.face,
            outlet=stream,
        )
        try:
            await self._pipeline.admit(legacy_session.client)
        except RpcError as error:
            await request.refuse(404 if self._pipeline.gateway.is_ready else 503, error)
            return
        beyond = self._make_room(request)
        if beyond is not None:
            await request.refuse_beyond(beyond)
            return
        self._disconnects.begin(stream, request, is_long=True)
        try:
            async with anyio.create_task_group() as tasks:
                self._sessions[name] = _SseSession(request.caller, legacy_session, stream, tasks)
                self._session_shares.add(request.account)
                try:
                    await stream.hold(_endpoint(request, name))
                finally:
                    del self._sessions[name]
                    self._session_shares.remove(request.account)
                    legacy_session.end()
                    tasks.cancel_scope.cancel()
            await stream.break_off()
        finally:
            self._disconnects.end(stream)

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
            message = check_message(read_json(body))
        except RpcError as error:
            await request.refuse(400, error)
            return
        if asked[0] not in self._sessions:  # it ended while the body was read
            await request.refuse(404, RpcError(INVALID_REQUEST, "Session not found"))
            return
        await self._accept(session, message, request)

    async def _accept(
        self, session: _SseSession, message: dict[str, Any], request: HttpRequest
    ) -> None:
        legacy_session, peer = session.legacy_session, session.legacy_session.peer
        sender = {"principal": request.principal, "headers": request.headers}
        if "method" not in message or "id" not in message:
            peer.note(message)
            if "method" in message:
                session.tasks.start_soon(partial(legacy_session.hear, message, **sender))
        elif not request.is_local and not self._request_shares.admits(request.caller):
            await request.refuse_beyond(too_many_requests(), request_id=message["id"])
            return
        else:
            respond = partial(legacy_session.respond, message, session.stream, **sender)
            serve = partial(peer.serve, peer.begin(message), respond, session.stream)
            session.tasks.start_soon(self._counted, request.caller, serve)
        await request.respond(202, b"Accepted", kind=b"text/plain; charset=utf-8")

    async def _counted(
        self, caller: tuple[str, str], serve: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Serve a request that outlives its HTTP request, and count it as under way."""
        self._request_shares.add(caller)
        try:
            await serve()
        finally:
            self._request_shares.remove(caller)


def _endpoint(request: HttpRequest, name: str) -> bytes:
    """Return the event that tells a client where to post its messages."""
    address = quote(request.scope.get("root_path", "").rstrip("/") + MESSAGES)
    return f"event: endpoint\r\ndata: {address}?session_id={name}\r\n\r\n".encode()
