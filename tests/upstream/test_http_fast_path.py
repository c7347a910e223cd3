"""The short way over plain HTTP: what is done to it, and when it is not taken."""

import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream
from hypothesis import given
from hypothesis import strategies as st

from pegboard import ConnectionLostError, ProtocolError, ServerConfig, UpstreamError
from pegboard.config.servers import OAuthConfig, Protocol
from pegboard.hub import Hub
from pegboard.upstream import CallContext, context_of_call
from pegboard.upstream.http import fast_path as direct
from pegboard.upstream.http.client import HttpPool
from pegboard.upstream.http.fast_path import direct_to
from pegboard.upstream.http.response_bodies import Event, EventReader, EventTooLargeError
from tests.upstream.board_servers import hub_of, until
from tests.upstream.http_servers import answer, read_request, serving_raw

Say = Callable[[dict[str, Any]], bytes]
PLAIN = {"content_type": "application/json"}
STREAM = {"content_type": "text/event-stream"}
TOOL = {"name": "go", "inputSchema": {"type": "object"}}


def result(request: dict[str, Any], **fields: Any) -> bytes:
    words = {"content": [{"type": "text", "text": "done"}], "resultType": "complete", **fields}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": words}).encode()


def event(data: bytes, **fields: object) -> bytes:
    lines = [f"{name}: {value}".encode() for name, value in fields.items()]
    return b"\r\n".join([*lines, b"data: " + data, b"", b""])


def note(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


class Scripted:
    """A server of bytes: it shakes hands, lists one tool, and answers calls as it is told to."""

    def __init__(self, say: Callable[[SocketStream, dict[str, Any]], Awaitable[object]]) -> None:
        self._say = say
        self.connections = 0
        self.calls: list[tuple[bytes, dict[str, Any]]] = []

    async def handle(self, stream: SocketStream) -> None:
        self.connections += 1
        while True:
            head, body = await read_request(stream)
            if head.startswith(b"GET"):
                await self._say(stream, {"head": head})
                continue
            if not head.startswith(b"POST"):
                await stream.send(answer("204 Gone"))
                continue
            request = json.loads(body)
            if request["method"] == "tools/call":
                self.calls.append((head, request))
                await self._say(stream, request)
            else:
                await stream.send(self._greet(request))

    def _greet(self, request: dict[str, Any]) -> bytes:
        match request["method"]:
            case "initialize":
                info = {"name": "scripted", "version": "1"}
                said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                said = {**said, "serverInfo": info}
                body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": said})
                return answer("200 OK", body.encode(), mcp_session_id="s", **PLAIN)
            case "server/discover":
                versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                body = result(request, **versions, ttlMs=0, cacheScope="private")
            case "tools/list":
                body = result(request, tools=[TOOL], ttlMs=0, cacheScope="private")
            case _:
                return answer("202 Accepted")
        return answer("200 OK", body, **PLAIN)


@asynccontextmanager
async def scripted(
    say: Callable[[SocketStream, dict[str, Any]], Awaitable[object]],
    protocol: Protocol = "2026-07-28",
    **fields: Any,
) -> AsyncGenerator[tuple[Hub, Scripted]]:
    server = Scripted(say)
    async with serving_raw(server.handle) as origin:
        config: dict[str, Any] = {"transport": "streamable_http", "url": f"{origin}/mcp", **fields}
        async with hub_of(ServerConfig(name="raw", protocol=protocol, **config)) as hub:
            before, server.connections = server.connections, 0
            assert before
            with anyio.fail_after(10):
                yield hub, server


def saying(make: Say) -> Callable[[SocketStream, dict[str, Any]], Awaitable[object]]:
    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        await stream.send(make(request))

    return say


def idle_connections(hub: Any) -> int:
    return sum(map(len, hub._supervisor._pool.wires._idle.values()))


async def call(hub: Hub) -> str:
    return (await hub.call("mcp_raw_go")).text()


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
    async with scripted(say) as (hub, _):
        for _ in range(2):
            with suppress(ProtocolError):
                await call(hub)
        assert idle_connections(hub) == 1
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
            assert idle_connections(hub) == 0
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
    async def hang_up(stream: SocketStream, request: dict[str, Any]) -> None:
        await stream.send(answer("200 OK", result(request), **PLAIN))
        await stream.aclose()

    async with scripted(hang_up) as (hub, server):
        for number in range(3):
            assert await call(hub) == "done"
            await until(lambda: not idle_connections(hub))
            assert server.connections == number + 1


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


async def test_an_answer_that_is_packed_unasked_is_unpacked() -> None:
    def packed(request: dict[str, Any]) -> bytes:
        body = gzip.compress(result(request))
        return answer("200 OK", body, content_encoding="gzip", **PLAIN)

    async with scripted(saying(packed)) as (hub, _):
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
    monkeypatch.setattr(direct, "LARGEST_ANSWER", 1 << 20)
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


async def test_a_redirect_is_followed_the_long_way() -> None:
    def moved(request: dict[str, Any]) -> bytes:
        if b" /mcp " in server.calls[-1][0]:
            return answer("307 Moved", location="/elsewhere")
        return answer("200 OK", result(request), **PLAIN)

    async with scripted(saying(moved)) as (hub, server):
        assert await call(hub) == "done"
        # Directly, by the general client, and by that one where it was sent to.
        paths = [head.split()[1] for head, _ in server.calls]
        assert paths == [b"/mcp", b"/mcp", b"/elsewhere"]


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


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "https://example.org/mcp"},
        {"url": "http://user:word@example.org/mcp"},
        {"oauth": OAuthConfig()},
        {"proxied": True},
    ],
)
async def test_some_servers_are_only_reached_the_long_way(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if fields.pop("proxied", False):
        monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    address: dict[str, Any] = {"url": "http://example.org/mcp", **fields}
    config = ServerConfig(name="far", transport="streamable_http", **address)
    async with HttpPool() as pool:
        auth = None if config.oauth is None else httpx2.BasicAuth("a", "b")
        assert direct_to(config, pool.client_for(config, auth), pool) is None


EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["message", "other"]),
        st.binary(min_size=1, max_size=9).map(lambda it: it.translate(None, b"\r\n")),
        st.none() | st.sampled_from(["1", "x y"]),
        st.none() | st.integers(0, 10_000),
    ),
    max_size=5,
)


