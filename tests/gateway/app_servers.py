"""A server with MCP Apps: tools with pages, a tool that only its app calls, and marks of pages."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from pegboard.gateway import Face, Gateway, GatewayOptions, RpcError
from pegboard.hub import Hub
from pegboard.upstream import Era
from tests.gateway.clients import FULL, Caller
from tests.gateway.servers import Stall, hub

UI = "io.modelcontextprotocol/ui"
SHOWS: dict[str, Any] = {"extensions": {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}}
"""The capabilities of a client that shows apps."""
PAGE = "ui://clock/app.html"
NOT_FOUND = {"modern": -32602, "legacy": -32002}
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
MATRIX = pytest.mark.parametrize(
    ("era", "server_era"),
    [(era, of) for era in ("modern", "legacy") for of in ("modern", "legacy")],
)
MARKS: dict[str, Any] = {
    "ui": {
        "csp": {"connectDomains": ["https://time.example"], "resourceDomains": []},
        "permissions": {"geolocation": {}},
        "domain": "clock.example",
        "prefersBorder": True,
    },
    "example.org/kept": [1, None, "ü"],
}
"""What a page asks its host for."""
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"zone": {"type": "string"}}}


def tool(name: str, *, page: str | None = PAGE, **ui: Any) -> dict[str, Any]:
    """Return the definition of a tool with a page."""
    said = {"resourceUri": page, **ui} if page is not None else ui
    return {
        "name": name,
        "title": "Clock",
        "description": f"Shows the clock of {name}.",
        "inputSchema": SCHEMA,
        "icons": [{"src": "https://clock.example/icon.png", "sizes": ["48x48"]}],
        "annotations": {"readOnlyHint": True, "title": "Clock"},
        "_meta": {"ui": said, "example.org/kept": 1},
    }


class AppServer(Stall):
    """Counts its calls and answers them with the results that a test gives."""

    def __init__(self, *listed: Mapping[str, Any], label: str = "clock") -> None:
        super().__init__()
        self.label = label
        self.listed: list[Mapping[str, Any]] = list(listed) or [
            tool("show"),
            tool("tick", visibility=["app"]),
            tool("tell", visibility=["model"]),
            tool("flat", page=None),
            {"name": "plain", "inputSchema": SCHEMA},
        ]
        for it in self.listed:
            if it["name"] == "flat":
                it["_meta"]["ui/resourceUri"] = PAGE
        self.called: list[str] = []
        self.told: list[Mapping[str, Any]] = []
        """The capabilities of the client that the server was told of with each call."""
        self.pages = {PAGE: "<!doctype html>"}
        self.page_marks: Mapping[str, Any] = MARKS
        self.results: dict[str, dict[str, Any]] = {}
        self.templates = ["ui://{page}/view.html", "note://{name}"]

    async def _list_tools(self, _: Any, __: Any) -> dict[str, Any]:
        return {"tools": self.listed}

    async def _call(self, context: Any, params: Any) -> dict[str, Any]:
        self.called.append(params.name)
        said = context.session.client_params
        self.told.append({} if said is None else said.capabilities.model_dump(exclude_none=True))
        said_so = {"content": [{"type": "text", "text": f"{self.label} {params.name}"}]}
        return self.results.get(params.name, said_so)

    async def _list_resources(self, _: Any, __: Any) -> dict[str, Any]:
        pages = [{"uri": it, "name": it, "_meta": self.page_marks} for it in self.pages]
        return {"resources": [*pages, *({"uri": it, "name": it} for it in self.resources)]}

    async def _read(self, _: Any, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        if uri in self.pages:
            kind = "text/html;profile=mcp-app"
            page = {"uri": uri, "mimeType": kind, "text": f"{self.pages[uri]} of {self.label}"}
            return {"contents": [{**page, "_meta": self.page_marks}]}
        if uri not in self.resources:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "text": self.resources[uri]}]}


class Place:
    """A gateway before two servers with the same pages, and its clients."""

    def __init__(self, it: Hub, gateway: Gateway, disk: AppServer, other: AppServer) -> None:
        self.hub = it
        self.gateway = gateway
        self.disk = disk
        self.other = other

    def host(self, era: Era = "modern", face: Face = FULL, **options: Any) -> Caller:
        """Return a client that shows apps."""
        return Caller(self.gateway, era, face=face, **SHOWS, **options)

    def plain(self, era: Era = "modern", face: Face = FULL, **options: Any) -> Caller:
        """Return a client that shows none."""
        return Caller(self.gateway, era, face=face, **options)


@asynccontextmanager
async def place(
    options: GatewayOptions | None = None, *, server_era: Era = "modern", **fields: Any
) -> AsyncGenerator[Place]:
    disk, other = AppServer(label="disk"), AppServer(label="other")
    protocol = "legacy" if server_era == "legacy" else "auto"
    options = options or GatewayOptions()
    async with (
        hub(
            disk.config("disk", protocol=protocol, **fields),
            other.config("other", protocol=protocol),
            relays_apps=options.apps,
        ) as it,
        Gateway(it, options) as gateway,
    ):
        with anyio.fail_after(20):
            assert it.servers["disk"].era == server_era
            yield Place(it, gateway, disk, other)


async def listed(caller: Caller) -> dict[str, dict[str, Any]]:
    return {it["name"]: it for it in (await caller.send("tools/list"))["tools"]}


async def refused(caller: Caller, method: str, **params: Any) -> int:
    with pytest.raises(RpcError) as caught:
        await caller.send(method, **params)
    return caught.value.code
