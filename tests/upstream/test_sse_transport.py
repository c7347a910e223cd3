"""Server-sent events: what the older HTTP transport does besides what both do."""

import json
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from pegboard.upstream.http import sse_transport
from pegboard.upstream.http.client import origin_of
from pegboard.upstream.http.pool import HttpPool
from tests.upstream.board_servers import until
from tests.upstream.http_clients import (
    app_of,
    call,
    connected,
    failure_in,
    refusal_of,
)
from tests.upstream.http_servers import (
    Gate,
    answer,
    config_for,
    cutting_proxy,
    read_request,
    serving,
    serving_raw,
)
from tests.upstream.scripted_server import event, result


async def test_an_sse_server_that_goes_away_is_reported_once_and_its_calls_fail() -> None:
    gate = Gate()
    app, path = app_of("sse", gate)
    lost: list[str] = []
    async with serving(app) as origin, HttpPool() as pool, anyio.create_task_group() as group:
        async with cutting_proxy(origin, b"cut me") as proxy:
            config = config_for(proxy + path, "sse")
            gone = anyio.Event()

            async def wait() -> None:
                async with connected(config, pool, on_lost=lost.append) as session:
                    assert (await failure_in(call(session, "wait"))).kind == "lost"
                    gone.set()

            group.start_soon(wait)
            await gate.until_waiting(1)
        with anyio.fail_after(5):
            await gone.wait()
    assert lost == ["The server ended the stream."]


async def test_closing_an_sse_transport_ourselves_is_no_loss() -> None:
    app, path = app_of("sse")
    lost: list[str] = []
    async with (
        serving(app) as origin,
        HttpPool() as pool,
        connected(config_for(origin + path, "sse"), pool, on_lost=lost.append),
    ):
        pass
    assert lost == []


async def test_an_sse_session_that_the_server_forgot_is_told_apart() -> None:
    async def handle(stream: SocketStream) -> None:
        head, _ = await read_request(stream)
        if head.startswith(b"GET"):
            await stream.send(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
                b"event: endpoint\r\ndata: /messages?session_id=1\r\n\r\n"
            )
            await anyio.sleep_forever()
        await stream.send(answer("404 Not Found", b"Could not find session"))

    async with serving_raw(handle) as origin, HttpPool() as pool:
        config = config_for(origin + "/sse", "sse")
        assert (await refusal_of(config, pool)).kind == "session_lost"


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:1/messages", "//127.0.0.1:1/", "ftp:x", "http://[", None]
)
async def test_an_sse_server_may_not_send_us_elsewhere(endpoint: str | None) -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        if endpoint is not None:
            await stream.send(f"event: endpoint\r\ndata: {endpoint}\r\n\r\n".encode())

    async with serving_raw(handle) as origin, HttpPool() as pool:
        assert (await refusal_of(config_for(origin, "sse"), pool)).kind == "not_sent"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example/x", "https://A.example:443/y", True),
        ("http://a.example", "http://a.example:80/", True),
        ("http://a.example", "https://a.example:80", False),
        ("http://a.example:443", "https://a.example", False),
        ("http://a.example", "http://a.example:8080", False),
        ("http://a.example", "http://b.example", False),
    ],
)
def test_the_port_of_a_scheme_may_be_named_or_not(one: str, other: str, same: bool) -> None:
    assert (origin_of(one) == origin_of(other)) is same


class Events:
    """A server of the older HTTP transport that responds over its stream of events."""

    def __init__(self) -> None:
        self.held = 0
        self.was_held = 0
        self.go = anyio.Event()
        """Lets the calls of ``slow`` go on."""
        self._stream: SocketStream | None = None

    async def handle(self, stream: SocketStream) -> None:
        while True:
            head, body = await read_request(stream)
            if head.startswith(b"GET"):
                self._stream = stream
                await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
                await stream.send(event(b"/messages", event="endpoint"))
                await anyio.sleep_forever()
            await self._take(stream, json.loads(body))

    async def _take(self, stream: SocketStream, request: dict[str, Any]) -> None:
        name = request.get("params", {}).get("name")
        if name == "astray":
            await stream.send(answer("307 Moved", location="http://[x/"))
            return
        if name == "slow":
            await self.go.wait()
        if "id" in request:
            info = {"name": "events", "version": "1"}
            said = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": info}
            assert self._stream is not None
            await self._stream.send(event(result(request, **said)))
        if name == "hold":
            self.held += 1
            self.was_held += 1
            try:
                await stream.receive()
            finally:
                self.held -= 1
        await stream.send(answer("202 Accepted"))


async def test_a_post_that_is_never_answered_ends_after_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse_transport, "_SECONDS_TO_END", 0.0)
    server = Events()
    async with (
        serving_raw(server.handle) as origin,
        HttpPool() as pool,
        connected(config_for(origin, "sse"), pool) as session,
    ):
        with anyio.fail_after(10):
            before = len(anyio.get_running_tasks())
            for _ in range(5):
                await session.request("tools/call", {"name": "hold"})
            await until(lambda: server.was_held == 5 and server.held == 0)
            await until(lambda: len(anyio.get_running_tasks()) <= before)


async def test_a_post_that_is_redirected_astray_fails_its_own_call_only() -> None:
    server = Events()
    raw: dict[str, Any] = {}
    async with (
        serving_raw(server.handle) as origin,
        HttpPool() as pool,
        connected(config_for(origin, "sse"), pool) as session,
        anyio.create_task_group() as group,
    ):

        async def wait() -> None:
            raw.update(await session.request("tools/call", {"name": "slow"}))

        group.start_soon(wait)
        astray = session.request("tools/call", {"name": "astray"})
        assert (await failure_in(astray)).kind == "not_mcp"
        assert await session.request("tools/call", {"name": "quick"})
        server.go.set()
    assert raw["content"][0]["text"] == "done"
