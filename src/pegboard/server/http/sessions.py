"""Streamable HTTP of the handshake era: sessions, each with a transport of the SDK."""

import logging
import math
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self
from uuid import uuid4

import anyio
import anyio.abc
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.types import Message, Send

from pegboard.gateway.request import Face, RpcError
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.legacy_fast_path import LegacyFastPath
from pegboard.server.http.request import HttpRequest, Limits
from pegboard.server.jsonrpc import is_request, message_of
from pegboard.server.legacy_session import LegacySession
from pegboard.server.message_limits import read_json
from pegboard.server.request_pipeline import RequestPipeline

__all__ = ["LegacyHttp"]

logger: logging.Logger = logging.getLogger("pegboard.server")

CHECK_EVERY = 15.0
"""Seconds between two checks whether clients with open streams are still authenticated."""

CHECKED_AT_ONCE = 10
"""How many of these checks run at the same time."""

Account = tuple[str, str, str]


class _Session:
    def __init__(
        self,
        request: HttpRequest,
        legacy_session: LegacySession,
        transport: StreamableHTTPServerTransport,
    ) -> None:
        self.owner: tuple[tuple[str, str], Face] = request.caller, request.face
        self.account: Account = request.account
        self.legacy_session = legacy_session
        self.transport = transport
        self._requests = 0

    @property
    def idle_until(self) -> float:
        """When its idle time is over; never while it is used."""
        scope = self.transport.idle_scope
        return math.inf if scope is None else scope.deadline

    @contextmanager
    def used(self, *, idle_seconds: float) -> Generator[None]:
        """Keep it from being idle. The SDK does the same for the requests that it sees."""
        self._requests += 1
        self._end_at(math.inf)
        try:
            yield
        finally:
            self._requests -= 1
            self._end_at(math.inf if self._requests else anyio.current_time() + idle_seconds)

    def _end_at(self, deadline: float) -> None:
        if self.transport.idle_scope is not None:
            self.transport.idle_scope.deadline = deadline


