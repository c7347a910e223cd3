"""HTTP transports: a request that fails does so alone, and a session ends in good order."""

from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from pegboard.upstream.errors.failures import failure_of
from pegboard.upstream.http.client import HttpPool
from tests.upstream.http_clients import (
    app_of,
    connected,
    failure_in,
    refusal_of,
)
from tests.upstream.http_servers import (
    Gate,
    config_for,
    cutting_proxy,
    read_request,
    serving,
    serving_raw,
)

BOTH = pytest.mark.parametrize("transport", ["streamable_http", "sse"])


@pytest.mark.covers("R-AS-2", "R-AS-32", "R-EXCEL-21")
@BOTH
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_tool_is_called_over_either_transport_in_either_era(
    transport: Any, mode: str
) -> None:
    app, path = app_of(transport)
    async with serving(app) as origin, HttpPool() as pool:
        config = config_for(origin + path, transport)
        async with connected(config, pool, mode=mode) as session:
            result = await session.call_tool("echo", {"text": "grüß Gott 🙂"})
            assert result.structured_content == {"result": "grüß Gott 🙂"}


@BOTH
async def test_a_broken_connection_fails_one_call_and_spares_five_in_flight(transport: Any) -> None:
    gate = Gate()
    app, path = app_of(transport, gate)
    results: list[Any] = []
    async with (
        serving(app) as origin,
        cutting_proxy(origin, b"cut me") as proxy,
        HttpPool() as pool,
        connected(config_for(proxy + path, transport), pool) as session,
    ):

        async def call() -> None:
            results.append((await session.call_tool("wait")).structured_content)

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(call)
            await gate.until_waiting(5)
            failure = await failure_in(session.call_tool("echo", {"text": "cut me"}))
            assert failure.kind == "lost"
            gate.released.set()
        assert results == [{"result": "done"}] * 5


@pytest.mark.parametrize("transport", ["streamable_http"])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_server_that_is_down_was_not_sent_anything_and_works_after_its_restart(
    transport: Any, mode: str
) -> None:
    async with HttpPool() as pool, anyio.create_task_group() as group:
        app, path = app_of(transport)
        stop, restart, restarted = anyio.Event(), anyio.Event(), anyio.Event()
        down, origins = anyio.Event(), list[str]()

        async def operate(*, task_status: Any) -> None:
            async with serving(app) as origin:
                origins.append(origin)
                task_status.started()
                await stop.wait()
            down.set()
            await restart.wait()
            second, _ = app_of(transport)
            async with serving(second, port=int(origins[0].rpartition(":")[2])):
                restarted.set()
                await anyio.sleep_forever()

        await group.start(operate)
        config = config_for(origins[0] + path)
        async with connected(config, pool, mode=mode) as session:
            assert not (await session.call_tool("echo", {"text": "one"})).is_error
            stop.set()
            with anyio.fail_after(5):
                await down.wait()
            assert (await failure_in(session.call_tool("echo", {"text": "two"}))).kind == "not_sent"
            restart.set()
            with anyio.fail_after(5):
                await restarted.wait()
            if mode == "legacy":
                failure = await failure_in(session.call_tool("echo", {"text": "three"}))
                assert failure.kind == "session_lost"
            else:
                assert not (await session.call_tool("echo", {"text": "three"})).is_error
        async with connected(config, pool, mode=mode) as session:
            assert not (await session.call_tool("echo", {"text": "four"})).is_error
        group.cancel_scope.cancel()


async def test_a_session_that_the_server_forgot_is_told_apart() -> None:
    app, path = app_of("streamable_http")
    async with serving(app) as origin, HttpPool() as pool:
        config = config_for(origin + path)
        client = pool.client_for(config)
        async with connected(config, pool, client=client) as session:
            assert client.session_id
            deletion = httpx2.Request(
                "DELETE", origin + path, headers={"mcp-session-id": client.session_id}
            )
            await pool.client_for(config).send(deletion)
            failure = await failure_in(session.call_tool("echo", {"text": "x"}))
            assert (failure.kind, failure.status) == ("session_lost", 404)


async def test_a_modern_server_issues_no_session() -> None:
    app, path = app_of("streamable_http")
    async with serving(app) as origin, HttpPool() as pool:
        config = config_for(origin + path)
        client = pool.client_for(config)
        async with connected(config, pool, mode="2026-07-28", client=client) as session:
            assert not (await session.call_tool("echo", {"text": "x"})).is_error
            assert client.session_id is None


@pytest.mark.parametrize(
    ("method", "headers"),
    [("GET", {"accept": "text/event-stream"}), ("POST", {"mcp-method": "subscriptions/listen"})],
)
async def test_a_stream_may_be_silent_for_longer_than_an_answer(
    method: str, headers: dict[str, str]
) -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hi\r\n")
        await anyio.sleep(0.8)  # the silence is what this is about
        await stream.send(b"data: late\r\n\r\n")

    async with serving_raw(handle) as origin, HttpPool() as pool:
        client = pool.client_for(config_for(origin, seconds=0.5))
        request = client.build_request(method, origin, headers=headers)
        response = await client.send(request, stream=True)
        events = [event.data async for event in httpx2.EventSource(response)]
        assert events == ["late"]


