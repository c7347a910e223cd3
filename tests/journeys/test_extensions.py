"""Extensions that the gateway does not carry, on every wire and surface, in both eras."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY

from pegboard.gateway import Face, Gateway
from pegboard.server import App, RequestPipeline, StdioWire, serve_stdio
from pegboard.server.stdio import Take
from tests.gateway.servers import hub
from tests.server.serving import TAKES_BOTH, modern_headers, modern_request, served
from tests.upstream.hosted import HostedServer, config_of, listening, result, saying
from tests.upstream.http_servers import answer

UI = {"mimeTypes": ["text/html;profile=mcp-app"]}
SAID: dict[str, Any] = {
    "elicitation": {"form": {}, "telepathy": {}},
    "sampling": True,
    "tasks": {"requests": {}},
    "experimental": {"x": {}},
    "extensions": {
        "io.modelcontextprotocol/ui": UI,
        "io.modelcontextprotocol/tasks": {},
        "com.example/unknown": {"a": 1},
    },
}
CARRIED: dict[str, Any] = {
    "elicitation": {"form": {}},
    # Tasks are Pegboard's own extension, whatever the client says.
    "extensions": {"io.modelcontextprotocol/ui": UI, "io.modelcontextprotocol/tasks": {}},
}
TASK = {"taskId": "t-1", "status": "working", "ttlMs": 60000, "pollIntervalMs": 500}
WIRES = ["http-modern", "http-legacy", "sse-legacy", "stdio-modern", "stdio-legacy"]
SURFACES = ["full", "search"]


class Peer:
    """A client of raw messages, on one wire."""

    def __init__(self, exchange: Any, *, is_modern: bool) -> None:
        self._exchange = exchange
        self._is_modern = is_modern

    async def ask(self, method: str, capabilities: dict[str, Any], **params: Any) -> Any:
        """Send a request, after a handshake if the era has one, and return the response."""
        if self._is_modern:
            meta = {CLIENT_CAPABILITIES_META_KEY: capabilities}
            return await self._exchange(modern_request(method, params, **meta))
        greeting = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        said = await self._exchange(message("initialize", greeting))
        if method == "initialize":
            return said
        return await self._exchange(message(method, params))

    async def introduction(self) -> dict[str, Any]:
        method = "server/discover" if self._is_modern else "initialize"
        return (await self.ask(method, {}))["result"]


def message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def in_events(text: str) -> Any:
    data = text.partition("data: ")[2].partition("\n")[0] if "data: " in text else text
    return json.loads(data)


@asynccontextmanager
async def peer_of(gateway: Gateway, wire: str, surface: str) -> AsyncGenerator[Peer]:
    kind, _, era = wire.partition("-")
    desk, is_modern = RequestPipeline(gateway), era == "modern"
    if kind == "stdio":
        async with piped(desk, surface) as exchange:
            yield Peer(exchange, is_modern=is_modern)
        return
    async with served(App(desk)) as origin, httpx2.AsyncClient() as client:
        if kind == "sse":
            async with events(client, f"{origin}/sse-{surface}", origin) as exchange:
                yield Peer(exchange, is_modern=False)
            return
        session: dict[str, str] = {}

        async def exchange(body: dict[str, Any]) -> Any:
            headers = modern_headers(body) if is_modern else {**TAKES_BOTH, **session}
            response = await client.post(f"{origin}/mcp-{surface}", json=body, headers=headers)
            if "mcp-session-id" in response.headers:
                session["mcp-session-id"] = response.headers["mcp-session-id"]
            return in_events(response.text)

        yield Peer(exchange, is_modern=is_modern)


@asynccontextmanager
async def events(client: httpx2.AsyncClient, url: str, origin: str) -> AsyncGenerator[Any]:
    async with client.stream("GET", url) as stream:
        lines = stream.aiter_lines()

        async def next_data() -> str:
            while not (line := await anext(lines)).startswith("data: "):
                pass
            return line.removeprefix("data: ")

        address = origin + await next_data()

        async def exchange(body: dict[str, Any]) -> Any:
            await client.post(address, json=body, headers=TAKES_BOTH)
            return json.loads(await next_data())

        yield exchange


class MemoryWire(StdioWire):
    def __init__(self) -> None:
        self.to_gateway, self._lines = anyio.create_memory_object_stream[bytes](8)
        self._answers, self.answers = anyio.create_memory_object_stream[bytes](8)

    async def read(self, take: Take) -> None:
        async for line in self._lines:
            if (work := take(line)) is not None:
                await work()

    async def write(self, line: bytes) -> None:
        await self._answers.send(line)

    def close(self) -> None:
        for stream in (self.to_gateway, self._lines, self._answers, self.answers):
            stream.close()


@asynccontextmanager
async def piped(desk: RequestPipeline, surface: Any) -> AsyncGenerator[Any]:
    wire = MemoryWire()

    async def exchange(body: dict[str, Any]) -> Any:
        await wire.to_gateway.send(json.dumps(body).encode())
        return json.loads(await wire.answers.receive())

    with closing(wire):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: serve_stdio(desk, wire, face=Face(surface=surface)))
            yield exchange
            group.cancel_scope.cancel()


@asynccontextmanager
async def journey(
    wire: str, surface: str, **fields: Any
) -> AsyncGenerator[tuple[Peer, HostedServer]]:
    """A gateway before a server of the modern era, whose calls have these fields as a result."""
    say = saying(lambda request: answer("200 OK", result(request, **fields), **JSON))
    async with (
        listening(HostedServer(say)) as server,
        hub(config_of(server)) as it,
        Gateway(it) as gateway,
        peer_of(gateway, wire, surface) as peer,
    ):
        with anyio.fail_after(20):
            yield peer, server


JSON = {"content_type": "application/json"}


def call_on(surface: str) -> dict[str, Any]:
    if surface == "full":
        return {"name": "mcp_it_go", "arguments": {}}
    return {"name": "call_tool", "arguments": {"name": "mcp_it_go", "arguments": {}}}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_hears_only_of_what_the_gateway_carries(wire: str, surface: str) -> None:
    async with journey(wire, surface) as (peer, server):
        response = await peer.ask("tools/call", SAID, **call_on(surface))
        assert response["result"]["content"][0]["text"] == "done"
        told = server.calls[0].request["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY]
        assert told == CARRIED


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", WIRES)
async def test_an_extension_in_a_wrong_shape_counts_as_absent(wire: str, surface: str) -> None:
    wrong = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": "text/html"}}}
    async with journey(wire, surface) as (peer, server):
        await peer.ask("tools/call", wrong, **call_on(surface))
        told = server.calls[0].request["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY]
        assert told == {"extensions": {"io.modelcontextprotocol/tasks": {}}}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_task_with_content_is_not_relayed_and_the_caller_learns_what_was_started(
    wire: str, surface: str
) -> None:
    async with journey(wire, surface, resultType="task", **TASK) as (peer, _):
        response = await peer.ask("tools/call", SAID, **call_on(surface))
        failed = response["result"]
        assert failed["isError"]
        assert "taskId" not in failed
        assert failed.get("resultType", "complete") == "complete"
        words = failed["content"][0]["text"]
        assert "'task'" in words
        assert "started task 't-1'" in words


@pytest.mark.parametrize("wire", WIRES)
async def test_the_gateway_announces_what_it_carries_as_each_era_has_it(wire: str) -> None:
    async with journey(wire, "full") as (peer, _):
        offered = (await peer.introduction())["capabilities"]
        is_modern = wire.endswith("modern")
        tasks = {"io.modelcontextprotocol/tasks": {}} if is_modern else {}
        assert offered["extensions"] == {"io.modelcontextprotocol/ui": {}, **tasks}
        assert ("tasks" in offered) is not is_modern
        refused = await peer.ask("tasks/get", SAID, taskId="t-1")
        assert refused["error"]["code"] == -32602
        refused = await peer.ask("tasks/update" if not is_modern else "tasks/list", SAID)
        assert refused["error"]["code"] == -32601


@pytest.mark.parametrize("wire", ["http-modern", "http-legacy"])
async def test_the_gateway_answers_no_method_of_an_extension_that_it_does_not_have(
    wire: str,
) -> None:
    async with journey(wire, "full") as (peer, _):
        refused = await peer.ask("memories/list", SAID)
        assert refused["error"]["code"] == -32601
