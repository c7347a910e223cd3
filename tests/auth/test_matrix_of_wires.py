"""The scopes, by every method, over every wire: each gives the same verdict, in the same words."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio
import httpx2
import pytest

from pegboard import Hub
from pegboard.gateway import Gateway
from pegboard.gateway.builtin_tool import OWN_NAMES
from pegboard.model.principal import ALL_SCOPES, Principal, Scope
from pegboard.policies.access import IMPLIED, METHODS
from pegboard.server import App, HttpAuthenticator, RequestPipeline
from pegboard.upstream import NoCatalogCache
from tests.gateway.servers import Stall, hub
from tests.server.serving import TAKES_BOTH, modern_headers, modern_request, served
from tests.upstream.board_servers import Bench, memory

ABSENT = "mcp_shop_absent"
URI, NO_URI = "shop+note://one", "shop+note://absent"
UPSTREAM = "This is the tool of a server."
METHOD_NOT_FOUND = -32601

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def requests() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return each method, and each tool of the gateway, for what exists and for what does not."""

    def completing(name: str) -> dict[str, Any]:
        argument = {"name": "who", "value": "y"}
        return {"ref": {"type": "ref/prompt", "name": name}, "argument": argument}

    def listening(uri: str) -> dict[str, Any]:
        return {"notifications": {"toolsListChanged": True, "resourceSubscriptions": [uri]}}

    of_methods: dict[str, list[dict[str, Any]]] = {
        "tools/call": [{"name": "mcp_shop_ask"}, {"name": ABSENT}],
        "prompts/get": [{"name": "mcp_shop_greet"}, {"name": ABSENT}],
        "completion/complete": [completing("mcp_shop_greet"), completing(ABSENT)],
        "subscriptions/listen": [listening(URI), listening(NO_URI)],
        "resources/read": [{"uri": URI}, {"uri": NO_URI}],
        "resources/subscribe": [{"uri": URI}, {"uri": NO_URI}],
        "resources/unsubscribe": [{"uri": URI}, {"uri": NO_URI}],
    }
    asked: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name in METHODS:
        if name in OWN_NAMES:
            given = [{"name": "mcp_shop_ask", "tool_name": "mcp_shop_ask"}, {"name": ABSENT}]
            asked[name] = [("tools/call", {"name": name, "arguments": it}) for it in given]
        else:
            asked[name] = [(name, it) for it in of_methods.get(name, [{}])]
    return asked


class ByName:
    """Knows callers by their scope and tenant, which are their credential."""

    async def authenticate(self, credential: str | None) -> Principal:
        scope, tenant = str(credential).split("@")
        held: frozenset[Scope] = frozenset(it for it in ALL_SCOPES if it == scope)
        return Principal(tenant=tenant, subject=str(credential), scopes=held)


def upstream(_: dict[str, Any]) -> str:
    return UPSTREAM


@asynccontextmanager
async def served_gateway() -> AsyncGenerator[str]:
    """Serve a shop, and a server whose tools are called like those of the gateway."""
    bare = Bench()
    bare.tools = dict.fromkeys(OWN_NAMES, upstream)
    configs = (Stall().config("shop"), memory("bare", bare, prefix=""))

    def open_tenant(name: str) -> Hub | None:
        return Hub.open([], catalog_cache=NoCatalogCache()) if name == "other" else None

    async with (
        hub(*configs) as board,
        Gateway(board, open_tenant=open_tenant) as gateway,
        served(App(RequestPipeline(gateway), authenticator=HttpAuthenticator(ByName()))) as url,
    ):
        yield url


class Wire(Protocol):
    """Sends a request, and returns the message that answers it."""

    async def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]: ...


class Modern:
    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self._client, self._url = client, url

    async def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = modern_request(method, params)
        headers = modern_headers(body)
        async with self._client.stream("POST", self._url, json=body, headers=headers) as response:
            if response.headers["content-type"] == "application/json":
                message = json.loads(await response.aread())
                assert (response.status_code == 403) == (scope_in(message) is not None)
                return message
            return await anext(messages(response))


