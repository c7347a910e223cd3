"""Login: one-time links, the form for a key or a token, the choice of a language, logging out."""

from functools import partial
from urllib.parse import quote, unquote, urlsplit

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from pegboard.console.console_sessions import SESSION_SECONDS, ConsoleSessions, is_same
from pegboard.console.rendering import LANGUAGES, rendered
from pegboard.console.request import LANGUAGE_COOKIE, LOGIN, language_in, to_login
from pegboard.errors import UnauthenticatedError

__all__ = ["choose_language", "cookie_name", "enter", "log_out", "show"]

_ROOT = "/console"
_YEAR = 365 * 24 * 3600
_MOST_FIELDS = 8


def cookie_name(scope: Scope) -> str:
    """Return the name of the cookie; it has the port, because cookies are shared by ports."""
    server = scope.get("server")
    return f"pegboard_{server[1] if server else 0}"


async def show(request: Request) -> Response:
    """Show the form, or take the credential of a person and let the browser in."""
    sessions: ConsoleSessions = request.app.state.sessions
    following = _within(request.query_params.get("next", ""))
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method != "POST":
        # A link of another site leads here, so the browser has kept its cookie back. It sends the
        # cookie when this page leads on.
        # A header is ASCII, also if a link of another site is not.
        own = quote(following, safe="/?&=%+;,:@!$'()*~#[]")
        return HTMLResponse("", headers={"refresh": f"0; url={own}"})
    error = ""
    if request.method == "POST":
        form = await request.form(max_fields=_MOST_FIELDS, max_files=0)
        following = _within(str(form.get("next", "")))
        try:
            cookie = await sessions.log_in(str(form.get("credential", "")).strip())
        except UnauthenticatedError as failure:
            error = str(failure)
            source = "" if request.client is None else request.client.host
            request.app.state.sources.refused(failure, source)
        else:
            return _let_in(request, cookie, following)
    values = {
        "signed_in": False,
        "takes_credentials": sessions.takes_credentials,
        "error": error,
        "next": following,
        "path": request.url.path,
    }
    body = await anyio.to_thread.run_sync(
        partial(rendered, "login.html", language_in(request), values)
    )
    return Response(body, status_code=401 if error else 200, media_type="text/html")


async def enter(request: Request) -> Response:
    """Let in the browser that follows a one-time link."""
    sessions: ConsoleSessions = request.app.state.sessions
    cookie = sessions.follow_link(request.query_params.get("link", ""))
    following = _within(request.query_params.get("next", ""))
    if cookie is None:
        return to_login(following)
    return _let_in(request, cookie, following)


async def log_out(request: Request) -> Response:
    """End the session."""
    await _check_form(request)
    sessions: ConsoleSessions = request.app.state.sessions
    sessions.log_out(request.cookies.get(cookie_name(request.scope), ""))
    response = RedirectResponse(LOGIN, 303)
    response.delete_cookie(cookie_name(request.scope), path=_ROOT)
    return response


async def choose_language(request: Request) -> Response:
    """Keep the language that a person has chosen."""
    form = await request.form(max_fields=_MOST_FIELDS, max_files=0)
    chosen = str(form.get("language", ""))
    response = RedirectResponse(_within(str(form.get("next", ""))), 303)
    if chosen in LANGUAGES:
        response.set_cookie(
            LANGUAGE_COOKIE, chosen, max_age=_YEAR, path=_ROOT, httponly=True, samesite="strict"
        )
    return response


async def _check_form(request: Request) -> None:
    """Refuse a form that was not made for this session.

    Raises:
        UnauthenticatedError: when it was not.
    """
    session = request.scope.get("pegboard.session")
    form = await request.form(max_fields=_MOST_FIELDS, max_files=0)
    if session is None or not is_same(str(form.get("csrf", "")), session.csrf):
        words = "This form is of an earlier session. Load the page again."
        raise UnauthenticatedError(words, reason="invalid")


def _let_in(request: Request, cookie: str, following: str) -> Response:
    response = RedirectResponse(following, 303)
    response.set_cookie(
        cookie_name(request.scope),
        cookie,
        max_age=int(SESSION_SECONDS),
        path=_ROOT,
        httponly=True,
        samesite="strict",
        # A proxy may have ended the TLS; the browser knows what it speaks.
        secure=request.headers.get("origin", "").startswith("https:"),
    )
    return response


def _within(path: str) -> str:
    """Return a path of the console; for anything else, the first page."""
    try:
        parts = urlsplit(path)
    except ValueError:
        return _ROOT
    is_own = not parts.scheme and not parts.netloc and "\\" not in path
    is_page = parts.path == _ROOT or parts.path.startswith(f"{_ROOT}/")
    # A browser goes up for `..`, also if its dots are escaped.
    goes_up = ".." in unquote(parts.path).split("/")
    return path if is_own and is_page and not goes_up and path.isprintable() else _ROOT
