"""Streamable HTTP of the handshake era: sessions, their requests and their event streams."""

import math
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self
from uuid import uuid4

import anyio
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST

from pegboard.gateway.errors import CutOffError
from pegboard.gateway.request import Face, RpcError
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.request import Header, HttpRequest, Limits, accepts, is_json
from pegboard.server.http.response_stream import PushStream, SessionResponseStream
from pegboard.server.jsonrpc import check_message, error_message, is_request
from pegboard.server.legacy_session import LegacySession
from pegboard.server.message_limits import read_json
from pegboard.server.request_pipeline import RequestPipeline

__all__ = ["LegacyHttp"]

SESSION_ID = "mcp-session-id"
"""The header with the id of a session."""

_CANCELLED = RpcError(-32800, "Request cancelled")
"""The response to a request that the client has cancelled: its event stream ends with one."""

Account = tuple[str, str, str]


class _Session:
    """A session, and the event stream that its client may keep open: its `Outlet`."""

    def __init__(self, pipeline: RequestPipeline, request: HttpRequest) -> None:
        self.name: str = uuid4().hex
        self.owner: tuple[tuple[str, str], Face] = request.caller, request.face
        self.account: Account = request.account
        self.headers: list[Header] = [(SESSION_ID.encode(), self.name.encode())]
        self.legacy_session: LegacySession = LegacySession(
            pipeline,
            session=self.name,
            principal=request.principal,
            face=request.face,
            outlet=self,
        )
        self.stream: PushStream | None = None
        self.requests: int = 0
        """How many HTTP requests use it now."""

    @property
    def is_over(self) -> bool:
        return self.stream is None or self.stream.is_over

    async def send(self, message: bytes) -> None:
        if self.stream is not None:
            await self.stream.send(message)

    def end(self, *, by_client: bool) -> None:
        self.legacy_session.end(by_client=by_client)
        if self.stream is not None:
            self.stream.scope.cancel()