class Handshake:
    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self._client, self._url = client, url
        self._headers = dict(TAKES_BOTH)

    async def open(self) -> None:
        _, response = await self._post("initialize", INITIALIZE)
        self._headers["mcp-session-id"] = response.headers["mcp-session-id"]

    async def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return (await self._post(method, params))[0]

    async def _post(
        self, method: str, params: dict[str, Any]
    ) -> tuple[dict[str, Any], httpx2.Response]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        post = self._client.stream("POST", self._url, json=body, headers=self._headers)
        async with post as response:
            return await anext(messages(response)), response


class Sse:
    def __init__(self, client: httpx2.AsyncClient, url: str, stream: httpx2.Response) -> None:
        self._client, self._url = client, url
        self._lines = stream.aiter_lines()
        self._address = ""

    async def open(self) -> None:
        self._address = self._url + await self._next()
        await self.send("initialize", INITIALIZE)

    async def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        posted = await self._client.post(self._address, json=body, headers=TAKES_BOTH)
        assert posted.status_code == 202
        return json.loads(await self._next())

    async def _next(self) -> str:
        while not (line := await anext(self._lines)).startswith("data: "):
            pass
        return line.removeprefix("data: ")


async def messages(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """Read the messages of an event stream."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@asynccontextmanager
async def wires(url: str, credential: str, surface: str) -> AsyncGenerator[dict[str, Wire]]:
    """Connect one caller in every way."""
    headers = {"x-api-key": credential}
    async with (
        httpx2.AsyncClient(headers=headers) as client,
        client.stream("GET", f"{url}/sse-{surface}") as stream,
    ):
        address = f"{url}/mcp-{surface}"
        sse, handshake = Sse(client, url, stream), Handshake(client, address)
        await sse.open()
        await handshake.open()
        yield {"modern": Modern(client, address), "handshake": handshake, "sse": sse}


def scope_in(message: dict[str, Any]) -> str | None:
    """Return the scope that an error says is missing."""
    match message:
        case {"error": {"data": {"code": "access_denied", "scope": str(scope)}}}:
            return scope
        case _:
            return None


def verdict(message: dict[str, Any]) -> str:
    """Return which scope is missing, or that none is; of a call, whose tool it was."""
    error = message.get("error")
    if error is None:
        content = message.get("result", {}).get("content", [{}])
        return "upstream" if content[0].get("text") == UPSTREAM else "let through"
    if scope_in(message) is not None:
        return f"{error['code']} {error['message']} {error['data']}"
    return "no such method" if error["code"] == METHOD_NOT_FOUND else "let through"


def refusal(scope: Scope) -> str:
    data = {"code": "access_denied", "scope": scope}
    return f"-32600 This needs the scope {scope!r}, which you do not have. {data}"


def expected(name: str, scope: str, surface: str, tenant: str) -> str:
    is_upstream = name in OWN_NAMES and surface == "full"
    needed = "call" if is_upstream else METHODS[name]
    if scope not in IMPLIED[needed] and not (name == "tools/list" and scope == "register"):
        return refusal(needed)
    return "upstream" if is_upstream and tenant == "default" else "let through"


ONLY_MODERN = {"subscriptions/listen", "tasks/update"}
ONLY_HANDSHAKE = {"resources/subscribe", "resources/unsubscribe", "tasks/list", "tasks/result"}


@pytest.mark.covers("R-REG-39")
@pytest.mark.parametrize("surface", ["search", "full"])
@pytest.mark.parametrize("tenant", ["default", "other"])
@pytest.mark.parametrize("scope", ["none", "read", "call", "register", "admin"])
async def test_a_missing_scope_is_named_by_every_wire_whatever_is_asked_for(
    scope: str, tenant: str, surface: str
) -> None:
    found: dict[tuple[str, str, int], str] = {}
    wanted: dict[tuple[str, str, int], str] = {}
    with anyio.fail_after(15):
        async with (
            served_gateway() as url,
            wires(url, f"{scope}@{tenant}", surface) as connected,
        ):
            for name, asked in requests().items():
                for wire, connection in connected.items():
                    for number, (method, params) in enumerate(asked):
                        key = name, wire, number
                        found[key] = verdict(await connection.send(method, params))
                        other_era = ONLY_HANDSHAKE if wire == "modern" else ONLY_MODERN
                        wanted[key] = expected(name, scope, surface, tenant)
                        if name in other_era:
                            wanted[key] = "no such method"
    assert found == wanted
