"""Delivery: what becomes of a call, and of its neighbours, when an exchange goes wrong."""

import json
import sys
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream, TaskGroup
from mcp.server.mcpserver import MCPServer

from pegboard import ConnectionLostError, ProtocolError, ServerConfig, ToolTimeoutError
from pegboard.hub import Hub
from pegboard.upstream import CallContext, Questions, context_of_call
from pegboard.upstream.connections.stateful import CLOSE_LIMIT
from pegboard.upstream.http import streamable_http
from pegboard.upstream.http.pool import KEPT_IDLE, HttpPool
from pegboard.upstream.session.incoming import MOST_REQUESTS
from pegboard.upstream.standalone import StandaloneClient
from tests.upstream.board_servers import hub_of, limits, until
from tests.upstream.http_clients import connected, post
from tests.upstream.http_servers import answer, config_for, read_request, serving_raw
from tests.upstream.scripted_server import (
    PLAIN,
    STREAM,
    Say,
    Scripted,
    call,
    event,
    note,
    result,
    saying,
    scripted,
)

NO_STREAM = answer("405 Method Not Allowed")
INVALID = pytest.mark.parametrize("location", ["http://[x/", "http://127.0.0.1:99999/x"])


def cut(retry: int = 1) -> bytes:
    """A stream that ends before the response, and can be resumed."""
    return answer("200 OK", event(b"", id="1", retry=retry), **STREAM)


def is_resumption(request: dict[str, Any]) -> bool:
    return b"last-event-id" in request.get("head", b"").lower()


