"""Streamable HTTP of the handshake era: sessions, their requests and their event streams."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self
from uuid import uuid4

import anyio
from mcp_types import INVALID_REQUEST

from pegboard.errors import LimitReachedError
from pegboard.gateway.errors import CutOffError
from pegboard.gateway.request import Face, RpcError
from pegboard.policies.fair_share import FairShare, Holder
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.request import (
    LARGE,
    Header,
    HttpRequest,
    Limits,
    accepts,
    is_json,
    too_much_unread,
)
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

_SOON = 30.0
"""Seconds after which a client may try again to open a session."""


class _Session:
    """A session, and the event stream that its client may keep open: its `Outlet`."""

    def __init__(self, pipeline: RequestPipeline, request: HttpRequest) -> None:
        self.name: str = uuid4().hex
        self.owner: tuple[tuple[str, str], Face] = request.caller, request.face
        self.account: Holder = request.account
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
    def headers(self) -> list[Header]:
        """The header with its id; none before the handshake, which may be refused."""
        return [(SESSION_ID.encode(), self.name.encode())] if self.legacy_session.is_open else []

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
        self,
        pipeline: RequestPipeline,
        *,
        disconnects: DisconnectWatcher,
        limits: Limits,
        shares: FairShare,
    ) -> None:
        self._pipeline = pipeline
        self._disconnects = disconnects
        self._limits = limits
        self._shares = shares
        self._sessions: dict[str, _Session] = {}
        self._idle_of: dict[Holder | None, dict[str, None]] = {}
        """The idle sessions of each account, the longest idle first."""
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
        beyond = self.make_room(request)
        if beyond is not None:
            await request.refuse_beyond(beyond, request_id=message["id"])
            return
        self._sessions[session.name] = session
        self._shares.add(session.account)
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
                response = response or error_message(running.id, unfinished)
                if len(response) > LARGE and not request.may_wait(len(response)):
                    response = error_message(running.id, too_much_unread(len(response)))
                await stream.end(response, headers=session.headers)
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
        stream = session.stream = PushStream(
            request, headers=session.headers, most_unread=self._limits.unread_bytes
        )
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
        self._wake(session)
        try:
            yield
        finally:
            session.requests -= 1
            if not session.requests and session.name in self._sessions:
                self._idle[session.name] = anyio.current_time() + self._limits.session_idle_seconds
                self._idle_of.setdefault(session.account, {})[session.name] = None

    def _wake(self, session: _Session) -> None:
        if self._idle.pop(session.name, None) is None:
            return
        idle = self._idle_of[session.account]
        del idle[session.name]
        if not idle:
            del self._idle_of[session.account]

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
        self._wake(session)
        self._shares.remove(session.account)
        session.end(by_client=by_client)

    def make_room(self, request: HttpRequest) -> LimitReachedError | None:
        """Make room for one more session of a caller; return why there is none.

        An idle session gives way: of the caller that has too many, or of the one with the most.
        """
        shares, account = self._shares, request.account
        if shares.held(account) >= self._limits.sessions_per_principal:
            holders, setting = [account], "gateway.limits.sessions_per_principal"
        elif shares.fits():
            return None
        else:
            # If all sessions of the largest holder are in use, one of the caller itself gives way.
            holders, setting = [shares.largest(account), account], "gateway.limits.sessions"
        for idle in [self._idle_of[it] for it in holders if it in self._idle_of]:
            self._end(self._sessions[next(iter(idle))])
            return None
        words = f"Too many sessions are open (`{setting}`). End some of them, or try again later."
        return LimitReachedError(words, setting=setting, retry_after=_SOON)
