"""A gateway with its console on a real socket of this machine, and browsers without a window."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec

from pegboard.auth import (
    ApiKeys,
    AuthSettings,
    CredentialAuthenticator,
    KeyGrant,
    open_authenticator,
)
from pegboard.console.console import Console
from pegboard.console.console_sessions import ConsoleSessions
from pegboard.console.sources import Sources
from pegboard.model.principal import OPERATOR, Scope
from pegboard.server import App, HttpAuthenticator, ServeOptions, Serving, open_serving
from pegboard.server.http.console_entry import ConsoleEntry
from pegboard.server.http.host_check import HostCheck
from pegboard.server.http.local_api import LocalApi, LocalToken
from pegboard.storage import open_store
from tests.server.serving import served

OWNER = "owner"


class Clock:
    """A clock that a test turns."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A served console."""

    url: str
    serving: Serving
    sessions: ConsoleSessions
    app: App
    keys: ApiKeys | None
    clock: Clock
    local_token: LocalToken
    refusals: list[tuple[str, str]]
    """Why logins were refused, and where they came from."""

    def browser(self, **options: Any) -> httpx2.AsyncClient:
        """Return a browser that keeps cookies and tells where its forms come from."""
        return httpx2.AsyncClient(
            base_url=self.url,
            headers={"origin": self.url, "sec-fetch-site": "same-origin"},
            timeout=10,
            **options,
        )

    def link(self) -> str:
        """Return the path of a new one-time link."""
        return f"/console/enter?link={self.sessions.make_link()}"

    def key(self, *scopes: Scope, **grant: Any) -> str:
        """Return the secret of a new key."""
        assert self.keys is not None
        return self.keys.create(KeyGrant(scopes=scopes, **grant)).secret

    @asynccontextmanager
    async def visit(self, who: str = OWNER, **grant: Any) -> AsyncGenerator[httpx2.AsyncClient]:
        """Give a browser of the owner, of a person with a scope, or of no one (``"none"``)."""
        async with self.browser() as browser:
            if who == OWNER:
                assert (await browser.get(self.link())).status_code == 303
            elif who != "none":
                scope = msgspec.convert(who, Scope)
                key = await anyio.to_thread.run_sync(lambda: self.key(scope, **grant))
                response = await log_in(browser, key)
                assert response.status_code == 303, response.text
            yield browser


@asynccontextmanager
async def console(
    folder: Path,
    servers: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    keys: bool = True,
    hosts: HostCheck | None = None,
    **gateway: Any,
) -> AsyncGenerator[Site]:
    """Serve a gateway with some servers and its console; it keeps what it has in a folder.

    The servers are those of ``file``, if one is given.
    """
    storage = f"sqlite:///{folder / 'store.db'}"
    options = ServeOptions(
        config=str(file) if file else {"mcpServers": dict(servers or {}), "gateway": gateway},
        storage=storage,
        log_folder=str(folder / "log"),
    )
    settings = AuthSettings(keys=keys)
    clock, local_token = Clock(), LocalToken()
    refusals: list[tuple[str, str]] = []
    store = await anyio.to_thread.run_sync(lambda: open_store(storage, tenant=OPERATOR))
    issued = await anyio.to_thread.run_sync(ApiKeys, store)
    try:
        async with (
            open_serving(options) as serving,
            open_authenticator(settings, storage=storage) as authenticator,
        ):
            with anyio.fail_after(30):
                await serving.startup.run()
            metrics = serving.pipeline.metrics
            sources = Sources(
                gateway=serving.gateway,
                respond=serving.pipeline.respond,
                numbers=metrics.calls,
                latencies=metrics.latencies,
                limits=metrics.limits,
                running=lambda: tuple(serving.reporter.running.values()),
                calls=serving.calls,
                log_folder=folder / "log",
                keys=authenticator.keys
                if isinstance(authenticator, CredentialAuthenticator)
                else issued,
                asks_for_keys=keys,
                audit=serving.audit,
                refused=lambda error, source: refusals.append((error.reason, source)),
                config=options.config,
                tenants=serving.tenants,
            )
            sessions = ConsoleSessions(authenticator.authenticate if keys else None, clock=clock)
            entry = ConsoleEntry(lambda: Console(sources, sessions))
            app = App(
                serving.pipeline,
                authenticator=HttpAuthenticator(
                    authenticator, settings=settings, local_token=local_token
                ),
                hosts=hosts,
                local_api=LocalApi(
                    serving.hub,
                    startup=serving.startup,
                    local_token=local_token,
                    limits=metrics.limits,
                    calls=serving.calls,
                    numbers=metrics.calls,
                    console=entry,
                ),
            )
            app.console = entry
            async with served(app) as url:
                yield Site(
                    url=url,
                    serving=serving,
                    sessions=sessions,
                    app=app,
                    keys=issued,
                    clock=clock,
                    local_token=local_token,
                    refusals=refusals,
                )
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(issued.close)
            await anyio.to_thread.run_sync(store.close)


async def log_in(browser: httpx2.AsyncClient, key: str, following: str = "") -> httpx2.Response:
    """Send the form of the login."""
    return await browser.post("/console/login", data={"credential": key, "next": following})


async def csrf_of(browser: httpx2.AsyncClient) -> str:
    """Return what the forms of a session send back."""
    found = fields_in((await browser.get("/console/search")).text)["csrf"]
    assert found
    return found


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("type") == "hidden":
            self.found[given.get("name") or ""] = given.get("value") or ""


def fields_in(page: str) -> dict[str, str]:
    """Return the hidden fields of a page."""
    parser = _Fields()
    parser.feed(page)
    return parser.found


class _Tables(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data.strip()


def rows_in(page: str) -> list[list[str]]:
    """Return the cells of all tables of a page, row by row."""
    parser = _Tables()
    parser.feed(page)
    return parser.rows