class LegacyHttp:
    """Holds the sessions; only the caller who opened a session can use it, on the same path.

    For other callers the session does not exist.
    """

    def __init__(
        self,
        pipeline: RequestPipeline,
        *,
        authenticator: HttpAuthenticator,
        disconnects: DisconnectWatcher,
        limits: Limits,
    ) -> None:
        self._pipeline = pipeline
        self._authenticator = authenticator
        self._plain = LegacyFastPath(disconnects)
        self._limits = limits
        self._sessions: dict[str, _Session] = {}
        self._accounts: dict[Account, set[str]] = {}
        self._running: dict[anyio.CancelScope, HttpRequest] = {}
        self._tasks: anyio.abc.TaskGroup

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """Hold sessions for as long as this is open; then all of them end."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._end_refused)
            yield self
            self._tasks.cancel_scope.cancel()

    @property
    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    def end_all(self) -> None:
        """End all sessions."""
        for session in self._sessions.values():
            if session.transport.idle_scope is not None:
                session.transport.idle_scope.cancel()

    async def serve(self, request: HttpRequest) -> None:
        """Serve a request, in its session or in a new one.

        Raises:
            BodyTooLargeError: when its body is too large.
            ClientGoneError: when its client has disconnected.
        """
        message: Any = None
        if request.method == "POST":
            try:
                message = await self._read(request)
            except RpcError as error:
                await request.refuse(400, error)
                return
        elif request.method == "GET":
            _drop_last_event_id(request)
        request.scope["pegboard.principal"] = request.principal
        name = request.headers.get(MCP_SESSION_ID_HEADER)
        if name is None:
            await self._open_session(request, message)
            return
        session = self._sessions.get(name)
        if session is None or session.owner != (request.caller, request.face):
            await request.refuse(404, RpcError(INVALID_REQUEST, "Session not found"))
            return
        with session.used(idle_seconds=self._limits.session_idle_seconds):
            if self._plain.takes(request, message, session.legacy_session):
                await self._plain.run(request, message, session.legacy_session)
                return
            self._plain.note_cancellation(message, name)
            await self._hand_over(request, session.transport)
        if session.transport.is_terminated:
            self._plain.end_session(name)
            await self._forget(name)

    async def _read(self, request: HttpRequest) -> Any:
        """Read the body within our limits before the SDK sees it."""
        body = await request.body(at_most=self._limits.body)
        message = read_json(body)
        if not is_request(message):
            message_of(message)  # the error messages of the SDK fill pages
        request.replay(body)
        return message

    async def _open_session(self, request: HttpRequest, message: Any) -> None:
        if not is_request(message) or message["method"] != "initialize" or "id" not in message:
            words = "Bad Request: Missing session ID"
            await request.refuse(400, RpcError(INVALID_REQUEST, words))
            return
        name = uuid4().hex
        legacy_session = LegacySession(
            self._pipeline, session=name, principal=request.principal, face=request.face
        )
        try:
            await self._pipeline.admit(legacy_session.client)
        except RpcError as error:
            status = 404 if self._pipeline.gateway.is_ready else 503
            await request.refuse(status, error, request_id=message["id"])
            return
        if not await self._has_room(request.account):
            said = RpcError(INTERNAL_ERROR, "Too many open sessions")
            headers = [(b"retry-after", b"30")]
            await request.refuse(503, said, request_id=message["id"], headers=headers)
            return
        transport = StreamableHTTPServerTransport(
            name, idle_timeout=self._limits.session_idle_seconds
        )
        self._sessions[name] = _Session(request, legacy_session, transport)
        self._accounts.setdefault(request.account, set()).add(name)
        status = 500
        try:
            await self._tasks.start(self._run_session, legacy_session, transport)
            status = await self._hand_over(request, transport)
        finally:
            if status >= 400 or not legacy_session.is_open:  # it was refused, by the SDK or by us
                await self._forget(name)

    async def _hand_over(
        self, request: HttpRequest, transport: StreamableHTTPServerTransport
    ) -> int:
        """Let the SDK serve a request while its sender is authenticated; return the status."""
        response = _StatusRecorder(request.send)
        with anyio.CancelScope() as scope:
            self._running[scope] = request
            try:
                await transport.handle_request(request.scope, request.receive, response.send)
            finally:
                del self._running[scope]
        if scope.cancelled_caught and response.status:
            await request.send({"type": "http.response.body", "body": b""})
        return response.status or 500

    async def _end_refused(self) -> None:
        while True:
            await anyio.sleep(CHECK_EVERY)
            # Several at a time: the authenticator may be slow for one of them.
            running = iter(list(self._running.items()))
            async with anyio.create_task_group() as tasks:
                for _ in range(CHECKED_AT_ONCE):
                    tasks.start_soon(self._check, running)

    async def _check(self, running: Iterator[tuple[anyio.CancelScope, HttpRequest]]) -> None:
        for scope, request in running:
            with anyio.move_on_after(CHECK_EVERY):
                if not await self._authenticator.still_admits(request):
                    scope.cancel()

    async def _run_session(
        self,
        legacy_session: LegacySession,
        transport: StreamableHTTPServerTransport,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            async with transport.connect() as (read, write):
                task_status.started()
                # The transport also cancels it when the session was idle for too long.
                with transport.idle_scope or anyio.CancelScope():
                    await legacy_session.run(read, write)
        except Exception:
            logger.exception("A session of the handshake era broke off.")
        finally:
            await self._forget(legacy_session.client.session)

    async def _forget(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is None:
            return
        own = self._accounts[session.account]
        own.remove(name)
        if not own:
            del self._accounts[session.account]
        if not session.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await session.transport.terminate()

    async def _has_room(self, account: Account) -> bool:
        """Tell whether one more session fits; the caller's oldest idle session gives way."""
        limits, own = self._limits, self._accounts.get(account, set())
        if len(self._sessions) < limits.sessions and len(own) < limits.sessions_per_principal:
            return True
        oldest = min(own, key=lambda name: self._sessions[name].idle_until, default=None)
        if oldest is None or self._sessions[oldest].idle_until == math.inf:
            return False
        await self._forget(oldest)
        return True


def _drop_last_event_id(request: HttpRequest) -> None:
    """Drop ``Last-Event-ID``: no events are kept, and the SDK would not respond."""
    headers = request.scope["headers"]
    request.scope["headers"] = [it for it in headers if it[0] != b"last-event-id"]


class _StatusRecorder:
    """Passes a response on, and notes its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)
