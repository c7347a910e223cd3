"""What a connection makes of the less usual parts of HTTP, on a real socket."""

import socket
from collections import Counter
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.lowlevel import checkpoint
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pegboard.server import App, Limits, RequestPipeline
from pegboard.server.jsonrpc import encode
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import modern_headers, modern_request, served
from tests.server.test_http_limits import speak

CALL = modern_request("tools/call", {"name": "echo", "arguments": {"text": "a"}})
BODY = encode(CALL)
CHUNK = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)


def head(*more: str, host: str = "host: localhost") -> bytes:
    """Return the headers of a call."""
    said = [f"{name}: {value}" for name, value in modern_headers(CALL).items()]
    return "\r\n".join(["POST /mcp HTTP/1.1", host, *said, *more, "", ""]).encode()


@pytest.mark.parametrize("offer", ["Upgrade: h2c", "upgrade: websocket", "UPGRADE: h2c"])
async def test_an_offer_to_speak_another_protocol_costs_no_body(offer: str) -> None:
    # As the HTTP client of Java does, which prefers HTTP/2.
    settings = ["Connection: Upgrade, HTTP2-Settings", offer, "HTTP2-Settings: AAEAAEAA"]
    one = head(*settings, f"Content-Length: {len(BODY)}") + BODY
    last = head("Connection: close", f"Content-Length: {len(BODY)}") + BODY
    async with served(App(RequestPipeline(FakeGateway()))) as url:
        answers = await speak(url, one, last)
        assert answers.count(b"HTTP/1.1 200 OK") == 2


async def test_trailers_are_no_headers() -> None:
    sent = head("Transfer-Encoding: chunked", "Connection: close", host="x: y") + CHUNK
    async with served(App(RequestPipeline(FakeGateway()))) as url:
        response = await speak(url, sent + b"host: localhost\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 421")


async def test_trailers_that_never_end_are_cut_off() -> None:
    limits = Limits(headers=10_000)
    async with served(App(RequestPipeline(FakeGateway())), limits) as url:
        begun = head("Transfer-Encoding: chunked") + CHUNK
        trailers = b"".join(b"t%d: %s\r\n" % (it, b"a" * 100) for it in range(50))
        response = await speak(url, begun, *[trailers] * 5)
        assert response.startswith(b"HTTP/1.1 431") or response == b""


@pytest.mark.parametrize("room", [{"limits": Limits(connections=3)}, {"descriptors": 68}])
async def test_connections_that_ask_nothing_keep_nobody_from_being_answered(room: Any) -> None:
    call = head(f"Content-Length: {len(BODY)}") + BODY
    async with (
        served(App(RequestPipeline(FakeGateway())), **room) as url,
        AsyncExitStack() as stack,
    ):
        opened = [await stack.enter_async_context(await connected(url)) for _ in range(4)]
        await opened[0].send(call)
        assert (await opened[0].receive()).startswith(b"HTTP/1.1 200 OK")
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
            await opened[3].send(call)
            assert (await opened[3].receive()).startswith(b"HTTP/1.1 503")


async def test_connections_leave_descriptors_for_servers_and_files() -> None:
    async with (
        served(App(RequestPipeline(FakeGateway())), descriptors=68) as url,
        AsyncExitStack() as stack,
    ):
        opened = [await stack.enter_async_context(await connected(url)) for _ in range(5)]
        with anyio.fail_after(5), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await opened[-1].receive()


async def connected(url: str) -> SocketStream:
    """Return a connection to where an app is served."""
    return await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2]))


async def test_few_of_many_requests_at_once_wait_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[int] = []
    complete = HttpToolsProtocol.on_headers_complete

    def noted(connection: HttpToolsProtocol) -> None:
        complete(connection)
        waiting.append(len(connection.pipeline))

    monkeypatch.setattr(HttpToolsProtocol, "on_headers_complete", noted)
    asked = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    async with served(App(RequestPipeline(FakeGateway()))) as url:
        responses = await speak(url, asked * 2000 + last)
    assert responses.count(b"HTTP/1.1 200 OK") == len(waiting) == 2001
    # As many as are read at once.
    assert max(waiting) <= 16_384 // len(asked) + 1


async def test_a_body_of_very_many_chunks_is_refused() -> None:
    limits = Limits(body=100_000)
    async with served(App(RequestPipeline(FakeGateway()), limits=limits), limits) as url:
        begun = head("Transfer-Encoding: chunked", "Connection: close")
        space, end = b"1\r\n \r\n", b"0\r\n\r\n"
        assert b"HTTP/1.1 200 OK" in await speak(url, begun, space * 400, CHUNK, b"\r\n")
        response = await speak(url, begun, space * 600, end)
        assert response.startswith(b"HTTP/1.1 413")


async def test_very_many_short_headers_are_refused() -> None:
    async with served(App(RequestPipeline(FakeGateway()))) as url:
        for count, status in ((400, b"200"), (600, b"431")):
            more = ["a: b"] * count
            sent = head("Connection: close", f"Content-Length: {len(BODY)}", *more) + BODY
            assert (await speak(url, sent)).startswith(b"HTTP/1.1 " + status)


async def test_few_of_many_connections_are_accepted_at_a_stretch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = 0
    accepted: Counter[int] = Counter()
    made = HttpToolsProtocol.connection_made

    def noted(connection: HttpToolsProtocol, transport: Any) -> None:
        made(connection, transport)
        accepted[turn] += 1

    monkeypatch.setattr(HttpToolsProtocol, "connection_made", noted)
    async with served(App(RequestPipeline(FakeGateway()))) as url:
        parts = urlsplit(url)
        address = str(parts.hostname), int(parts.port or 0)
        assert b"HTTP/1.1 200 OK" in await speak(
            url, head("Connection: close", f"Content-Length: {len(BODY)}") + BODY
        )
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(socket.create_connection(address, timeout=5))
            with anyio.fail_after(10):
                while accepted.total() < 301:
                    turn += 1
                    await checkpoint()
    assert max(accepted.values()) <= 64
