"""How much of the process one client may take, on a real socket."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import httpx2
import pytest
from anyio.lowlevel import checkpoint
from starlette.types import Message

from pegboard.errors import ConfigError
from pegboard.policies.fair_share import FairShare
from pegboard.server import App, Limits, RequestPipeline
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.request import HttpRequest
from pegboard.server.http.response_stream import PushStream
from pegboard.server.http.uvicorn_server import HttpServer, listen_on
from pegboard.server.message_limits import MOST_VALUES
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import TAKES_BOTH, modern_headers, modern_request, post, served
from tests.server.test_http_sessions import ByName, open_session

CALL = modern_request("tools/call", {"name": "echo", "arguments": {"text": "a"}})


async def speak(url: str, *parts: bytes) -> bytes:
    """Send bytes, and return everything that comes back until the other side closes."""
    parts_of_url = urlsplit(url)
    host, port = str(parts_of_url.hostname), int(parts_of_url.port or 0)
    received = b""
    with anyio.fail_after(10):
        async with await anyio.connect_tcp(host, port) as stream:
            try:
                for part in parts:
                    await stream.send(part)
                while True:
                    received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return received


@pytest.mark.parametrize("path", ["/mcp", "/messages"])
@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_a_body_that_is_too_large_is_refused(path: str, version: str) -> None:
    limits = Limits(body=1000)
    app = App(RequestPipeline(FakeGateway()), limits=limits)
    async with served(app) as url, httpx2.AsyncClient() as client:
        headers = {**TAKES_BOTH, "mcp-protocol-version": version}

        async def chunks() -> AsyncGenerator[bytes]:
            for _ in range(20):
                yield b" " * 100

        whole = await client.post(url + path, content=b" " * 1001, headers=headers)
        pieces = await client.post(url + path, content=chunks(), headers=headers)
        # What belongs to no session is not even read.
        expected = 404 if path == "/messages" else 413
        assert (whole.status_code, pieces.status_code) == (expected, expected)
        assert (await post(f"{url}/mcp", CALL)).status_code == 200


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_a_body_with_too_many_values_is_refused(version: str) -> None:
    async with served(App(RequestPipeline(FakeGateway()))) as url, httpx2.AsyncClient() as client:
        headers = {**TAKES_BOTH, "mcp-protocol-version": version}
        body = b"[" + b"{}," * MOST_VALUES + b"{}]"
        response = await client.post(f"{url}/mcp", content=body, headers=headers)
        assert response.status_code == 413
        assert response.json()["error"]["code"] == -32600
        assert str(MOST_VALUES) in response.json()["error"]["message"]


@pytest.mark.parametrize("length", ["-1", "1e3", "99999999999999999999999", "a"])
async def test_a_length_that_is_none_is_refused(length: str) -> None:
    async with served(App(RequestPipeline(FakeGateway()))) as url:
        head = f"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n"
        lines = "".join(f"{name}: {value}\r\n" for name, value in modern_headers(CALL).items())
        response = await speak(url, (head + lines + "\r\n").encode())
        assert response.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413"))


async def test_headers_that_never_end_are_cut_off() -> None:
    limits = Limits(headers=10_000)
    async with served(App(RequestPipeline(FakeGateway())), limits) as url:
        begun = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: "
        response = await speak(url, begun, *[b"a" * 5000] * 5)
        assert response.startswith(b"HTTP/1.1 431") or response == b""
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"{url}/healthz")).status_code == 200


@pytest.mark.parametrize("many", [1, 20])
async def test_headers_that_come_at_once_may_be_no_longer_either(many: int) -> None:
    limits = Limits(headers=10_000)
    async with served(App(RequestPipeline(FakeGateway())), limits) as url:
        for size, status in ((8_000, 200), (12_000, 431)):
            lines = "".join(f"x-{it}: {'a' * (size // many)}\r\n" for it in range(many))
            head = f"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\r\n"
            assert (await speak(url, head.encode())).startswith(b"HTTP/1.1 %d" % status)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"POST /mcp HT",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"accept: */*\r\nmcp-protocol-version: 2026-07-28\r\ncontent-length: 10\r\n\r\n{",
    ],
)
async def test_whoever_does_not_finish_a_request_is_cut_off(begun: bytes) -> None:
    limits = Limits(request_seconds=0.05)
    async with served(App(RequestPipeline(FakeGateway()), limits=limits), limits) as url:
        assert await speak(url, begun) == b""


async def test_a_request_under_way_is_not_taken_for_an_unfinished_one() -> None:
    limits = Limits(request_seconds=0.05)
    gateway = FakeGateway()
    async with served(App(RequestPipeline(gateway), limits=limits), limits) as url:
        answers: list[int] = []

        async def call() -> None:
            body = modern_request("tools/call", {"name": "hang"})
            answers.append((await post(f"{url}/mcp", body)).status_code)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await gateway.waiting.wait()
                assert await speak(url, b"GET") == b""  # so long that the other would be cut off
                gateway.release.set()
        assert answers == [200]


@asynccontextmanager
async def asking_without_reading(
    url: str, body: dict[str, Any], **more: str
) -> AsyncGenerator[None]:
    """Send a request, read the beginning of its answer, and nothing more."""
    parts = urlsplit(url)
    content = json.dumps(body)
    headers = {
        "host": "localhost",
        "content-length": str(len(content)),
        **modern_headers(body, **more),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    async with await anyio.connect_tcp(str(parts.hostname), int(parts.port or 0)) as stream:
        await stream.send(f"POST /mcp HTTP/1.1\r\n{lines}\r\n{content}".encode())
        await stream.receive(1)
        yield


async def test_whoever_does_not_take_the_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.server.http.uvicorn_server._LOOK_EVERY", 0.05)
    limits = Limits(unread_seconds=0.2, connections=1, body=100_000_000)
    app = App(RequestPipeline(FakeGateway()), limits=limits)
    body = modern_request("tools/call", {"name": "echo", "arguments": {"text": "a" * 20_000_000}})
    statuses: list[int] = []
    async with (
        served(app, limits) as url,
        httpx2.AsyncClient() as client,
        asking_without_reading(url, body),
    ):
        with anyio.fail_after(10):
            while 200 not in statuses:
                statuses.append((await client.get(f"{url}/healthz")).status_code)
    # There was room for one, and another client had it for a while.
    assert set(statuses) == {503, 200}


async def test_the_call_of_whoever_does_not_read_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pegboard.server.http.uvicorn_server._LOOK_EVERY", 0.05)
    gateway = FakeGateway()
    limits = Limits(unread_seconds=0.2)
    body = modern_request("tools/call", {"name": "flood"})
    async with (
        served(App(RequestPipeline(gateway), limits=limits), limits) as url,
        asking_without_reading(url, body),
    ):
        with anyio.fail_after(10):
            await gateway.cancelled.wait()


async def test_more_connections_than_permitted_are_told_so() -> None:
    limits = Limits(connections=1)
    async with served(App(RequestPipeline(FakeGateway())), limits) as url:
        parts = urlsplit(url)
        async with await anyio.connect_tcp(str(parts.hostname), int(parts.port or 0)):
            with anyio.fail_after(5):
                while True:
                    async with httpx2.AsyncClient() as client:
                        if (await client.get(f"{url}/healthz")).status_code == 503:
                            break


async def test_a_port_that_is_taken_is_named() -> None:
    listener = listen_on("127.0.0.1", 0)
    listener.listen()
    port = listener.getsockname()[1]
    with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"):
        listen_on("127.0.0.1", port)
    listener.close()


@pytest.mark.parametrize("host", ["no such host", "tools..example.com", f"{'x' * 64}.example.com"])
def test_a_host_that_is_none_is_named(host: str) -> None:
    with pytest.raises(ConfigError, match=f"Cannot listen on {re.escape(host)}:0: "):
        listen_on(host, 0)


async def test_the_server_leaves_the_signals_alone() -> None:
    server = HttpServer(App(RequestPipeline(FakeGateway())), limits=Limits())
    with server.capture_signals():
        pass
    assert not server.should_exit


@pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, 1_000_000])
async def test_a_large_response_is_sent_in_pieces_between_which_others_run(size: int) -> None:
    sent: list[tuple[int, Message]] = []
    turns = 0

    async def send(message: Message) -> None:
        sent.append((turns, message))

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    async def receive() -> Message:
        raise AssertionError

    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    request = HttpRequest({"type": "http", "headers": [], "path": "/mcp"}, receive, send)
    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await request.respond(200, body)
        group.cancel_scope.cancel()
    assert b"".join(message.get("body", b"") for _, message in sent) == body
    assert all(len(message.get("body", b"")) <= 262_144 for _, message in sent)
    assert [message.get("more_body") for _, message in sent[1:]][-1] is False
    assert len({turn for turn, _ in sent[1:]}) == len(sent) - 1


async def test_the_requests_of_one_key_leave_room_for_those_of_another() -> None:
    gateway, limits = FakeGateway(), Limits(connections=4)
    pipeline = RequestPipeline(gateway)
    app = App(pipeline, authenticator=HttpAuthenticator(ByName()), limits=limits)
    listen = modern_request("subscriptions/listen", {"notifications": {}})
    discover = modern_request("server/discover")
    async with served(app) as url, anyio.create_task_group() as tasks:
        for count in (1, 2):
            tasks.start_soon(partial(post, f"{url}/mcp", listen, **{"x-api-key": "ann"}))
            with anyio.fail_after(5):
                while len(gateway.heard) < count:
                    await anyio.lowlevel.checkpoint()
        refused = await post(f"{url}/mcp", discover, **{"x-api-key": "ann"})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        setting = {"code": "limit_reached", "setting": "gateway.limits.connections"}
        assert refused.json()["error"]["data"] == {**setting, "retryAfter": 1.0}
        assert (await post(f"{url}/mcp", discover, **{"x-api-key": "bob"})).status_code == 200
        assert [it.used for it in pipeline.metrics.limits()] == [2, 0, 0]
        tasks.cancel_scope.cancel()


async def test_a_stream_that_is_not_read_is_closed_before_much_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = anyio.Event()

    async def send(_: Message) -> None:
        begun.set()
        await anyio.sleep_forever()

    async def receive() -> Message:
        raise AssertionError("It has no body.")

    request = HttpRequest({"headers": []}, receive, send)
    stream = PushStream(request, most_unread=1000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.hold)
        await begun.wait()
        for _ in range(100):
            tasks.start_soon(stream.send, b"x" * 100)
        await anyio.wait_all_tasks_blocked()
        # The stream is closed at the first event that is too much.
        assert stream.is_abandoned
        assert stream.scope.cancel_called
        assert "unread_bytes" in caplog.text
        tasks.cancel_scope.cancel()


async def test_responses_that_a_key_does_not_read_leave_memory_for_those_of_another() -> None:
    limits = Limits(unread_total=40_000_000, body=100_000_000)
    pipeline = RequestPipeline(FakeGateway())
    app = App(pipeline, authenticator=HttpAuthenticator(ByName()), limits=limits)
    large, largest = (
        modern_request("tools/call", {"name": "echo", "arguments": {"text": "a" * size}})
        for size in (5_000_000, 20_000_000)
    )
    ann, bob = {"x-api-key": "ann"}, {"x-api-key": "bob"}

    def unread() -> int:
        return pipeline.metrics.limits()[2].used

    async with served(app, limits) as url, httpx2.AsyncClient() as client:
        async with asking_without_reading(url, largest, **ann):
            assert 20_000_000 < unread() < 21_000_000
            refused = (await post(f"{url}/mcp", large, **ann)).json()["error"]
            assert refused["code"] == -32603
            assert "gateway.limits.unread_total" in refused["message"]
            session = await open_session(client, f"{url}/mcp", **ann)
            said = {**TAKES_BOTH, **ann, "mcp-session-id": session}
            legacy = await client.post(f"{url}/mcp", json=large, headers=said)
            assert "gateway.limits.unread_total" in legacy.text
            assert "result" in (await post(f"{url}/mcp", CALL, **ann)).json()
            assert "result" in (await post(f"{url}/mcp", large, **bob)).json()
        with anyio.fail_after(10):
            while unread():
                await checkpoint()
        assert "result" in (await post(f"{url}/mcp", large, **ann)).json()


async def test_a_stream_is_closed_when_too_much_waits_for_all_of_its_caller() -> None:
    begun = anyio.Event()

    async def send(_: Message) -> None:
        begun.set()
        await anyio.sleep_forever()

    async def receive() -> Message:
        raise AssertionError("It has no body.")

    request = HttpRequest({"headers": []}, receive, send)
    request.unread = FairShare("unread bytes", 1000)
    stream = PushStream(request)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.hold)
        await begun.wait()
        for _ in range(100):
            tasks.start_soon(stream.send, b"x" * 100)
        await anyio.wait_all_tasks_blocked()
        assert stream.is_abandoned
        assert request.unread.used <= 1000
        tasks.cancel_scope.cancel()
    assert request.unread.used == 0
