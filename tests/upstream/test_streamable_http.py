"""Streamable HTTP: one exchange for each request, over connections that are kept."""

import gzip
import json
from contextlib import suppress
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from pegboard import ConnectionLostError, ProtocolError, UpstreamError
from pegboard.hub import Hub
from pegboard.upstream import CallContext, context_of_call
from pegboard.upstream.http import client
from pegboard.upstream.http.pool import HttpPool
from tests.upstream.board_servers import until
from tests.upstream.http_clients import connected
from tests.upstream.http_servers import answer, config_for, serving_raw
from tests.upstream.scripted_server import (
    PLAIN,
    STREAM,
    Scripted,
    call,
    event,
    note,
    result,
    saying,
    scripted,
)


async def test_calls_one_after_the_other_share_a_connection() -> None:
    whole = saying(lambda it: answer("200 OK", result(it), **PLAIN))
    async with scripted(whole) as (hub, server):
        assert [await call(hub) for _ in range(5)] == ["done"] * 5
        assert server.connections == 1
        head = server.calls[0][0].lower()
        for header in (b"mcp-method: tools/call", b"mcp-name: go", b"accept-encoding: identity"):
            assert header in head
        assert b"mcp-protocol-version: 2026-07-28" in head
        assert b"mcp-session-id" not in head


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_a_connection_is_never_given_to_two_calls_at_once(status: str) -> None:
    both = anyio.Event()

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        number = request["params"]["arguments"].get("number")
        if number is None and status.startswith("200"):
            await stream.send(answer(status, event(result(request)), **STREAM))
        elif number is None:
            refused = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": 1, "message": "no"}}
            await stream.send(answer(status, json.dumps(refused).encode(), **PLAIN))
        else:
            if number == 2:
                both.set()
            await both.wait()
            told = [{"type": "text", "text": str(number)}]
            await stream.send(answer("200 OK", result(request, content=told), **PLAIN))

    async def ask(number: int) -> None:
        answers[number] = (await hub.call("mcp_raw_go", {"number": number})).text()

    answers: dict[int, str] = {}
    async with scripted(say) as (hub, server):
        for _ in range(2):
            with suppress(ProtocolError):
                await call(hub)
        assert server.connections == 1
        async with anyio.create_task_group() as group:
            group.start_soon(ask, 1)
            group.start_soon(ask, 2)
    assert answers == {1: "1", 2: "2"}


@pytest.mark.parametrize("kind", [PLAIN, STREAM])
async def test_an_answer_to_another_request_is_nobodys(kind: dict[str, str]) -> None:
    def say_of(request: dict[str, Any]) -> bytes:
        foreign = result({**request, "id": request["id"] + 1}, content=[])
        if kind is PLAIN:
            return answer("200 OK", foreign if len(server.calls) == 1 else result(request), **PLAIN)
        return answer("200 OK", event(foreign) + event(result(request)), **STREAM)

    async with scripted(saying(say_of)) as (hub, server):
        if kind is PLAIN:
            with pytest.raises(ConnectionLostError, match="another request"):
                await call(hub)
        assert await call(hub) == "done"


async def test_no_two_requests_have_the_same_id() -> None:
    whole = saying(lambda it: answer("200 OK", result(it), **PLAIN))
    ids: list[int] = []
    for _ in range(2):
        async with scripted(whole) as (hub, server):
            for _ in range(3):
                await call(hub)
            ids += [request["id"] for _, request in server.calls]
    assert len({*ids}) == 6


async def test_a_listener_that_fails_is_no_failure_of_the_call() -> None:
    def say_of(request: dict[str, Any]) -> bytes:
        token = request["params"]["_meta"]["progressToken"]
        body = event(note("notifications/progress", progressToken=token, progress=1))
        body += event(note("notifications/message", level="info", data="half-way"))
        return answer("200 OK", body + event(result(request)), **STREAM)

    def gone(*_: object) -> None:
        raise BrokenPipeError

    async with scripted(saying(say_of)) as (hub, server):
        context_of_call.set(CallContext(on_progress=gone, on_log=gone))
        assert await call(hub) == "done"
        assert len(server.calls) == 1


async def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    last = saying(lambda it: answer("200 OK", result(it), connection="close", **PLAIN))
    async with scripted(last) as (hub, server):
        assert [await call(hub) for _ in range(3)] == ["done"] * 3
        assert server.connections == 3


