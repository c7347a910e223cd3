"""The handshake era over HTTP: sessions, each with its own transport of the SDK."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self
from uuid import uuid4

import anyio
import anyio.abc
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.types import Message

from pegboard.gateway.exchange import Face, RpcError
from pegboard.server.conversation import Conversation
from pegboard.server.front_desk import FrontDesk
from pegboard.server.http_request import HttpRequest
from pegboard.server.limits import Limits
from pegboard.server.messages import read_json

__all__ = ["HandshakeHttp"]

logger: logging.Logger = logging.getLogger(__name__)

Owner = tuple[str, str, Face]


class HandshakeHttp:
    """Keeps the sessions; each answers only to whoever opened it, at the address it was opened at.

    To anybody else it is as if there were no such session.
    """

    def __init__(self, desk: FrontDesk, *, limits: Limits) -> None:
        self._desk = desk
        self._limits = limits
        self._sessions: dict[str, tuple[Owner, StreamableHTTPServerTransport]] = {}
        self._counts: dict[Owner, int] = {}
        self._tasks: anyio.abc.TaskGroup

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """Keep sessions for as long as this is open; then all of them end."""
        async with anyio.create_task_group() as self._tasks:
            yield self
            self._tasks.cancel_scope.cancel()

    @property
    def sessions(self) -> int:
        """How many there are."""
        return len(self._sessions)

    def end_all(self) -> None:
        """End all sessions."""
        for _, transport in self._sessions.values():
            if transport.idle_scope is not None:
                transport.idle_scope.cancel()

    async def serve(self, request: HttpRequest) -> None:
        """Answer a request, in its session or in a new one.

        Raises:
            BodyTooLargeError: when its body is too large.
            ClientGoneError: when its client did not wait.
        """
        if request.method == "POST" and not await self._read(request):
            return
        request.scope["pegboard.principal"] = request.principal
        session = request.headers.get(MCP_SESSION_ID_HEADER)
        if session is None:
            await self._open_session(request)
            return
        owner, transport = self._sessions.get(session, (None, None))
        if transport is None or owner != _owner_of(request):
            await request.refuse(404, RpcError(INVALID_REQUEST, "Session not found"))
            return
        await transport.handle_request(request.scope, request.receive, request.send)
        if transport.is_terminated:
            await self._forget(session)

    async def _read(self, request: HttpRequest) -> bool:
        """Take the body within our limits before the SDK sees it."""
        body = await request.body(at_most=self._limits.body)
        try:
            read_json(body)
        except RpcError as error:
            await request.refuse(400, error)
            return False
        request.replay(body)
        return True

    async def _open_session(self, request: HttpRequest) -> None:
        owner = _owner_of(request)
        if not self._has_room(owner):
            words = "Too many open sessions"
            await request.refuse(
                503, RpcError(INTERNAL_ERROR, words), headers=[(b"retry-after", b"30")]
            )
            return
        session = uuid4().hex
        transport = StreamableHTTPServerTransport(
            session, idle_timeout=self._limits.session_idle_seconds
        )
        self._sessions[session] = owner, transport
        self._counts[owner] = self._counts.get(owner, 0) + 1
        status = 500
        send = request.send

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            conversation = Conversation(
                self._desk, session=session, principal=request.principal, face=request.face
            )
            await self._tasks.start(self._converse, conversation, transport)
            await transport.handle_request(request.scope, request.receive, watch)
        finally:
            if status >= 400:  # only `initialize` opens a session, and this was not it
                await self._forget(session)

    async def _converse(
        self,
        conversation: Conversation,
        transport: StreamableHTTPServerTransport,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            async with transport.connect() as (read, write):
                task_status.started()
                # Also cancelled by the transport, when nothing has come for a long time.
                with transport.idle_scope or anyio.CancelScope():
                    await conversation.run(read, write)
        except Exception:
            logger.exception("A session of the handshake era broke off.")
        finally:
            await self._forget(conversation.client.session)

    async def _forget(self, session: str) -> None:
        owner, transport = self._sessions.pop(session, (None, None))
        if owner is None or transport is None:
            return
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]
        if not transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await transport.terminate()

    def _has_room(self, owner: Owner) -> bool:
        limits = self._limits
        return (
            len(self._sessions) < limits.sessions
            and self._counts.get(owner, 0) < limits.sessions_per_principal
        )


def _owner_of(request: HttpRequest) -> Owner:
    return request.principal.tenant, request.principal.subject, request.face