@given(EVENTS, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 400)))
def test_events_do_not_depend_on_how_the_stream_is_cut(
    events: list[Event], end: bytes, cuts: list[int]
) -> None:
    lines: list[bytes] = [b": hello"]
    for it in events:
        lines += [b"event: " + it.kind.encode(), b"data: " + it.data]
        lines += [] if it.id is None else [b"id:" + it.id.encode()]
        lines += [] if it.retry is None else [b"retry: %d" % it.retry]
        lines += [b""]
    stream = b"".join(line + end for line in lines)
    places = sorted({0, len(stream), *(it % (len(stream) + 1) for it in cuts)})
    reader = EventReader(largest=10_000)
    read = [it for a, b in pairwise(places) for it in reader.feed(stream[a:b])]
    assert read == events


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


def test_a_long_event_in_many_pieces_is_put_together_once() -> None:
    reader = EventReader(largest=1 << 25)
    piece = b"x" * 1000
    read = [it for _ in range(20_000) for it in reader.feed(piece)]
    assert read == reader.feed(b"\n\n") == []
    reader.feed(b"data: ")
    for _ in range(20_000):
        assert reader.feed(piece) == []
    assert reader.feed(b"\r\n\r\n") == [Event("message", piece * 20_000)]


def test_an_event_has_a_limit() -> None:
    reader = EventReader(largest=100)
    with pytest.raises(EventTooLargeError):
        for _ in range(20):
            reader.feed(b"data: 0123456789\n")


def test_a_byte_order_mark_before_the_events_is_none_of_them() -> None:
    assert EventReader(largest=100).feed(b"\xef\xbb\xbfdata: x\n\n") == [Event("message", b"x")]
