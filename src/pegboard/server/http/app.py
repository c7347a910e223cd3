"""App: the ASGI application, which dispatches each HTTP request by its path."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

import anyio
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

from pegboard.errors import RateLimitedError
from pegboard.gateway.request import RpcError, Surface
from pegboard.policies import may_operate
from pegboard.policies.fair_share import FairShare
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.console_entry import CONSOLE, ConsoleEntry
from pegboard.server.http.cors import admit_page
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.health import HEALTH_PATHS, Health
from pegboard.server.http.host_check import HostCheck
from pegboard.server.http.local_api import OWNER_PREFIX, LocalApi
from pegboard.server.http.request import (
    ClientGoneError,
    HttpRequest,
    Limits,
    retry_after,
    too_many_requests,
)
from pegboard.server.http.routes import route_of
from pegboard.server.http.sessions import LegacyHttp
from pegboard.server.http.sse import MESSAGES, SseHttp
from pegboard.server.http.stateless import StatelessHttp
from pegboard.server.jsonrpc import internal_error
from pegboard.server.message_limits import BodyTooLargeError
from pegboard.server.metrics import CONTENT_TYPE
from pegboard.server.request_pipeline import RATE_LIMITED, RequestPipeline

if TYPE_CHECKING:
    from pegboard.server.http.discovery.discovery import Discovery

__all__ = ["App"]

logger: logging.Logger = logging.getLogger("pegboard.server")

Serve = Callable[[HttpRequest], Awaitable[None]]


class App:
    """The whole HTTP interface of a gateway: open it, then let an ASGI server serve it."""

    def __init__(
        self,
        pipeline: RequestPipeline,
        *,
        authenticator: HttpAuthenticator | None = None,
        hosts: HostCheck | None = None,
        limits: Limits | None = None,
        surface: Surface = "search",
        local_api: LocalApi | None = None,
    ) -> None:
        limits = Limits() if limits is None else limits
        self._pipeline = pipeline
        self._authenticator = HttpAuthenticator() if authenticator is None else authenticator
        self._hosts = HostCheck() if hosts is None else hosts
        self._surface: Surface = surface
        self._local_api = local_api
        self._disconnects = DisconnectWatcher(self._authenticator.still_admits)
        self._modern = StatelessHttp(
            pipeline,
            authenticator=self._authenticator,
            disconnects=self._disconnects,
            limits=limits,
        )
        self._requests = FairShare(
            "requests", limits.connections, setting="gateway.limits.connections"
        )
        self._unread = FairShare(
            "unread bytes", limits.unread_total, setting="gateway.limits.unread_total"
        )
        self._sessions = FairShare("sessions", limits.sessions, setting="gateway.limits.sessions")
        self._handshake = LegacyHttp(
            pipeline, disconnects=self._disconnects, limits=limits, shares=self._sessions
        )
        self._sse = SseHttp(
            pipeline,
            disconnects=self._disconnects,
            limits=limits,
            sessions=self._sessions,
            requests=self._requests,
            make_room=self._handshake.make_room,
        )
        self.health: Health = Health(pipeline)
        """Liveness and readiness; the shutdown sets ``is_stopping`` on it."""
        self.discovery: Discovery | None = None
        """Serves what the gateway publishes about itself, if it publishes anything."""
        self.console: ConsoleEntry | None = None
        """Serves pages for people, unless they are switched off."""
        self._watch()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """Serve for as long as this is open; then all running requests are cancelled."""
        async with self._disconnects.open(), self._handshake.open(), self._sse.open():
            yield self

    async def end_streams(self) -> None:
        """End what does not end by itself: open streams, and calls that took too long."""
        if self.console is not None:
            self.console.end_streams()
        await self._sse.end_all()
        self._disconnects.cancel_all()
        self._handshake.end_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            raise NotImplementedError(f"Nothing here speaks {scope['type']!r}.")
        request = HttpRequest(scope, receive, send)
        request.unread = self._unread
        try:
            serve = await self._find(request)
            if serve is not None:
                holder, shares = request.caller, self._requests
                if not shares.admits(holder) and not request.is_local:
                    await request.refuse_beyond(too_many_requests())
                    return
                request.on_large = self._pipeline.check_limits
                shares.add(holder)
                try:
                    await serve(request)
                finally:
                    shares.remove(holder)
                # Calls were counted by the pipeline, and other requests are free unless refused.
                if request.is_refused:
                    self._pipeline.count_refused(request.principal)
        except RateLimitedError as error:
            said = RpcError(RATE_LIMITED, str(error), {"retryAfter": error.retry_after})
            await request.refuse(429, said, headers=[retry_after(error.retry_after)])
        except ClientGoneError:
            pass
        except BodyTooLargeError as error:
            # The connection stays open and the rest of the body is discarded: closing it now would
            # reset it, and the client would never read the error.
            self._pipeline.count_refused(request.principal)
            said = RpcError(INVALID_REQUEST, str(error))
            await request.refuse(413, said, request_id=error.request_id)
        except Exception:
            logger.exception("A request could not be served.")
            if not request.is_answered:
                await request.refuse(500, internal_error())

    async def _find(self, request: HttpRequest) -> Serve | None:
        """Return what serves a request, by the part of the gateway that it is for."""
        discovery, console = self.discovery, self.console
        path: str = request.scope["path"]
        if console is not None and (path == CONSOLE or path.startswith(f"{CONSOLE}/")):
            return await self._route_console(request, console)
        if discovery is not None and discovery.takes(request):
            return await self._route_discovery(request)
        return await self._route(request)

    async def _route(self, request: HttpRequest) -> Serve | None:
        """Return what serves a request; ``None`` if the request has its response already."""
        if await self._is_settled(request):
            return None
        path = request.scope["path"]
        route = route_of(path, self._surface)
        if route is None and path not in (MESSAGES, "/metrics"):
            await request.refuse(404, RpcError(INVALID_REQUEST, "There is nothing at this address"))
            return None
        if not await self._authenticator.admit(request):
            return None
        if route is None:
            return self._sse.serve_message if path == MESSAGES else self._measure
        chosen = request.principal.surface
        if chosen is not None:
            # The path has the last word: the surface of the key counts only for the plain path.
            route = route_of(path, chosen) or route
        request.face = route.face
        if route.wire == "sse":
            return self._sse.serve_stream
        version = request.headers.get("mcp-protocol-version")
        is_legacy = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        return self._handshake.serve if is_legacy else self._modern.serve

    async def _route_discovery(self, request: HttpRequest) -> Serve | None:
        """Return what serves a request for what the gateway publishes about itself."""
        discovery = self.discovery
        if discovery is None or not await self._hosts.admit(request):
            return None
        public = discovery.find_public(request)
        if public is not None:
            return public
        if "origin" in request.headers and not await admit_page(request, self._hosts):
            return None
        if not await self._authenticator.admit(request):
            return None
        found = discovery.find(request.principal)
        if found is None:
            said = RpcError(INVALID_REQUEST, "The registry needs the scope `read`.")
            await request.refuse(403, said, headers=self._authenticator.wants_scope("read"))
        return found

    async def _route_console(self, request: HttpRequest, console: ConsoleEntry) -> Serve | None:
        """Return what serves a page; who is not let in by a cookie is shown how to get in."""
        if not await self._hosts.admit(request):
            return None
        await console.identify(request)
        return console.serve

    async def _is_settled(self, request: HttpRequest) -> bool:
        """Respond to requests beside the protocol, and to those from forbidden hosts or origins."""
        path = request.scope["path"]
        if path in HEALTH_PATHS:
            await self.health.respond(request)
            return True
        local_api = self._local_api if path.startswith(OWNER_PREFIX) else None
        return (
            not await self._hosts.admit(request)
            # Before the origin check: any page may read where tokens are issued.
            or await self._authenticator.describe(request)
            or ("origin" in request.headers and not await admit_page(request, self._hosts))
            or (local_api is not None and await local_api.serve(request))
        )

    async def _measure(self, request: HttpRequest) -> None:
        if not may_operate(request.principal):
            said = RpcError(INVALID_REQUEST, "Metrics are for operators: the scope is `admin`.")
            await request.refuse(403, said, headers=self._authenticator.wants_scope("admin"))
            return
        await request.respond(200, await self._pipeline.metrics.page(), kind=CONTENT_TYPE)

    def _watch(self) -> None:
        metrics = self._pipeline.metrics
        metrics.watch_limits(
            lambda: [it.use() for it in (self._requests, self._sessions, self._unread)]
        )
        metrics.watch(
            "requests_running",
            "Requests being answered.",
            (),
            lambda: {(): float(self._pipeline.running)},
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