async def test_an_idle_connection_that_the_server_hung_up_is_not_used_again() -> None:
    closed = [anyio.Event() for _ in range(3)]

    async def hang_up(stream: SocketStream, request: dict[str, Any]) -> None:
        await stream.send(answer("200 OK", result(request), **PLAIN))
        await stream.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        closed[len(server.calls) - 1].set()

    async with scripted(hang_up) as (hub, server):
        for number in range(3):
            assert await call(hub) == "done"
            await closed[number].wait()
            assert server.connections == number + 1


def idle_connections(hub: Any) -> int:
    """Count the connections that are kept for later calls."""
    connectors = hub._supervisor._pool._connectors.values()
    return sum(len(kept) for it in connectors for kept in it._conns.values())


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_an_answer_in_any_pieces_is_put_together(size: int) -> None:
    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        token = request["params"]["_meta"]["progressToken"]
        events = [
            b": a comment\r\n\r\n",
            event(note("notifications/progress", progressToken=token, progress=1, total=2)),
            event(b"ignored", event="strange"),
            event(note("notifications/message", level="info", data="half-way")),
            event(note("notifications/progress", progressToken=token, progress=2, total=2)),
            event(note("notifications/strange", x=1)),
            event(result(request)),
        ]
        body = b"".join(b"%x\r\n%b\r\n" % (len(it), it) for it in events) + b"0\r\n\r\n"
        early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        whole = early + head + b"transfer-encoding: chunked\r\n\r\n" + body
        for start in range(0, len(whole), size):
            await stream.send(whole[start : start + size])

    notes: list[object] = []
    async with scripted(say) as (hub, server):
        brought = CallContext(
            on_progress=lambda *it: notes.append(it), on_log=lambda it: notes.append(it["data"])
        )
        for _ in range(2):
            context_of_call.set(brought)
            assert await call(hub) == "done"
            await until(lambda: idle_connections(hub))
        assert notes == [(1.0, 2.0, None), "half-way", (2.0, 2.0, None)] * 2
        assert server.connections == 1


async def test_an_answer_may_end_with_its_connection() -> None:
    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
        await stream.send(head + result(request))
        await stream.aclose()

    async with scripted(say) as (hub, _):
        assert [await call(hub), await call(hub)] == ["done", "done"]


@pytest.mark.parametrize("kind", [PLAIN, STREAM])
@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate", "br", "gzip, gzip"])
async def test_an_answer_that_is_compressed_unasked_is_refused_unread(
    coding: str, kind: dict[str, str]
) -> None:
    def packed(request: dict[str, Any]) -> bytes:
        body = gzip.compress(result(request))
        return answer("200 OK", body, content_encoding=coding, **kind)

    async with scripted(saying(packed)) as (hub, server):
        with pytest.raises(ProtocolError, match=r"compressed its response .* not asked for"):
            await call(hub)
        assert b"accept-encoding: identity" in server.calls[0][0].lower()


async def test_an_answer_that_names_no_compression_is_read() -> None:
    plain = saying(lambda it: answer("200 OK", result(it), content_encoding="identity", **PLAIN))
    async with scripted(plain) as (hub, _):
        assert await call(hub) == "done"


@pytest.mark.parametrize("where", ["before", "head", "body", "stream"])
async def test_a_connection_that_breaks_fails_one_call_which_is_not_repeated(where: str) -> None:
    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        if len(server.calls) > 1:
            await stream.send(answer("200 OK", result(request), **PLAIN))
            return
        kind = STREAM if where == "stream" else PLAIN
        whole = answer("200 OK", result(request), content_length="1000", **kind)
        cut = {"before": 0, "head": 20, "body": len(whole) - 9, "stream": len(whole) - 9}[where]
        await stream.send(whole[:cut])
        await stream.aclose()

    async with scripted(say) as (hub, server):
        with pytest.raises(ConnectionLostError):
            await call(hub)
        assert len(server.calls) == 1
        assert await call(hub) == "done"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"[]", PLAIN),
        (b"{", PLAIN),
        (b'{"jsonrpc": "2.0"}', PLAIN),
        (b'{"jsonrpc": "2.0", "method": "x"}', PLAIN),
        (b"\xff\xfe", PLAIN),
        (b"data: {\r\n\r\n", STREAM),
        (b"data: [1]\r\n\r\n", STREAM),
        (b"hello", {"content_type": "text/html"}),
        (b"junk", {"content_encoding": "gzip", **PLAIN}),
    ],
)
async def test_what_is_no_answer_is_an_error_of_its_call(
    body: bytes, fields: dict[str, str]
) -> None:
    async with scripted(saying(lambda _: answer("200 OK", body, **fields))) as (hub, _):
        for _ in range(2):
            with pytest.raises(ProtocolError):
                await call(hub)


