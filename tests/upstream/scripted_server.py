"""A server of bytes over HTTP: it says exactly what the test wants, and counts connections."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import SocketStream

from pegboard import ServerConfig
from pegboard.config.servers import Protocol
from pegboard.hub import Hub
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import answer, read_request, serving_raw

Say = Callable[[SocketStream, dict[str, Any]], Awaitable[object]]
PLAIN = {"content_type": "application/json"}
STREAM = {"content_type": "text/event-stream"}
TOOL = {"name": "go", "inputSchema": {"type": "object"}}


def result(request: dict[str, Any], **fields: Any) -> bytes:
    words = {"content": [{"type": "text", "text": "done"}], "resultType": "complete", **fields}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": words}).encode()


def event(data: bytes, **fields: object) -> bytes:
    lines = [f"{name}: {value}".encode() for name, value in fields.items()]
    return b"\r\n".join([*lines, b"data: " + data, b"", b""])


def note(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


class Scripted:
    """Shakes hands, lists one tool, and answers calls and streams as it is told to."""

    def __init__(self, say: Say, others: dict[str, Say] | None = None) -> None:
        self._say = say
        self.others: dict[str, Say] = others or {}
        """How other requests and notifications are answered, by method; responses have none."""
        self.capabilities: dict[str, Any] = {"tools": {}}
        self._carriers: set[SocketStream] = set()
        self.calls: list[tuple[bytes, dict[str, Any]]] = []
        """The head and the message of each call."""
        self.streams: list[bytes] = []
        """The heads of the requests for a stream of events."""

    @property
    def connections(self) -> int:
        """How many connections have carried calls."""
        return len(self._carriers)

    async def handle(self, stream: SocketStream) -> None:
        while True:
            head, body = await read_request(stream)
            if head.startswith(b"GET"):
                self.streams.append(head)
                await self._say(stream, {"head": head})
                continue
            if not head.startswith(b"POST"):
                await stream.send(answer("204 Gone"))
                continue
            request = json.loads(body)
            method = request.get("method", "")
            if method == "tools/call":
                self._carriers.add(stream)
                self.calls.append((head, request))
                await self._say(stream, request)
            elif method in self.others:
                await self.others[method](stream, request)
            else:
                await stream.send(self._greet(request))

    def _greet(self, request: dict[str, Any]) -> bytes:
        match request.get("method"):
            case "initialize":
                info = {"name": "scripted", "version": "1"}
                said = {"protocolVersion": "2025-11-25", "capabilities": self.capabilities}
                said = {**said, "serverInfo": info}
                body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": said})
                return answer("200 OK", body.encode(), mcp_session_id="s", **PLAIN)
            case "server/discover":
                versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                body = result(request, **versions, ttlMs=0, cacheScope="private")
            case "tools/list":
                body = result(request, tools=[TOOL], ttlMs=0, cacheScope="private")
            case _:
                return answer("202 Accepted")
        return answer("200 OK", body, **PLAIN)


@asynccontextmanager
async def scripted(
    say: Say,
    protocol: Protocol = "2026-07-28",
    others: dict[str, Say] | None = None,
    **fields: Any,
) -> AsyncGenerator[tuple[Hub, Scripted]]:
    """Run the server, and a hub that is connected to it."""
    server = Scripted(say, others)
    async with serving_raw(server.handle) as origin:
        config: dict[str, Any] = {"transport": "streamable_http", "url": f"{origin}/mcp", **fields}
        async with hub_of(ServerConfig(name="raw", protocol=protocol, **config)) as hub:
            with anyio.fail_after(10):
                yield hub, server


def saying(make: Callable[[dict[str, Any]], bytes]) -> Say:
    """Answer with bytes that are made from the request."""

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        await stream.send(make(request))

    return say


async def call(hub: Hub, **arguments: Any) -> str:
    return (await hub.call("mcp_raw_go", arguments)).text()
