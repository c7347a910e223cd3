"""A gateway with tools of this process, its console on a real socket, and the owner's browser."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec

from pegboard.config import ServerConfig
from pegboard.console.console import Console
from pegboard.console.console_sessions import ConsoleSessions
from pegboard.console.sources import Sources
from pegboard.gateway import Gateway
from pegboard.hub import Hub
from pegboard.server import App, RequestPipeline
from pegboard.server.http.console_entry import ConsoleEntry
from tests.gateway.servers import hub
from tests.server.serving import served


class ToolSite(msgspec.Struct, frozen=True, kw_only=True):
    """A served console, with the browser of the owner."""

    hub: Hub
    gateway: Gateway
    browser: httpx2.AsyncClient

    async def open(self, tool: str) -> "PageRead":
        """Return the page of a tool."""
        response = await self.browser.get(address(tool))
        assert response.status_code == 200, response.text
        return PageRead.of(response.text)

    async def send(self, tool: str, **fields: str) -> "PageRead":
        """Send the form of a tool with these fields, as a browser without JavaScript."""
        page = await self.open(tool)
        sent = {"csrf": page.controls["csrf"], "f": "1", "do": "call", **fields}
        response = await self.browser.post(address(tool), data=sent)
        assert response.status_code == 200, response.text
        return PageRead.of(response.text)


class PageRead(msgspec.Struct, frozen=True, kw_only=True):
    """What is on a page: its controls, its elements, and its text."""

    html: str
    controls: Mapping[str, str]
    elements: tuple[tuple[str, Mapping[str, str]], ...]
    text: str

    @classmethod
    def of(cls, html: str) -> "PageRead":
        """Read a page."""
        parser = _Parser()
        parser.feed(html)
        return cls(
            html=html,
            controls=parser.controls,
            elements=tuple(parser.elements),
            text="".join(parser.words),
        )

    def values(self, tag: str, name: str) -> list[str]:
        """Return an attribute of all elements of a kind."""
        return [it[name] for found, it in self.elements if found == tag and name in it]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.controls: dict[str, str] = {}
        self.elements: list[tuple[str, Mapping[str, str]]] = []
        self.words: list[str] = []
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag in ("input", "textarea", "select") and "name" in given:
            self.controls[given["name"]] = given.get("value", "")
            self._area = given["name"] if tag == "textarea" else ""

    def handle_endtag(self, tag: str) -> None:
        self._area = ""

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._area:
            self.controls[self._area] += data.removeprefix("\n")


def address(tool: str) -> str:
    """Return the path of the page of a tool."""
    return f"/console/tools/{quote(tool, safe='')}"


@asynccontextmanager
async def site(*configs: ServerConfig, **options: Any) -> AsyncGenerator[ToolSite]:
    """Serve a console in front of servers."""
    async with hub(*configs, **options) as opened, Gateway(opened) as gateway:
        pipeline = RequestPipeline(gateway)
        metrics = pipeline.metrics
        sources = Sources(
            gateway=gateway,
            respond=pipeline.respond,
            numbers=metrics.calls,
            latencies=metrics.latencies,
            limits=metrics.limits,
            running=lambda: (),
        )
        sessions = ConsoleSessions()
        app = App(pipeline)
        app.console = ConsoleEntry(lambda: Console(sources, sessions))
        async with (
            served(app) as url,
            httpx2.AsyncClient(base_url=url, headers={"origin": url}, timeout=10) as browser,
        ):
            entered = await browser.get(f"/console/enter?link={sessions.make_link()}")
            assert entered.status_code == 303
            yield ToolSite(hub=opened, gateway=gateway, browser=browser)
