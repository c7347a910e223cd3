"""Real servers on loopback for the tests of the HTTP transports, and proxies that misbehave."""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.abc
import uvicorn
from mcp.server.mcpserver import MCPServer

from pegboard.config.servers import ServerConfig, Timeouts, Transport


class Gate:
    """Holds calls of the tool ``wait`` until the test lets them go."""

    def __init__(self) -> None:
        self.waiting = 0
        self.changed = anyio.Event()
        self.released = anyio.Event()

    async def until_waiting(self, number: int) -> None:
        with anyio.fail_after(5):
            while self.waiting < number:
                await self.changed.wait()

    async def pass_through(self) -> None:
        self.waiting += 1
        self.changed.set()
        self.changed = anyio.Event()
        await self.released.wait()


def build_server(gate: Gate | None = None, **options: Any) -> MCPServer:
    server = MCPServer("test server", log_level="CRITICAL", **options)

    @server.tool()
    async def echo(text: str) -> str:
        return text

    @server.tool()
    async def large(size: int) -> str:
        return "x" * size

    @server.tool()
    async def wait() -> str:
        assert gate is not None
        await gate.pass_through()
        return "done"

    return server


def config_for(
    url: str, transport: Transport = "streamable_http", *, seconds: float = 10.0, **fields: Any
) -> ServerConfig:
    return ServerConfig(
        name="remote",
        transport=transport,
        url=url,
        timeouts=Timeouts(connect=seconds, list=seconds, call=seconds),
        **fields,
    )


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()
        self.stopping = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.stopping.wait()


def bound(port: int = 0) -> socket.socket:
    """Take a port, a free one unless it is named; for an app that has to know its own address."""
    # The protocol by name: only then does asyncio spare us Nagle's 40 ms per answer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


def origin_of(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@asynccontextmanager
async def serving(
    app: Any, *, port: int = 0, listener: socket.socket | None = None, keep_alive: int = 5
) -> AsyncGenerator[str]:
    """Run an ASGI app that closes idle connections after some seconds; gives its origin."""
    listener = bound(port) if listener is None else listener
    server = _Uvicorn(
        uvicorn.Config(
            app,
            log_level="critical",
            lifespan="on",
            timeout_graceful_shutdown=0,
            timeout_keep_alive=keep_alive,
        )
    )
    with listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            await server.ready.wait()
            try:
                yield origin_of(listener)
            finally:
                server.stopping.set()


@asynccontextmanager
async def serving_raw(
    handle: Callable[[anyio.abc.SocketStream], Awaitable[None]],
) -> AsyncGenerator[str]:
    """Run a TCP server that does what it wants with each connection; gives its origin."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def contained(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                await handle(stream)
            except* (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, contained)
        yield f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()


@asynccontextmanager
async def cutting_proxy(origin: str, marker: bytes) -> AsyncGenerator[str]:
    """Run a TCP proxy that cuts every connection on which the marker is sent."""
    port = int(origin.rpartition(":")[2])

    async def handle(client: anyio.abc.SocketStream) -> None:
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as server,
            anyio.create_task_group() as group,
        ):

            async def forward() -> None:
                async for chunk in client:
                    if marker in chunk:
                        break
                    await server.send(chunk)
                group.cancel_scope.cancel()

            group.start_soon(forward)
            async for chunk in server:
                await client.send(chunk)
            group.cancel_scope.cancel()

    async with serving_raw(handle) as address:
        yield address


async def read_request(stream: anyio.abc.ByteReceiveStream) -> tuple[bytes, bytes]:
    """Read one HTTP request; gives its head and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        body += await stream.receive()
    return head, body


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    """Write one HTTP answer; `content_type` stands for `Content-Type`."""
    lines = [f"HTTP/1.1 {status}", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
    if "content_length" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
