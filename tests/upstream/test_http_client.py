"""HTTP to servers: a request that fails does so alone, and a session ends in good order."""

from typing import Any

import anyio
import msgspec
import pytest
from anyio.abc import SocketStream
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from pegboard import ServerState
from pegboard.upstream.http.event_stream import EventReader
from pegboard.upstream.http.pool import HttpPool
from tests.upstream.board_servers import hub_of
from tests.upstream.http_clients import (
    REQUEST,
    app_of,
    call,
    connected,
    failure_in,
    post,
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

BOTH = pytest.mark.parametrize("transport", ["streamable_http", "sse"])


@pytest.mark.covers("R-AS-2", "R-AS-32", "R-EXCEL-21")
@BOTH
@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_a_tool_is_called_over_either_transport_in_either_era(
    transport: Any, protocol: str
) -> None:
    app, path = app_of(transport)
    async with serving(app) as origin, HttpPool() as pool:
        config = config_for(origin + path, transport)
        async with connected(config, pool, protocol=protocol) as session:
            assert await call(session, "echo", text="grüß Gott 🙂") == "grüß Gott 🙂"


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

        async def wait() -> None:
            results.append(await call(session, "wait"))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(wait)
            await gate.until_waiting(5)
            failure = await failure_in(call(session, "echo", text="cut me"))
            assert failure.kind == "lost"
            gate.released.set()
        assert results == ["done"] * 5


@pytest.mark.parametrize("transport", ["streamable_http"])
@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_a_server_that_is_down_was_not_sent_anything_and_works_after_its_restart(
    transport: Any, protocol: str
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
        async with connected(config, pool, protocol=protocol) as session:
            assert await call(session, "echo", text="one") == "one"
            stop.set()
            with anyio.fail_after(5):
                await down.wait()
            assert (await failure_in(call(session, "echo", text="two"))).kind == "not_sent"
            restart.set()
            with anyio.fail_after(5):
                await restarted.wait()
            if protocol == "legacy":
                failure = await failure_in(call(session, "echo", text="three"))
                assert failure.kind == "session_lost"
            else:
                assert await call(session, "echo", text="three") == "three"
        async with connected(config, pool, protocol=protocol) as session:
            assert await call(session, "echo", text="four") == "four"
        group.cancel_scope.cancel()


class Sessions:
    """Notes the sessions that requests to an app name."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.named: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        names = dict(scope.get("headers", ()))
        if b"mcp-session-id" in names:
            self.named.add(names[b"mcp-session-id"].decode())
        await self._app(scope, receive, send)


async def test_a_session_that_the_server_forgot_is_told_apart() -> None:
    app, path = app_of("streamable_http")
    sessions = Sessions(app)
    async with serving(sessions) as origin, HttpPool() as pool:
        config = config_for(origin + path)
        async with connected(config, pool) as session, pool.client_for(config) as other:
            assert await call(session, "echo", text="x") == "x"
            assert session.keeps_session
            [other.session_id] = sessions.named
            other.session_headers = {"mcp-protocol-version": session.negotiated.version}
            await other.delete()
            failure = await failure_in(call(session, "echo", text="x"))
            assert (failure.kind, failure.status) == ("session_lost", 404)


async def test_a_modern_server_issues_no_session() -> None:
    app, path = app_of("streamable_http")
    sessions = Sessions(app)
    async with (
        serving(sessions) as origin,
        HttpPool() as pool,
        connected(config_for(origin + path), pool, protocol="2026-07-28") as session,
    ):
        assert await call(session, "echo", text="x") == "x"
        assert not session.keeps_session
    assert sessions.named == set()


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_stream_may_be_silent_for_longer_than_the_limits_of_its_server(method: str) -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hi\r\n")
        await anyio.sleep(0.8)  # the silence is what this is about
        await stream.send(b"data: late\r\n\r\n")

    async with (
        serving_raw(handle) as origin,
        HttpPool() as pool,
        pool.client_for(config_for(origin, seconds=0.5)) as client,
    ):
        response = await (client.get({}) if method == "GET" else client.post(REQUEST, {}))
        reader = EventReader(largest=1000)
        pieces = client.pieces(response)
        assert [it.data async for piece in pieces for it in reader.feed(piece)] == [b"late"]


async def test_a_call_whose_stream_breaks_in_the_middle_fails_alone() -> None:
    gate = Gate()
    app, path = app_of("streamable_http", gate)
    async with (
        serving(app) as origin,
        HttpPool() as pool,
        anyio.create_task_group() as group,
    ):
        async with cutting_proxy(origin, b"cut me") as proxy:
            gone, failed = anyio.Event(), anyio.Event()

            async def wait() -> None:
                async with connected(config_for(proxy + path), pool) as session:
                    assert (await failure_in(call(session, "wait"))).kind == "lost"
                    await gone.wait()
                    failure = await failure_in(call(session, "echo", text="x"))
                    assert failure.kind == "not_sent"
                    failed.set()

            group.start_soon(wait)
            await gate.until_waiting(1)
        gone.set()
        with anyio.fail_after(5):
            await failed.wait()


@BOTH
async def test_a_peer_that_accepts_and_never_answers_is_given_up(transport: Any) -> None:
    async def handle(stream: SocketStream) -> None:
        await anyio.sleep_forever()

    async with serving_raw(handle) as origin:
        config = config_for(origin + "/mcp", transport, seconds=0.5)
        with anyio.fail_after(8):
            async with hub_of(config) as hub:
                assert hub.servers["remote"].state == ServerState.DOWN
                assert "0.5 s" in str(hub.servers["remote"].last_error)


@BOTH
async def test_a_result_of_three_megabytes_passes(transport: Any) -> None:
    app, path = app_of(transport)
    async with (
        serving(app) as origin,
        HttpPool() as pool,
        connected(config_for(origin + path, transport), pool) as session,
    ):
        assert await call(session, "large", size=3_000_000) == "x" * 3_000_000


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
        assert await call(session, "echo", text="x") == "x"


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
            group.start_soon(call, session, "wait")
            await gate.until_waiting(1)
            group.cancel_scope.cancel()
        assert await call(session, "echo", text="x") == "x"


async def test_clients_of_one_pool_share_its_connections_and_survive_each_other() -> None:
    opened = 0

    async def handle(stream: SocketStream) -> None:
        nonlocal opened
        opened += 1
        while True:
            await read_request(stream)
            await stream.send(answer("200 OK", b"{}", content_type="application/json"))

    async with serving_raw(handle) as origin, HttpPool() as pool:
        for _ in range(3):
            async with pool.client_for(config_for(origin)) as client:
                assert await post(client) == b"{}"
    assert opened == 1


async def test_two_servers_behind_one_address_share_no_connection() -> None:
    seen: list[tuple[int, bytes]] = []
    opened = 0

    async def handle(stream: SocketStream) -> None:
        nonlocal opened
        opened += 1
        number = opened
        while True:
            head, _ = await read_request(stream)
            seen.append((number, head.lower().partition(b"authorization: ")[2][:10]))
            kept = {"content_type": "application/json", "set_cookie": "who=first"}
            await stream.send(answer("200 OK", b"{}", **kept))
            assert b"cookie" not in head.lower()

    async with serving_raw(handle) as origin, HttpPool() as pool:
        for name in ("a", "b", "a", "b"):
            config = config_for(origin, bearer_token=f"{name}-secret")
            config = msgspec.structs.replace(config, name=name)
            async with pool.client_for(config) as client:
                await post(client)
    assert seen == [(1, b"bearer a-s"), (2, b"bearer b-s")] * 2


async def test_the_user_and_password_in_an_address_are_sent_as_a_header() -> None:
    seen: list[bytes] = []

    async def handle(stream: SocketStream) -> None:
        seen.append((await read_request(stream))[0])
        await stream.send(answer("200 OK", b"{}", content_type="application/json"))

    async with serving_raw(handle) as origin, HttpPool() as pool:
        config = config_for(origin.replace("://", "://me:a%20word@") + "/mcp")
        async with pool.client_for(config) as client:
            await post(client)
    [head] = seen
    assert head.startswith(b"POST /mcp HTTP/1.1\r\n")
    assert b"authorization: basic bwu6ysb3b3jk" in head.lower()


async def test_nothing_is_sent_over_a_pool_that_is_closed() -> None:
    config = config_for("http://127.0.0.1:1")
    async with HttpPool() as pool, pool.client_for(config) as client:
        await pool.close()
        assert (await failure_in(post(client))).kind == "not_sent"
    assert (await refusal_of(config, pool)).kind == "not_sent"
