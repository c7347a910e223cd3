"""A hosted server that does what a test tells it, byte by byte, over HTTP and over HTTPS."""

import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import anyio.abc
from anyio.abc import ByteStream, SocketStream
from anyio.streams.tls import TLSAttribute, TLSStream

from pegboard import Hub, ServerConfig
from pegboard.config import Timeouts
from tests.tls import Authority, server_context
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import answer, read_request

PLAIN = {"content_type": "application/json"}
STREAM = {"content_type": "text/event-stream"}
TOOL = {"name": "go", "inputSchema": {"type": "object"}}
Say = Callable[[ByteStream, dict[str, Any]], Awaitable[object]]


class Call(NamedTuple):
    """One call that the server has read."""

    head: str
    request: dict[str, Any]


def result(request: dict[str, Any], text: str = "done", **fields: Any) -> bytes:
    """Return the response to a request, as JSON."""
    said = {"content": [{"type": "text", "text": text}], "resultType": "complete", **fields}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": said}).encode()


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\r\n\r\n"


def whole(request: dict[str, Any], text: str = "done", **headers: str) -> bytes:
    """Return the response to a request, as HTTP."""
    return answer("200 OK", result(request, text), **PLAIN, **headers)


def saying(make: Callable[[dict[str, Any]], bytes]) -> Say:
    """Answer each call with these bytes."""

    async def say(stream: ByteStream, request: dict[str, Any]) -> None:
        await stream.send(make(request))

    return say


class HostedServer:
    """Introduces itself and lists one tool by itself; ``say`` answers the calls.

    ``context`` may be replaced while it runs: the next connection sees it. ``greet`` answers all
    other requests.
    """

    def __init__(self, say: Say, context: ssl.SSLContext | None = None) -> None:
        self.say = say
        self.context = context
        self.calls: list[Call] = []
        self.heads: list[str] = []
        self.connections = 0
        self.client_certificates: list[object] = []
        self.hangs = False
        """Whether the next connections are accepted, and then left alone."""
        self.hangs_up = False
        """Whether the next connections are accepted, and closed at once."""
        self.host = "127.0.0.1"
        self.port = 0
        self._open: set[ByteStream] = set()

    @property
    def open_connections(self) -> int:
        return len(self._open)

    @property
    def url(self) -> str:
        return f"{'http' if self.context is None else 'https'}://{self.host}:{self.port}/mcp"

    async def close_connections(self) -> None:
        """Close what is open, without a word."""
        for stream in list(self._open):
            await anyio.aclose_forcefully(stream)

    async def handle(self, plain: SocketStream) -> None:
        self.connections += 1
        stream: ByteStream = plain
        try:
            if self.hangs_up:
                return
            if self.hangs:
                await anyio.sleep_forever()
            if self.context is not None:
                stream = await TLSStream.wrap(plain, server_side=True, ssl_context=self.context)
                shown = stream.extra(TLSAttribute.peer_certificate)
                self.client_certificates.append(shown or None)
            self._open.add(stream)
            await self.serve(stream)
        except (ssl.SSLError, OSError, anyio.EndOfStream):
            pass
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._open.discard(stream)
            await anyio.aclose_forcefully(plain)

    async def serve(self, stream: ByteStream) -> None:
        while True:
            head, body = await read_request(stream)
            self.heads.append(head.decode("latin-1"))
            request = json.loads(body) if body else {}
            if request.get("method") == "tools/call":
                self.calls.append(Call(self.heads[-1], request))
                await self.say(stream, request)
            else:
                await stream.send(self.greet(request))

    def greet(self, request: dict[str, Any]) -> bytes:
        if not request:
            return answer("405 Method Not Allowed")
        body = introduction(request)
        return answer("202 Accepted") if body is None else answer("200 OK", body, **PLAIN)


def introduction(request: dict[str, Any]) -> bytes | None:
    """Return the response to a request that is no call, as JSON; ``None`` to a notification."""
    match request.get("method"):
        case "server/discover":
            offer: dict[str, Any] = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
            }
            return result(request, **offer, ttlMs=0, cacheScope="private")
        case "tools/list":
            return result(request, tools=[TOOL], ttlMs=0, cacheScope="private")
        case _:
            return None


@asynccontextmanager
async def listening(server: HostedServer) -> AsyncGenerator[HostedServer]:
    """Let the server listen; leaving closes its connections."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server.port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.handle)
        yield server
        group.cancel_scope.cancel()


class Host:
    """Starts hosted servers over HTTP or HTTPS; the hub trusts their authority."""

    def __init__(self, authority: Authority, *, is_secure: bool) -> None:
        self.authority = authority
        self.is_secure = is_secure

    def server(self, say: Say) -> HostedServer:
        context = server_context(self.authority.sign()) if self.is_secure else None
        return HostedServer(say, context)

    @asynccontextmanager
    async def hub(self, say: Say, **fields: Any) -> AsyncGenerator[tuple[Hub, HostedServer]]:
        """Give a hub and the server ``it``, whose tool is ``mcp_it_go``."""
        async with (
            listening(self.server(say)) as server,
            hub_of(config_of(server, **fields)) as hub,
        ):
            with anyio.fail_after(20):
                yield hub, server


def config_of(server: HostedServer, name: str = "it", **fields: Any) -> ServerConfig:
    fields.setdefault("timeouts", Timeouts(connect=10, list=10, call=10))
    fields.setdefault("protocol", "2026-07-28")
    return ServerConfig(name=name, transport="streamable_http", url=server.url, **fields)


async def call(hub: Hub, **arguments: Any) -> str:
    return (await hub.call("mcp_it_go", arguments)).text()


class Proxy:
    """An HTTP proxy: tunnels for HTTPS, requests with a whole address for HTTP."""

    def __init__(self, refusal: bytes = b"") -> None:
        self.refusal = refusal
        self.heads: list[str] = []
        self.port = 0
        self.tunnels = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator["Proxy"]:
        """Let it work; leaving closes its port and its tunnels."""
        listener = await anyio.create_tcp_listener(
            local_host="127.0.0.1", local_port=self.port, reuse_port=True
        )
        self.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._handle)
            yield self
            group.cancel_scope.cancel()

    async def _handle(self, client: SocketStream) -> None:
        async with client:
            self.tunnels += 1
            try:
                await self._forward(client)
            except* (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
        self.tunnels -= 1

    async def _forward(self, client: SocketStream) -> None:
        head, body = await read_request(client)
        text = head.decode("latin-1")
        self.heads.append(text)
        if self.refusal:
            await client.send(self.refusal)
            return
        method, target, _ = text.split(maxsplit=2)
        place = target if method == "CONNECT" else target.split("/")[2]
        host, _, port = place.rpartition(":")
        async with await anyio.connect_tcp(host, int(port)) as server:
            if method == "CONNECT":
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                await server.send(head + b"\r\n\r\n" + body)
            async with anyio.create_task_group() as group:

                async def copy(source: SocketStream, to: SocketStream) -> None:
                    async for chunk in source:
                        await to.send(chunk)
                    group.cancel_scope.cancel()

                group.start_soon(copy, server, client)
                group.start_soon(copy, client, server)
