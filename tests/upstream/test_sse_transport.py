"""Server-sent events: what the older HTTP transport does besides what both do."""

import anyio
import pytest
from anyio.abc import SocketStream
from mcp import MCPError

from pegboard.upstream.errors.failures import failure_of
from pegboard.upstream.http.client import HttpPool
from tests.upstream.http_clients import (
    app_of,
    connected,
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


async def test_an_sse_server_that_goes_away_is_reported_once_and_its_calls_fail() -> None:
    gate = Gate()
    app, path = app_of("sse", gate)
    lost: list[str] = []
    async with serving(app) as origin, HttpPool() as pool, anyio.create_task_group() as group:
        async with cutting_proxy(origin, b"cut me") as proxy:
            config = config_for(proxy + path, "sse")
            opened, gone = anyio.Event(), anyio.Event()

            async def call() -> None:
                async with connected(config, pool, on_lost=lost.append) as session:
                    opened.set()
                    with pytest.raises(MCPError):
                        await session.call_tool("wait")
                    gone.set()

            group.start_soon(call)
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
        failure = failure_of((await refusal_of(config, pool)).error)
        assert failure is not None
        assert failure.kind == "session_lost"


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
        refusal = await refusal_of(config_for(origin, "sse"), pool)
        assert failure_of(refusal.error) is not None