class Slow:
    """Holds the calls with ``slow``; ``say`` answers all other requests."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._arrived = anyio.Event()
        self._go = anyio.Event()
        self._text = ""

    async def __call__(self, stream: SocketStream, request: dict[str, Any]) -> None:
        if "head" in request or not request["params"]["arguments"].get("slow"):
            await self._say(stream, request)
            return
        self._arrived.set()
        await self._go.wait()
        await stream.send(answer("200 OK", result(request), **PLAIN))

    async def start(self, hub: Hub, group: TaskGroup) -> None:
        """Start a call, and return when the server has it."""

        async def run() -> None:
            self._text = await call(hub, slow=True)

        group.start_soon(run)
        await self._arrived.wait()

    def release(self) -> None:
        self._go.set()

    @property
    def is_done(self) -> bool:
        return self._text == "done"


async def test_a_call_with_a_session_of_its_own_runs_once_when_its_stream_ends_early() -> None:
    say = saying(lambda it: NO_STREAM if "head" in it else cut())
    async with scripted(say, "legacy", stateless=True) as (hub, server):
        with pytest.raises(ConnectionLostError) as caught:
            await call(hub)
        assert caught.value.sent
        assert len(server.calls) == 1
        assert not any(is_resumption({"head": it}) for it in server.streams)


@INVALID
async def test_a_redirect_to_an_invalid_address_fails_its_own_call_only(location: str) -> None:
    def say_of(request: dict[str, Any]) -> bytes:
        return NO_STREAM if "head" in request else answer("307 Moved", location=location)

    slow = Slow(saying(say_of))
    async with scripted(slow, "legacy") as (hub, _), anyio.create_task_group() as group:
        await slow.start(hub, group)
        with pytest.raises(ProtocolError, match="Redirect to an invalid address not followed"):
            await call(hub)
        slow.release()
    assert slow.is_done


@INVALID
async def test_a_stream_or_notification_that_is_redirected_astray_fails_no_call(
    location: str,
) -> None:
    astray = saying(lambda _: answer("307 Moved", location=location))
    redirected = anyio.Event()

    async def redirect(stream: SocketStream, request: dict[str, Any]) -> None:
        await astray(stream, request)
        redirected.set()

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        if "head" in request:
            await astray(stream, request)
        elif request["params"]["arguments"].get("hang"):
            await stream.receive()
        else:
            await stream.send(whole(request))

    slow = Slow(say)
    others: dict[str, Say] = {"notifications/cancelled": redirect}
    async with scripted(slow, "legacy", others) as (hub, server):
        await until(lambda: server.streams)
        async with anyio.create_task_group() as group:
            await slow.start(hub, group)
            with anyio.move_on_after(5) as scope:
                async with anyio.create_task_group() as cancelled:
                    cancelled.start_soon(partial(call, hub, hang=True))
                    await until(lambda: len(server.calls) == 2)
                    scope.cancel()
            await redirected.wait()
            assert [await call(hub) for _ in range(3)] == ["done"] * 3
            slow.release()
        assert slow.is_done
        assert hub.servers["raw"].starts == 1


async def test_half_a_character_from_a_server_in_memory_is_replaced_and_costs_no_other_call() -> (
    None
):
    server = MCPServer("memory", log_level="CRITICAL")
    arrived, go = anyio.Event(), anyio.Event()

    @server.tool()
    async def half() -> str:
        return "a\ud800b"

    @server.tool()
    async def slow() -> str:
        arrived.set()
        await go.wait()
        return "done"

    config = ServerConfig(name="m", transport="memory", server=server, protocol="legacy")
    texts: list[str] = []

    async with hub_of(config) as hub:

        async def wait() -> None:
            texts.append((await hub.call("mcp_m_slow")).text())

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await arrived.wait()
                assert (await hub.call("mcp_m_half")).text() == "a\ufffdb"
                go.set()
    assert texts == ["done"]


async def test_a_call_that_timed_out_does_not_wait_until_the_server_takes_its_cancellation() -> (
    None
):
    held, gave_up = anyio.Event(), anyio.Event()

    async def hold(stream: SocketStream, request: dict[str, Any]) -> None:
        held.set()
        try:
            await stream.receive()
        finally:
            gave_up.set()

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        if "head" in request:
            await stream.send(NO_STREAM)
        elif request["params"]["arguments"].get("hang"):
            await stream.receive()
        else:
            await stream.send(whole(request))

    others: dict[str, Say] = {"notifications/cancelled": hold}
    async with scripted(say, "legacy", others, timeouts=limits(call=0.5)) as (hub, _):
        with pytest.raises(ToolTimeoutError):
            await call(hub, hang=True)
        await held.wait()
        # By then the server would know if the cancellation had been given up.
        assert await call(hub) == "done"
        assert not gave_up.is_set()


async def test_a_pause_before_a_resumption_counts_against_the_limit_of_the_call() -> None:
    say = saying(lambda it: NO_STREAM if "head" in it else cut(retry=60_000))
    async with scripted(say, "legacy", timeouts=limits(call=0.3)) as (hub, server):
        with pytest.raises(ToolTimeoutError):
            await call(hub)
        assert len(server.calls) == 1
        assert not any(is_resumption({"head": it}) for it in server.streams)


async def test_the_time_of_a_person_does_not_count_against_a_call_that_is_resumed() -> None:
    asked, decided, told = anyio.Event(), anyio.Event(), anyio.Event()
    params = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        if is_resumption(request):
            await stream.send(answer("200 OK", event(result(server.calls[0][1])), **STREAM))
        elif "head" in request:
            await stream.send(NO_STREAM)
        elif request["params"]["name"] == "hang":
            await stream.receive()
        else:
            body = event(json.dumps(question).encode(), id="1", retry=1)
            await stream.send(answer("200 OK", body, content_length="1000", **STREAM))
            await told.wait()
            await stream.aclose()

    async def hear(stream: SocketStream, request: dict[str, Any]) -> None:
        await stream.send(answer("202 Accepted"))
        told.set()

    async def person(name: str, params: object) -> dict[str, Any]:
        asked.set()
        await decided.wait()
        return {"action": "accept", "content": {}}

    async def ask() -> None:
        raw.update(await client.call_tool("ask"))

    raw: dict[str, Any] = {}
    server = Scripted(say, {"": hear})
    async with serving_raw(server.handle) as origin, anyio.create_task_group() as group:
        config = ServerConfig(
            name="raw",
            transport="streamable_http",
            url=f"{origin}/mcp",
            protocol="legacy",
            timeouts=limits(call=0.4),
        )
        client = StandaloneClient(config, questions=Questions(elicitation=person))
        with anyio.fail_after(10):
            await client.connect()
            group.start_soon(ask)
            await asked.wait()
            # A call that began later has reached the limit before the person answers.
            with pytest.raises(ToolTimeoutError):
                await client.call_tool("hang")
            decided.set()
            await until(lambda: raw)
            await client.close()
    assert raw["content"][0]["text"] == "done"


async def test_a_stream_that_brings_nothing_new_is_resumed_three_times() -> None:
    def say_of(request: dict[str, Any]) -> bytes:
        if is_resumption(request):
            return answer("200 OK", b": nothing yet\r\nretry: 1\r\n\r\n", **STREAM)
        return NO_STREAM if "head" in request else cut()

    async with scripted(saying(say_of), "legacy") as (hub, server):
        with pytest.raises(ConnectionLostError) as caught:
            await call(hub)
        assert caught.value.sent
        assert sum(is_resumption({"head": it}) for it in server.streams) == 3
        assert len(server.calls) == 1


async def test_a_stream_with_news_is_resumed_as_often_as_it_takes() -> None:
    def say_of(request: dict[str, Any]) -> bytes:
        if not is_resumption(request):
            return NO_STREAM if "head" in request else cut()
        done = sum(is_resumption({"head": it}) for it in server.streams)
        body = result(server.calls[0][1]) if done == 8 else b""
        return answer("200 OK", event(body, id=f"{done + 1}", retry=1), **STREAM)

    async with scripted(saying(say_of), "legacy") as (hub, server):
        assert await call(hub) == "done"
        assert len(server.calls) == 1


async def test_a_stream_is_not_resumed_in_a_session_that_did_not_send_the_request() -> None:
    def say_of(request: dict[str, Any]) -> bytes:
        if "head" in request:
            return NO_STREAM
        if request["params"]["arguments"].get("cut"):
            return cut(retry=1500)
        return answer("404 Gone") if len(server.calls) == 2 else whole(request)

    async def lose() -> None:
        with pytest.raises(ConnectionLostError) as caught:
            await call(hub, cut=True)
        assert caught.value.sent

    async with scripted(saying(say_of), "legacy") as (hub, server):
        async with anyio.create_task_group() as group:
            group.start_soon(lose)
            await until(lambda: len(server.calls) == 1)
            # The server has forgotten the session while the first call pauses.
            assert await call(hub) == "done"
            assert hub.servers["raw"].starts == 2
        assert len(server.calls) == 3
        assert not any(is_resumption({"head": it}) for it in server.streams)


def whole(request: dict[str, Any]) -> bytes:
    return answer("200 OK", result(request), **PLAIN)


FLOOD = """
import json, sys, time
number = json.loads(sys.stdin.readline())["id"]
said = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
print(json.dumps({"jsonrpc": "2.0", "id": number, "result": said}))
for number in range(3_000):
    print('{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number)
print('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', flush=True)
time.sleep(100)
"""


async def test_a_server_that_floods_requests_and_reads_nothing_has_few_of_them_answered() -> None:
    config = ServerConfig(
        name="flood", transport="stdio", command=sys.executable, args=("-c", FLOOD)
    )
    flooded = anyio.Event()
    before = len(anyio.get_running_tasks())
    with anyio.fail_after(20) as scope:
        async with connected(config, protocol="auto", on_changed=lambda *_: flooded.set()):
            await flooded.wait()
            tasks = len(anyio.get_running_tasks()) - before
            assert MOST_REQUESTS <= tasks < MOST_REQUESTS + 50
            scope.deadline = anyio.current_time() + CLOSE_LIMIT


async def test_a_broken_exchange_leaves_the_other_calls_of_a_server_without_sessions_alone() -> (
    None
):
    async def hang_up(stream: SocketStream, request: dict[str, Any]) -> None:
        if request["params"]["arguments"].get("lost"):
            await stream.aclose()
        else:
            await stream.send(whole(request))

    slow = Slow(hang_up)
    async with scripted(slow) as (hub, server), anyio.create_task_group() as group:
        await slow.start(hub, group)
        with pytest.raises(ConnectionLostError):
            await call(hub, lost=True)
        # A new session would begin after the end of the old one, and of its calls.
        assert await call(hub) == "done"
        slow.release()
    assert slow.is_done
    assert len(server.calls) == 3
    assert hub.servers["raw"].starts == 1


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_a_page_instead_of_a_stream_is_not_asked_for_again(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable_http, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(streamable_http, "_SHORTEST_PAUSE", 0.0)
    page = answer("200 OK", b"{}", content_type=kind)
    say = saying(lambda it: page if "head" in it else whole(it))
    async with scripted(say, "legacy") as (hub, server):
        for _ in range(20):
            assert await call(hub) == "done"
        assert len(server.streams) == 1


async def test_a_log_level_that_is_lost_costs_no_call() -> None:
    levels: list[str] = []

    async def hang_up(stream: SocketStream, request: dict[str, Any]) -> None:
        levels.append(request["params"]["level"])
        await stream.aclose()

    say = saying(lambda it: NO_STREAM if "head" in it else whole(it))
    server = Scripted(say, {"logging/setLevel": hang_up})
    server.capabilities = {"tools": {}, "logging": {}}
    async with serving_raw(server.handle) as origin:
        config = config_for(f"{origin}/mcp", protocol="legacy")
        async with hub_of(config) as hub:
            context_of_call.set(CallContext(log_level="info", on_log=lambda *_: None))
            with anyio.fail_after(10):
                assert (await hub.call("mcp_remote_go")).text() == "done"
    assert levels == ["info"]
    assert len(server.calls) == 1


async def test_a_refusal_for_want_of_headers_stands_when_the_tools_cannot_be_listed() -> None:
    refused = {"code": -32020, "message": "header mismatch"}

    def say_of(request: dict[str, Any]) -> bytes:
        body = {"jsonrpc": "2.0", "id": request["id"], "error": refused}
        return answer("400 Bad Request", json.dumps(body).encode(), **PLAIN)

    async def hang_up(stream: SocketStream, request: dict[str, Any]) -> None:
        await stream.aclose()

    async with scripted(saying(say_of)) as (hub, server):
        server.others["tools/list"] = hang_up
        with pytest.raises(ProtocolError, match="header mismatch") as caught:
            await call(hub)
        assert caught.value.rpc_code == -32020
        assert not caught.value.sent
        assert len(server.calls) == 1


async def test_an_unreadable_event_before_the_response_is_passed_over() -> None:
    say = saying(lambda it: answer("200 OK", event(b"ping") + event(result(it)), **STREAM))
    async with scripted(say) as (hub, _):
        assert await call(hub) == "done"


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
async def test_an_unreadable_event_instead_of_the_response_is_an_error(era: Any) -> None:
    unreadable = answer("200 OK", event(b"ping", id="1", retry=1), **STREAM)
    say = saying(lambda it: NO_STREAM if "head" in it else unreadable)
    async with scripted(say, era) as (hub, server):
        with pytest.raises(ProtocolError, match="cannot be read"):
            await call(hub)
        assert len(server.calls) == 1


@pytest.mark.parametrize("is_used", [False, True], ids=["idle", "in use"])
async def test_the_connections_of_a_replaced_entry_are_closed(is_used: bool) -> None:
    closed = anyio.Event()

    async def handle(stream: SocketStream) -> None:
        head, _ = await read_request(stream)
        await stream.send(answer("200 OK", b"{}", **PLAIN))
        try:
            await stream.receive()
        finally:
            if b"/old" in head:
                closed.set()

    async with (
        serving_raw(handle) as origin,
        HttpPool() as pool,
        AsyncExitStack() as users,
    ):
        await post(await users.enter_async_context(pool.client_for(config_for(f"{origin}/old"))))
        if not is_used:
            await users.aclose()
        assert not closed.is_set()
        async with pool.client_for(config_for(f"{origin}/new")) as client:
            await post(client)
            await users.aclose()
            # Sooner than an idle connection is closed anyway.
            with anyio.fail_after(KEPT_IDLE / 2):
                await closed.wait()


async def test_an_error_that_only_mentions_a_session_is_no_lost_session() -> None:
    error = {"code": -32602, "message": "Unknown session parameter"}

    def say_of(request: dict[str, Any]) -> bytes:
        if "head" in request:
            return NO_STREAM
        body = {"jsonrpc": "2.0", "id": request["id"], "error": error}
        return answer("400 Bad Request", json.dumps(body).encode(), **PLAIN)

    async with scripted(saying(say_of), "legacy") as (hub, server):
        with pytest.raises(ProtocolError, match="Unknown session parameter"):
            await call(hub)
        assert len(server.calls) == 1
        assert hub.servers["raw"].starts == 1


async def test_a_progress_token_that_comes_back_as_text_is_recognized() -> None:
    def say_of(request: dict[str, Any]) -> bytes:
        token = str(request["params"]["_meta"]["progressToken"])
        told = note("notifications/progress", progressToken=token, progress=0.5)
        return answer("200 OK", event(told) + event(result(request)), **STREAM)

    heard: list[object] = []
    async with scripted(saying(say_of)) as (hub, _):
        context_of_call.set(CallContext(on_progress=lambda *it: heard.append(it)))
        assert await call(hub) == "done"
    assert len(heard) == 1
