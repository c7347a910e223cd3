"""Console: the web application under ``/console``, with its routes, headers and errors."""

import logging
import mimetypes
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from pegboard.console.config_plans import ConfigPlans
from pegboard.console.console_sessions import ConsoleSession, ConsoleSessions
from pegboard.console.diagnoses import Diagnoses
from pegboard.console.live_updates import LiveUpdates
from pegboard.console.page_turns import PageTurns
from pegboard.console.pages import (
    board,
    calls,
    configuration,
    cost,
    health,
    keys,
    login,
    results,
    search,
    server,
    tools,
    waiting,
)
from pegboard.console.rendering import rendered
from pegboard.console.request import Page, language_in, page
from pegboard.console.sources import Sources
from pegboard.console.trials.result_media import ResultMedia
from pegboard.errors import PegboardError
from pegboard.gateway.request import RpcError

__all__ = ["PREFIX", "Console"]

logger: logging.Logger = logging.getLogger("pegboard.console")

PREFIX = "/console"
_STATIC = Path(__file__).parent / "static"
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        b"object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_SAFE = ("GET", "HEAD")
_BOTH = ("GET", "POST")


class Console:
    """The pages of one gateway, as an ASGI application.

    Args:
        sources: where the pages read what they show.
        sessions: who was let in.
    """

    def __init__(self, sources: Sources, sessions: ConsoleSessions) -> None:
        self._sessions = sessions
        self._updates = LiveUpdates(sources, self.session_of)
        self._app = Starlette(routes=_routes(self._updates), exception_handlers=_errors())
        self._app.state.sources = sources
        self._app.state.sessions = sessions
        self._app.state.turns = PageTurns()
        self._app.state.costs = {}
        self._app.state.media = ResultMedia()
        self._app.state.plans = ConfigPlans()
        self._app.state.diagnoses = Diagnoses()
        self._app.state.issued = keys.IssuedKeys()
        # Reads files, which the first response with a file must not do on the event loop.
        mimetypes.init()

    async def session_of(self, scope: Scope) -> ConsoleSession | None:
        """Return the session of a request; ``None`` for a browser that was not let in."""
        cookie = Request(scope).cookies.get(login.cookie_name(scope), "")
        return await self._sessions.find(cookie) if cookie else None

    def make_link(self) -> str:
        """Return the path of a new link, which lets one browser in, once, as the local owner."""
        return f"{PREFIX}/enter?link={self._sessions.make_link()}"

    def end_streams(self) -> None:
        """End the open streams of pages, so that the server can shut down."""
        self._updates.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; its session is in ``scope["pegboard.session"]``."""
        is_static = scope["path"].startswith(f"{PREFIX}/static/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = b"no-cache" if is_static else b"no-store"
                message["headers"] = [*message["headers"], *_HEADERS, (b"cache-control", kept)]
            await send(message)

        request = Request(scope, receive)
        refused = None if request.method in _SAFE else await _foreign(request)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


async def _foreign(request: Request) -> Response | None:
    """Return the refusal of a change that a page of another origin sends."""
    # A browser may leave out one of the two. The scheme of the origin does not count: a proxy may
    # have ended the TLS.
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    is_own = origin is None or origin.partition("://")[2] == request.headers.get("host")
    if is_own and (site == "same-origin" or (site is None and origin is not None)):
        return None
    return await _told(request, 403, "This form was sent by a page of another address.")


def _routes(updates: LiveUpdates) -> list[Route | Mount]:
    def route(path: str, show: Page, *, name: str, methods: tuple[str, ...] = ("GET",)) -> Route:
        return Route(f"{PREFIX}{path}", page(show), name=name, methods=list(methods))

    return [
        route("", board.show, name="board"),
        route("/servers/{name:path}", server.show, name="server", methods=_BOTH),
        route("/tools", tools.show, name="tools"),
        route("/tools/{name:path}", tools.show_one, name="tool", methods=("GET", "POST")),
        Route(f"{PREFIX}/results/{{key}}", results.show, name="result"),
        route("/search", search.show, name="search"),
        route("/tools.jsonl", search.export_tools, name="export-tools"),
        route("/calls", calls.show, name="calls"),
        route("/calls.json", calls.export, name="export"),
        route("/calls/{id}", calls.show_one, name="call"),
        route("/waiting", waiting.show, name="waiting", methods=("GET", "POST")),
        route("/cost", cost.show, name="cost"),
        route("/keys", keys.show, name="keys", methods=_BOTH),
        route("/configuration", configuration.show, name="configuration", methods=_BOTH),
        route("/configuration/plans/{id}", configuration.show_plan, name="plan", methods=_BOTH),
        route("/health", health.show, name="health"),
        route("/find", tools.find, name="find"),
        route("/updates", updates.stream, name="updates"),
        Route(f"{PREFIX}/login", login.show, name="login", methods=["GET", "POST"]),
        Route(f"{PREFIX}/enter", login.enter, name="enter"),
        Route(f"{PREFIX}/language", login.choose_language, name="language", methods=["POST"]),
        Route(f"{PREFIX}/logout", login.log_out, name="logout", methods=["POST"]),
        Mount(f"{PREFIX}/static", StaticFiles(directory=_STATIC), name="static"),
    ]


_Handler = Callable[[Request, Exception], Awaitable[Response]]


def _errors() -> dict[type[Exception], _Handler]:
    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = await _told(request, error.status_code, error.detail)
        response.headers.update(error.headers or {})
        return response

    async def ours(request: Request, error: Exception) -> Response:
        return await _told(request, 400, str(error))

    async def any_error(request: Request, error: Exception) -> Response:
        logger.error("page_failed: %s", request.url.path, exc_info=error)
        return await _told(request, 500, "This page failed; the log of the gateway says why.")

    async def gone(_request: Request, _error: Exception) -> Response:
        # The browser has left in the middle of a form.
        return Response(status_code=400)

    return {
        HTTPException: http,
        ClientDisconnect: gone,
        PegboardError: ours,
        RpcError: ours,
        Exception: any_error,
    }


async def _told(request: Request, status: int, words: str) -> Response:
    values = {
        "status": status,
        "phrase": HTTPStatus(status).phrase,
        "words": words,
        "signed_in": request.scope.get("pegboard.session") is not None,
        "path": request.url.path,
    }
    language = language_in(request)
    body = await anyio.to_thread.run_sync(partial(rendered, "error.html", language, values))
    return Response(body, status_code=status, media_type="text/html")