async def test_a_stream_that_breaks_ends_and_so_is_opened_again_by_the_sdk() -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n"
            b"data: one\r\n\r\n"
        )

    async with serving_raw(handle) as origin, HttpPool() as pool:
        client = pool.client_for(config_for(origin))
        request = client.build_request("GET", origin, headers={"accept": "text/event-stream"})
        response = await client.send(request, stream=True)
        assert [event.data async for event in httpx2.EventSource(response)] == ["one"]


async def test_a_call_whose_stream_breaks_in_the_middle_fails_alone() -> None:
    gate = Gate()
    app, path = app_of("streamable_http", gate)
    async with (
        serving(app) as origin,
        HttpPool() as pool,
        anyio.create_task_group() as group,
    ):
        async with cutting_proxy(origin, b"cut me") as proxy:
            opened, failed = anyio.Event(), anyio.Event()

            async def call() -> None:
                async with connected(config_for(proxy + path), pool) as session:
                    opened.set()
                    with pytest.raises(MCPError) as caught:
                        await session.call_tool("wait")
                    assert caught.value.code == CONNECTION_CLOSED
                    failure = await failure_in(session.call_tool("echo", {"text": "x"}))
                    assert failure.kind == "not_sent"
                    failed.set()

            group.start_soon(call)
            await gate.until_waiting(1)
        with anyio.fail_after(5):
            await failed.wait()


@BOTH
async def test_a_peer_that_accepts_and_never_answers_is_given_up(transport: Any) -> None:
    async def handle(stream: SocketStream) -> None:
        await anyio.sleep_forever()

    async with serving_raw(handle) as origin, HttpPool() as pool:
        config = config_for(origin + "/mcp", transport, seconds=0.5)
        failure = failure_of((await refusal_of(config, pool)).error)
        assert failure is not None
        assert failure.kind == ("not_sent" if transport == "sse" else "lost")


@BOTH
async def test_a_result_of_three_megabytes_passes(transport: Any) -> None:
    app, path = app_of(transport)
    async with (
        serving(app) as origin,
        HttpPool() as pool,
        connected(config_for(origin + path, transport), pool) as session,
    ):
        result = await session.call_tool("large", {"size": 3_000_000})
        assert result.structured_content == {"result": "x" * 3_000_000}


@BOTH
async def test_a_redirect_to_another_origin_is_not_followed(transport: Any) -> None:
    reached: list[str] = []

    async def thief(request: Request) -> Response:
        reached.append(request.headers.get("authorization", ""))
        return PlainTextResponse("")

    async with (
        serving(
            Starlette(routes=[Route("/{any:path}", thief, methods=["GET", "POST"])])
        ) as elsewhere,
        serving(
            Starlette(
                routes=[
                    Route(
                        "/mcp",
                        lambda r: RedirectResponse(elsewhere + "/mcp"),
                        methods=["POST", "GET"],
                    )
                ]
            )
        ) as origin,
        HttpPool() as pool,
    ):
        config = config_for(origin + "/mcp", transport, bearer_token="very-secret-token")
        assert await refusal_of(config, pool)
    assert reached == []


@BOTH
async def test_a_redirect_within_the_origin_is_followed(transport: Any) -> None:
    app, path = app_of(transport)
    app.routes.insert(
        0, Route("/moved", lambda r: RedirectResponse(path), methods=["GET", "POST", "DELETE"])
    )
    async with (
        serving(app) as origin,
        HttpPool() as pool,
        connected(config_for(origin + "/moved", transport), pool) as session,
    ):
        assert not (await session.call_tool("echo", {"text": "x"})).is_error


async def test_a_server_that_ignores_the_goodbye_does_not_hold_us_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pegboard.upstream.http.client._SECONDS_TO_CLOSE", 0.5)
    app, path = app_of("streamable_http")
    asked = anyio.Event()

    async def stubborn(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE":
            asked.set()
            await anyio.sleep_forever()
        await app(scope, receive, send)

    async with serving(stubborn) as origin, HttpPool() as pool:
        with anyio.fail_after(5):
            async with connected(config_for(origin + path), pool):
                pass
    assert asked.is_set()


async def test_the_server_is_told_goodbye_even_by_a_cancelled_owner() -> None:
    app, path = app_of("streamable_http")
    ended: list[int] = []

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def watching_send(message: Any) -> None:
            if scope.get("method") == "DELETE" and message["type"] == "http.response.start":
                ended.append(message["status"])
            await send(message)

        await app(scope, receive, watching_send)

    async with serving(watched) as origin, HttpPool() as pool, anyio.create_task_group() as group:
        opened = anyio.Event()

        async def own() -> None:
            async with connected(config_for(origin + path), pool):
                opened.set()
                await anyio.sleep_forever()

        group.start_soon(own)
        await opened.wait()
        group.cancel_scope.cancel()
    assert ended == [200]


async def test_a_cancelled_call_leaves_the_connection_usable() -> None:
    gate = Gate()
    app, path = app_of("streamable_http", gate)
    async with (
        serving(app) as origin,
        HttpPool() as pool,
        connected(config_for(origin + path), pool) as session,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(session.call_tool, "wait")
            await gate.until_waiting(1)
            group.cancel_scope.cancel()
        assert not (await session.call_tool("echo", {"text": "x"})).is_error