async def test_what_is_no_http_is_an_error_of_its_call() -> None:
    async with scripted(saying(lambda _: b"SSH-2.0-OpenSSH_9.9\r\n")) as (hub, _):
        with pytest.raises(UpstreamError):
            await call(hub)


async def test_an_answer_that_is_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LARGEST_RESPONSE", 1 << 20)
    plain = saying(lambda it: answer("200 OK", result(it, pad="x" * (2 << 20)), **PLAIN))
    async with scripted(plain) as (hub, _):
        with pytest.raises(ProtocolError, match="exceeds 1 MiB"):
            await call(hub)
    long = saying(lambda it: answer("200 OK", event(result(it, pad="x" * (2 << 20))), **STREAM))
    async with scripted(long) as (hub, _):
        with pytest.raises(UpstreamError, match="too large"):
            await call(hub)


async def test_a_flood_of_notes_waits_for_whoever_reads_them() -> None:
    def flood(request: dict[str, Any]) -> bytes:
        logged = event(note("notifications/message", level="info", data="x" * 1000))
        return answer("200 OK", logged * 3000 + event(result(request)), **STREAM)

    heard: list[object] = []
    async with scripted(saying(flood)) as (hub, _):
        context_of_call.set(CallContext(on_log=heard.append))
        assert await call(hub) == "done"
        assert len(heard) == 3000


async def test_an_error_page_is_told_without_the_secrets_that_were_sent() -> None:
    secret = "tok-0123456789"

    def echo(request: dict[str, Any]) -> bytes:
        return answer("500 Oops", f"Bearer {secret} is no good".encode(), content_type="text/plain")

    async with scripted(saying(echo), bearer_token=secret) as (hub, server):
        with pytest.raises(ProtocolError, match="HTTP 500") as caught:
            await call(hub)
        assert secret not in str(caught.value)
        assert secret.encode() in server.calls[0][0]


async def test_a_call_follows_a_redirect_within_its_server() -> None:
    def moved(request: dict[str, Any]) -> bytes:
        if b" /mcp " in server.calls[-1][0]:
            return answer("307 Moved", location="/elsewhere")
        return answer("200 OK", result(request), **PLAIN)

    async with scripted(saying(moved)) as (hub, server):
        assert await call(hub) == "done"
        assert [head.split()[1] for head, _ in server.calls] == [b"/mcp", b"/elsewhere"]


async def test_what_is_under_way_ends_with_the_server() -> None:
    async def stay(stream: SocketStream, request: dict[str, Any]) -> None:
        await stream.receive()

    async with scripted(stay) as (hub, server), anyio.create_task_group() as group:
        group.start_soon(lost, hub)
        await until(lambda: server.calls)
        await hub.server("raw").stop()


async def lost(hub: Hub) -> None:
    with pytest.raises(ConnectionLostError):
        await call(hub)


@pytest.mark.parametrize("retry", ["", "retry: 5\r\n"])
async def test_a_legacy_stream_that_ends_too_soon_is_resumed(retry: str) -> None:
    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        if "head" not in request:
            await stream.send(answer("200 OK", f"id: 7\r\n{retry}data:\r\n\r\n".encode(), **STREAM))
        elif b"last-event-id: 7" in request["head"].lower():
            body = event(result(server.calls[0][1]), id=8)
            await stream.send(answer("200 OK", body, **STREAM))
        else:
            await stream.send(answer("405 No"))

    async with scripted(say, "legacy") as (hub, server):
        assert await call(hub) == "done"
        assert len(server.calls) == 1
        assert b"mcp-session-id: s" in server.calls[0][0].lower()