class LegacyHttp:
    """Holds the sessions; only the caller who opened a session can use it, on the same path.

    For other callers the session does not exist.
    """

    def __init__(
        self, pipeline: RequestPipeline, *, disconnects: DisconnectWatcher, limits: Limits
    ) -> None:
        self._pipeline = pipeline
        self._disconnects = disconnects
        self._limits = limits
        self._sessions: dict[str, _Session] = {}
        self._accounts: dict[Account, set[str]] = {}
        self._idle: dict[str, float] = {}
        """When each session ends that no request uses; the first to end is the first here."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """Hold sessions for as long as this is open; then all of them end."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_idle)
            try:
                yield self
            finally:
                self.end_all()
            tasks.cancel_scope.cancel()

    @property
    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    def end_all(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            self._end(session)

    async def serve(self, request: HttpRequest) -> None:
        """Serve a request, in its session or in a new one.

        Raises:
            BodyTooLargeError: when its body is too large.
            ClientGoneError: when its client has disconnected.
        """
        message: dict[str, Any] = {}
        if request.method == "POST":
            try:
                message = check_message(read_json(await request.body(at_most=self._limits.body)))
            except RpcError as error:
                await request.refuse(400, error)
                return
        name = request.headers.get(SESSION_ID)
        if name is None:
            await self._open_session(request, message)
            return
        session = self._sessions.get(name)
        if session is None or session.owner != (request.caller, request.face):
            await request.refuse(404, RpcError(INVALID_REQUEST, "Session not found"))
            return
        with self._used(session):
            match request.method:
                case "POST":
                    await self._serve_message(request, message, session)
                case "GET":
                    await self._push(request, session)
                case "DELETE":
                    self._end(session, by_client=True)
                    await request.respond(200, kind=b"application/json", headers=session.headers)
                case _:
                    headers = [(b"allow", b"GET, POST, DELETE"), *session.headers]
                    said = RpcError(INVALID_REQUEST, "Method Not Allowed")
                    await request.refuse(405, said, headers=headers)

    async def _open_session(self, request: HttpRequest, message: dict[str, Any]) -> None:
        if not is_request(message) or message["method"] != "initialize" or "id" not in message:
            words = "Bad Request: Missing session ID"
            await request.refuse(400, RpcError(INVALID_REQUEST, words))
            return
        session = _Session(self._pipeline, request)
        try:
            await self._pipeline.admit(session.legacy_session.client)
        except RpcError as error:
            status = 404 if self._pipeline.gateway.is_ready else 503
            await request.refuse(status, error, request_id=message["id"])
            return
        if not self._has_room(request.account):
            said = RpcError(INTERNAL_ERROR, "Too many open sessions")
            headers = [(b"retry-after", b"30")]
            await request.refuse(503, said, request_id=message["id"], headers=headers)
            return
        self._sessions[session.name] = session
        self._accounts.setdefault(session.account, set()).add(session.name)
        try:
            with self._used(session):
                await self._serve_message(request, message, session)
        finally:
            if not session.legacy_session.is_open:  # the handshake was refused
                self._end(session)

    async def _serve_message(
        self, request: HttpRequest, message: dict[str, Any], session: _Session
    ) -> None:
        headers, said = request.headers, session.headers
        if accepts(headers.get("accept", "")) != (True, True):
            words = "Not Acceptable: Client must accept both application/json and text/event-stream"
            await request.refuse(406, RpcError(INVALID_REQUEST, words), headers=said)
        elif not is_json(headers.get("content-type", "")):
            words = "Unsupported Media Type: Content-Type must be application/json"
            await request.refuse(415, RpcError(INVALID_REQUEST, words), headers=said)
        elif "id" in message and "method" in message:
            await self._respond(request, message, session)
        else:
            legacy_session = session.legacy_session
            legacy_session.peer.note(message)
            await request.respond(202, kind=b"application/json", headers=said)
            if "method" in message:
                await legacy_session.hear(message, principal=request.principal, headers=headers)

    async def _respond(
        self, request: HttpRequest, message: dict[str, Any], session: _Session
    ) -> None:
        stream = SessionResponseStream(request, headers=session.headers)
        legacy_session, peer = session.legacy_session, session.legacy_session.peer
        running = peer.begin(message, scope=stream.scope)

        async def respond() -> dict[str, Any]:
            return await legacy_session.respond(
                message, stream, principal=request.principal, headers=request.headers
            )

        self._disconnects.begin(stream, request)
        try:
            response = await peer.run(running, respond)
            if stream.is_abandoned:
                await stream.break_off()
            else:
                unfinished = _CANCELLED if running.is_cancelled else CutOffError()
                await stream.end(response or error_message(running.id, unfinished))
        finally:
            peer.end(running)
            self._disconnects.end(stream)

    async def _push(self, request: HttpRequest, session: _Session) -> None:
        """Open the stream for messages outside of requests.

        No events are kept for a client that lost its stream, so that ``Last-Event-ID`` is ignored.
        """
        _, takes_events = accepts(request.headers.get("accept", ""))
        if not takes_events:
            words = "Not Acceptable: Client must accept text/event-stream"
            await request.refuse(406, RpcError(INVALID_REQUEST, words), headers=session.headers)
            return
        if session.stream is not None:
            words = "Conflict: Only one SSE stream is allowed per session"
            await request.refuse(409, RpcError(INVALID_REQUEST, words), headers=session.headers)
            return
        stream = session.stream = PushStream(request, headers=session.headers)
        self._disconnects.begin(stream, request, is_long=True)
        try:
            await stream.hold()
            await stream.break_off()
        finally:
            self._disconnects.end(stream)
            session.stream = None

    @contextmanager
    def _used(self, session: _Session) -> Generator[None]:
        """Keep a session from being idle."""
        session.requests += 1
        self._idle.pop(session.name, None)
        try:
            yield
        finally:
            session.requests -= 1
            if not session.requests and session.name in self._sessions:
                self._idle[session.name] = anyio.current_time() + self._limits.session_idle_seconds

    async def _end_idle(self) -> None:
        while True:
            # A session that becomes idle later also ends later.
            latest = anyio.current_time() + self._limits.session_idle_seconds
            await anyio.sleep_until(next(iter(self._idle.values()), latest))
            now = anyio.current_time()
            while self._idle and next(iter(self._idle.values())) <= now:
                self._end(self._sessions[next(iter(self._idle))])

    def _end(self, session: _Session, *, by_client: bool = False) -> None:
        if self._sessions.pop(session.name, None) is None:
            return
        self._idle.pop(session.name, None)
        own = self._accounts[session.account]
        own.remove(session.name)
        if not own:
            del self._accounts[session.account]
        session.end(by_client=by_client)

    def _has_room(self, account: Account) -> bool:
        """Tell whether one more session fits; the caller's oldest idle session gives way."""
        limits, own = self._limits, self._accounts.get(account, set())
        if len(self._sessions) < limits.sessions and len(own) < limits.sessions_per_principal:
            return True
        oldest = min(own, key=lambda name: self._idle.get(name, math.inf), default="")
        if oldest not in self._idle:
            return False
        self._end(self._sessions[oldest])
        return True
