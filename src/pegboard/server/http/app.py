"""App: what is at which address; an ASGI application."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self

import anyio
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

from pegboard.gateway.request import RpcError, Surface
from pegboard.policies import may_operate
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.cors import admit_host, admit_page
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.health import Health
from pegboard.server.http.host_check import HostCheck
from pegboard.server.http.local_api import LocalApi
from pegboard.server.http.request import ClientGoneError, HttpRequest, Limits
from pegboard.server.http.routes import route_of
from pegboard.server.http.sessions import LegacyHttp
from pegboard.server.http.sse import MESSAGES, SseHttp
from pegboard.server.http.stateless import StatelessHttp
from pegboard.server.jsonrpc import BodyTooLargeError, internal_error
from pegboard.server.metrics import CONTENT_TYPE
from pegboard.server.request_pipeline import RequestPipeline

__all__ = ["App"]

logger: logging.Logger = logging.getLogger("pegboard.server")


class App:
    """The whole HTTP face of a gateway: open it, then let an ASGI server serve it."""

    def __init__(
        self,
        desk: RequestPipeline,
        *,
        reception: HttpAuthenticator | None = None,
        hosts: HostCheck | None = None,
        limits: Limits | None = None,
        surface: Surface = "search",
        owners_desk: LocalApi | None = None,
    ) -> None:
        limits = Limits() if limits is None else limits
        self._desk = desk
        self._reception = HttpAuthenticator() if reception is None else reception
        self._hosts = HostCheck() if hosts is None else hosts
        self._surface: Surface = surface
        self._owners_desk = owners_desk
        self._attendance = DisconnectWatcher(self._reception.still_admits)
        self._modern = StatelessHttp(
            desk, reception=self._reception, attendance=self._attendance, limits=limits
        )
        self._handshake = LegacyHttp(
            desk, reception=self._reception, attendance=self._attendance, limits=limits
        )
        self._sse = SseHttp(desk, reception=self._reception, limits=limits)
        self.health: Health = Health(desk)
        """To be told when the process is to end."""
        self._watch()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """Serve for as long as this is open; then whatever still runs is cancelled."""
        async with self._attendance.open(), self._handshake.open(), self._sse.open():
            yield self

    async def drain(self, seconds: float) -> None:
        """Let no new calls begin, and wait so long for those under way."""
        await self._desk.gateway.drain(seconds)

    async def end_streams(self) -> None:
        """End whatever would not end by itself: open streams, and calls that took too long."""
        self._attendance.cancel_all()
        self._handshake.end_all()
        await self._sse.end_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            raise NotImplementedError(f"Nothing here speaks {scope['type']!r}.")
        request = HttpRequest(scope, receive, send)
        try:
            await self._serve(request)
        except ClientGoneError:
            pass
        except BodyTooLargeError as error:
            # The connection stays open and the rest is thrown away: closing it now would reset it,
            # and the client would never read why.
            said = RpcError(INVALID_REQUEST, str(error))
            await request.refuse(413, said, request_id=error.request_id)
        except Exception:
            logger.exception("A request could not be served.")
            if not request.is_answered:
                await request.refuse(500, internal_error())

    async def _serve(self, request: HttpRequest) -> None:
        if await self._is_told(request):
            return
        path = request.scope["path"]
        place = route_of(path, self._surface)
        if place is None and path not in (MESSAGES, "/metrics"):
            await request.refuse(404, RpcError(INVALID_REQUEST, "There is nothing at this address"))
            return
        if not await self._reception.admit(request):
            return
        if place is None:
            await (self._sse.serve_message(request) if path == MESSAGES else self._measure(request))
            return
        chosen = request.principal.surface
        if chosen is not None:
            # The address has the last word: only where it says nothing, the key's is shown.
            place = route_of(path, chosen) or place
        request.face = place.face
        if place.wire == "sse":
            await self._sse.serve_stream(request)
            return
        version = request.headers.get("mcp-protocol-version")
        if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._handshake.serve(request)
        else:
            await self._modern.serve(request)

    async def _is_told(self, request: HttpRequest) -> bool:
        """Answer what is asked beside the protocol, and what comes from where it must not."""
        return (
            await self.health.respond(request)
            or not await admit_host(request, self._hosts)
            # Before it is asked which page sent it: any page may know where tokens are to be had.
            or await self._reception.describe(request)
            or not await admit_page(request, self._hosts)
            or (self._owners_desk is not None and await self._owners_desk.serve(request))
        )

    async def _measure(self, request: HttpRequest) -> None:
        if not may_operate(request.principal):
            said = RpcError(INVALID_REQUEST, "Metrics are for operators: the scope is `admin`.")
            await request.refuse(403, said, headers=self._reception.wants_scope("admin"))
            return
        await request.respond(200, await self._desk.metrics.page(), kind=CONTENT_TYPE)

    def _watch(self) -> None:
        metrics = self._desk.metrics
        metrics.watch(
            "requests_running",
            "Requests being answered.",
            (),
            lambda: {(): float(self._desk.running)},
        )
        metrics.watch(
            "tasks",
            "Tasks of the event loop.",
            (),
            lambda: {(): float(len(anyio.get_running_tasks()))},
        )
        metrics.watch(
            "sessions",
            "Sessions of the handshake era.",
            ("wire",),
            lambda: {
                ("http",): float(self._handshake.sessions),
                ("sse",): float(self._sse.sessions),
            },
        )