@pytest.mark.parametrize(("era", "tries"), [("legacy", 3), ("2026-07-28", 0)])
async def test_a_stream_that_cannot_be_resumed_costs_its_call_only(era: Any, tries: int) -> None:
    resumed: list[bytes] = []

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        if b"last-event-id" in request.get("head", b"").lower():
            resumed.append(request["head"])
            await stream.send(answer("200 OK", b"id: 7\r\nretry: 1\r\ndata:\r\n\r\n", **STREAM))
        elif "head" in request:
            await stream.send(answer("405 No"))
        elif len(server.calls) > 1:
            await stream.send(answer("200 OK", result(request), **PLAIN))
        else:
            await stream.send(answer("200 OK", b"id: 7\r\nretry: 1\r\ndata:\r\n\r\n", **STREAM))

    async with scripted(say, era) as (hub, server):
        with pytest.raises(ConnectionLostError):
            await call(hub)
        assert len(resumed) == tries
        assert await call(hub) == "done"


async def test_a_stream_that_goes_on_after_the_answer_is_left_at_once() -> None:
    async def go_on(stream: SocketStream, request: dict[str, Any]) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        await stream.send(head + b"transfer-encoding: chunked\r\n\r\n")
        body = event(result(request))
        await stream.send(b"%x\r\n%b\r\n" % (len(body), body))
        with pytest.raises(anyio.BrokenResourceError):
            while True:
                await stream.send(b"10000\r\n" + b":" * 0x10000 + b"\r\n")

    async with scripted(go_on) as (hub, _):
        assert await call(hub) == "done"


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_second_answer_is_no_part_of_the_first_and_ends_the_connection(
    is_stream: bool,
) -> None:
    def twice(request: dict[str, Any]) -> bytes:
        body, kind = result(request), PLAIN
        if is_stream:
            body, kind = event(body), STREAM
        foreign = result({"id": request["id"] + 1}, content=[{"type": "text", "text": "foreign"}])
        return answer("200 OK", body, **kind) + answer("200 OK", foreign, **PLAIN)

    async with scripted(saying(twice)) as (hub, server):
        assert [await call(hub) for _ in range(3)] == ["done"] * 3
        assert server.connections == 3


@pytest.mark.parametrize(
    "begun",
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\none: ",
    ],
    ids=["headers", "trailers", "one header"],
)
async def test_headers_and_trailers_that_never_end_are_given_up(begun: bytes) -> None:
    line = b"x" * 100 if begun.endswith(b": ") else b"x: " + b"y" * 95 + b"\r\n"

    async def endless(stream: SocketStream, _: dict[str, Any]) -> None:
        await stream.send(begun)
        with suppress(anyio.BrokenResourceError):
            while True:
                await stream.send(line * 1000)

    async with scripted(endless) as (hub, _):
        with pytest.raises(ConnectionLostError):
            await call(hub)


async def test_the_stream_of_a_session_is_opened_again_after_it_breaks() -> None:
    heard: list[tuple[str, str]] = []
    opened = anyio.Event()

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        if len(server.streams) > 1:
            opened.set()
            await anyio.sleep_forever()
        # Half of a character, as some servers send it.
        changed = note("notifications/resources/updated", uri="a\ud800b")
        body = event(changed, id=7, retry=1)
        await stream.send(answer("200 OK", body, content_length="999", **STREAM))
        await stream.aclose()

    server = Scripted(say)
    async with serving_raw(server.handle) as origin, HttpPool() as pool:
        config = config_for(f"{origin}/mcp")
        async with connected(config, pool, on_changed=lambda *it: heard.append(it)):
            with anyio.fail_after(5):
                await opened.wait()
    assert heard == [("resource", "a\ufffdb")]
    first, second = (head.lower() for head in server.streams)
    assert b"last-event-id" not in first
    assert b"last-event-id: 7" in second
    assert b"mcp-session-id: s" in second


async def test_an_answer_that_comes_while_a_connection_is_idle_is_no_answer_to_the_next_call() -> (
    None
):
    said = anyio.Event()

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        await stream.send(answer("200 OK", result(request), **PLAIN))
        if len(server.calls) == 1:
            await until(lambda: idle_connections(hub))
            await stream.send(answer("200 OK", result(request, content=[]), **PLAIN))
            said.set()

    async with scripted(say) as (hub, server):
        assert await call(hub) == "done"
        await said.wait()
        assert await call(hub) == "done"
        assert server.connections == 2
