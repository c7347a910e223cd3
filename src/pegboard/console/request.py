"""PageRequest: a request of a browser with its session, its tenant and what it may see."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import anyio.to_thread
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pegboard.console.console_sessions import ConsoleSession, is_same
from pegboard.console.rendering import Language, language_of, rendered
from pegboard.console.sources import Sources
from pegboard.gateway.tenants import Tenant
from pegboard.gateway.visibility import Visibility
from pegboard.model.principal import Principal, Scope
from pegboard.policies import holds, may_operate

if TYPE_CHECKING:
    from pegboard.console.page_turns import PageTurns

__all__ = ["LANGUAGE_COOKIE", "LOGIN", "Page", "PageRequest", "language_in", "page", "to_login"]

LANGUAGE_COOKIE = "pegboard_language"
LOGIN = "/console/login"
_MOST_FIELDS = 500


class PageRequest:
    """A request for a page, by a person who was let in."""

    def __init__(self, request: Request, session: ConsoleSession, tenant: Tenant) -> None:
        self.request: Request = request
        self.session: ConsoleSession = session
        self.tenant: Tenant = tenant
        self.visibility: Visibility = Visibility(session.principal)

    @property
    def sources(self) -> Sources:
        """Where pages read what they show."""
        return self.request.app.state.sources

    @property
    def principal(self) -> Principal:
        """Who looks."""
        return self.session.principal

    @property
    def operates(self) -> bool:
        """Whether the person may see all of the gateway, such as why a server is down."""
        return may_operate(self.principal)

    @property
    def language(self) -> Language:
        """The language of the page."""
        return language_in(self.request)

    @property
    def edits(self) -> bool:
        """Whether the person may change the servers of the tenant."""
        everything = "*" in self.principal.servers and "*" in self.principal.tools
        return everything and self.may("admin")

    def may(self, scope: Scope) -> bool:
        """Tell whether the person has a scope."""
        return holds(self.principal, scope)

    def need(self, scope: Scope) -> None:
        """Refuse a person who lacks a scope.

        Raises:
            HTTPException: 403.
        """
        if not self.may(scope):
            raise HTTPException(403, f"This page needs the scope `{scope}`, which you lack.")

    def asked(self, name: str) -> str:
        """Return a parameter of the query, or ``""``."""
        return self.request.query_params.get(name, "")

    async def form(self) -> FormData:
        """Return the form that was sent.

        Raises:
            HTTPException: 403 for a form that was not made for this session.
        """
        form = await self.request.form(max_fields=_MOST_FIELDS, max_files=0)
        if not is_same(str(form.get("csrf", "")), self.session.csrf):
            raise HTTPException(403, "This form is of an earlier session. Load the page again.")
        return form

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait until the tenant may make one more page."""
        turns: PageTurns = self.request.app.state.turns
        return turns.take(self.principal.tenant)

    def note(self, action: str, target: str) -> None:
        """Record a change in the audit."""
        if self.sources.audit is not None:
            principal = self.principal
            self.sources.audit.note(
                action, "done", principal=principal, target=target, source="console"
            )

    async def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page, rendered in a thread."""
        body = await self.render(template, **values)
        return Response(body, status_code=status, media_type="text/html")

    async def render(self, template: str, **values: Any) -> bytes:
        """Return a page or a part of one, rendered in a thread."""
        session, request = self.session, self.request
        given: Mapping[str, Any] = {
            "who": session.principal.subject,
            "tenant": session.principal.tenant,
            "csrf": session.csrf,
            "operates": self.operates,
            "can_call": self.may("call"),
            "administers": self.may("admin"),
            "edits": self.edits,
            "path": request.url.path,
            "query": request.url.query,
            "signed_in": True,
            **values,
        }
        return await anyio.to_thread.run_sync(partial(rendered, template, self.language, given))


def to_login(following: str) -> Response:
    """Return what leads a browser to the login, and from there to a page."""
    return RedirectResponse(f"{LOGIN}?{urlencode({'next': following})}", 303)


Page = Callable[[PageRequest], Awaitable[Response]]


def page(show: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a page: a browser without a session is sent to the login."""

    async def endpoint(request: Request) -> Response:
        session: ConsoleSession | None = request.scope.get("pegboard.session")
        if session is None:
            wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return to_login(wanted)
        sources: Sources = request.app.state.sources
        tenant = await sources.gateway.tenant_of(session.principal)
        with tenant:
            asked = PageRequest(request, session, tenant)
            if request.method == "POST":
                # What it changes or calls may take long.
                return await show(asked)
            async with asked.turn():
                return await show(asked)

    return endpoint


def language_in(request: Request) -> Language:
    """Return the language that a browser asks for."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    return language_of(chosen, request.headers.get("accept-language", "")[:100])
