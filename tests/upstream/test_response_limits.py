"""What a server sends costs a bounded share: values, bytes under way, and messages per second."""

import json
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import anyio.to_thread
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from pegboard import ProtocolError, ServerConfig, ServerState, ToolResult
from pegboard.gateway.passthrough.listing_cache import LARGEST_ITEM
from pegboard.model.result import result_of
from pegboard.upstream.http.response_body import chunks_of
from pegboard.upstream.messages import jsonrpc, response_limits
from pegboard.upstream.messages.channel import DuplexChannel
from pegboard.upstream.messages.failures import FailedError
from pegboard.upstream.messages.jsonrpc import (
    HUGE_PAGE,
    LARGEST_LISTED,
    LONGEST_TEXT,
    Message,
    read_large_message,
    result_in,
)
from pegboard.upstream.messages.response_limits import (
    LARGE,
    RESPONSES,
    Pace,
    ResponseBudget,
    check_numbers,
    check_values,
)
from pegboard.upstream.stdio.pipes import StdoutReader
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import answer
from tests.upstream.scripted_server import PLAIN, STREAM, event, scripted
from tests.upstream.test_hostile import TOOLS, raw

CONFIG = ServerConfig(name="pipe", transport="stdio", command="x")
values = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,:[{"\\\n\u00e9'),
    lambda it: (
        st.lists(it, max_size=4) | st.dictionaries(st.text(alphabet='k"\\,'), it, max_size=4)
    ),
)


@given(values, st.integers(1, 9))
def test_the_count_does_not_depend_on_texts_or_on_where_the_slices_end(value: Any, size: int):
    data = json.dumps(value).encode()
    marks = _marks(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(response_limits, "_FINE_SLICE", size + 1)
        patch.setattr(response_limits, "_SLICE", size)
        patch.setattr(response_limits, "_ESCAPES_PER_VALUE", 1 << 30)
        assert anyio.run(_passes, data, marks) or len(data) <= marks
        if marks:
            assert not anyio.run(_passes, data, marks - 1)


def _marks(value: Any) -> int:
    """Count a mark before each value of a list, two before each of an object, and its bracket."""
    match value:
        case dict():
            return 1 + max(0, len(value) - 1) + len(value) + sum(map(_marks, value.values()))
        case list():
            return 1 + max(0, len(value) - 1) + sum(map(_marks, value))
        case _:
            return 0


async def _passes(data: bytes, most: int) -> bool:
    try:
        await check_values(data, most)
    except FailedError:
        return False
    return True


async def test_a_large_message_is_counted_while_other_tasks_run() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        with pytest.raises(FailedError, match="max_response_values"):
            await check_values(b'["' + b"a,b," * 2_000_000 + b'",' + b"[]," * 300_000, 200_000)
        group.cancel_scope.cancel()
    assert turns >= 8_000_000 // (512 * 1024)


async def test_many_escapes_count_as_values_because_they_take_as_long() -> None:
    assert await _passes(b'"' + b"\\n" * 1_000_000 + b'"', 200_000)
    assert not await _passes(b'"' + b"\\n" * 10_000_000 + b'"', 200_000)


@pytest.mark.parametrize("wire", ["stdio", "json", "event"])
async def test_a_response_of_too_many_values_is_an_error_of_its_call_only(wire: str) -> None:
    many = "[" + "[]," * 30_000 + "1]"
    fine = '{"content":[{"type":"text","text":"fine"}],"resultType":"complete"}'
    async with _calling(wire, f'{{"content":[],"structuredContent":{many}}}', fine) as call:
        for _ in range(2):
            with pytest.raises(ProtocolError, match=r"10000 values.*`max_response_values`"):
                await call()
        assert (await call()).text() == "fine"


@pytest.mark.parametrize("count", [3_000, 20_000])
@pytest.mark.parametrize("wire", ["stdio", "json", "event"])
async def test_numbers_that_take_long_to_decode_are_an_error_of_their_call_only(
    wire: str, count: int
) -> None:
    slow = "[" + "1e300," * count + "1]"
    fine = '{"content":[{"type":"text","text":"fine"}],"resultType":"complete"}'
    async with _calling(wire, f'{{"content":[],"structuredContent":{slow}}}', fine) as call:
        for _ in range(2):
            with pytest.raises(ProtocolError, match="numbers with exponents of three digits"):
                await call()
        assert (await call()).text() == "fine"


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
async def test_slow_numbers_are_found_wherever_a_slice_ends_but_not_in_texts(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_limits, "_FINE_SLICE", size + 1)
    monkeypatch.setattr(response_limits, "_SLICE", size)
    long = b"[1.5," + b"1" * 201 + b"]"
    await check_numbers(b'["' + long + b'", "\\"' + long + b'"]')
    await check_numbers(b"[" + b"1" * 200 + b"]")
    with pytest.raises(FailedError, match="200 digits"):
        await check_numbers(b'["\\"", ' + long + b"]")
    many = b"1e300," * 1_500
    await check_numbers(b'["' + many + b'"]')
    with pytest.raises(FailedError, match="1000 numbers"):
        await check_numbers(b"[" + many + b"1]")


async def test_a_large_line_is_read_where_sniffio_is_installed() -> None:
    pytest.importorskip("sniffio")
    text = "x" * (LARGE + 1000)
    large = f'{{"content":[{{"type":"text","text":"{text}"}}],"resultType":"complete"}}'
    async with _calling("stdio", large, "{}") as call:
        assert (await call()).text() == text


@asynccontextmanager
async def _calling(
    wire: str, refused: str, then: str
) -> AsyncGenerator[Callable[[], Awaitable[ToolResult]]]:
    """Serve a tool that answers twice with one result, and then with another."""
    if wire == "stdio":
        lines = [f'{{"jsonrpc":"2.0","id":ID,"result":{it}}}' for it in (refused, then)]
        replies = {"tools/list": TOOLS, "tools/call": lines[0], "prompts/list": lines[1]}
        methods = iter(["tools/call", "tools/call", "prompts/list"])
        async with hub_of(raw(replies, max_response_values=10_000)) as hub:

            async def on_pipe() -> ToolResult:
                return result_of(await hub.server("raw").request(next(methods)))

            yield on_pipe
            assert (hub.servers["raw"].state, hub.servers["raw"].starts) == (ServerState.READY, 1)
        return
    bodies = iter([refused, refused, then])

    async def say(stream: SocketStream, request: dict[str, Any]) -> None:
        said = f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{next(bodies)}}}'.encode()
        body, kind = (said, PLAIN) if wire == "json" else (event(said), STREAM)
        await stream.send(answer("200 OK", body, **kind))

    async with scripted(say, max_response_values=10_000) as (hub, _):
        yield lambda: hub.call("mcp_raw_go")


async def test_a_page_of_many_tools_is_decoded_item_by_item() -> None:
    tools = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(3_000)]
    page = {"tools": tools, "nextCursor": "more", "_meta": {"x": 1}}
    data = json.dumps({"jsonrpc": "2.0", "id": 7, "result": page}).encode()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    message: Message | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(count)
        message = await read_large_message(data, 10_000)
        group.cancel_scope.cancel()
    assert message is not None
    assert await result_in(message, data) == page
    assert turns >= len(data) // (2 * LARGE)
    for refused in ({"tools": tools * 2}, {"content": tools}, {"tools": [tools]}):
        data = json.dumps({"jsonrpc": "2.0", "id": 7, "result": refused}).encode()
        with pytest.raises(FailedError):
            await read_large_message(data, 10_000)


@pytest.mark.parametrize("key", ["tools", "resources", "resourceTemplates", "prompts"])
async def test_of_a_giant_item_of_a_list_only_its_name_is_decoded(key: str) -> None:
    giant = {"name": "giant", "uri": "a://giant", "more": ["x" * HUGE_PAGE], "description": "d"}
    page = {key: [{"name": "small"}, giant, {"name": "other"}], "nextCursor": "2"}
    data = json.dumps({"jsonrpc": "2.0", "id": 7, "result": page}).encode()
    message = await read_large_message(data)
    assert message is not None
    result = await result_in(message, data)
    small, kept, other = result[key]
    assert (small, other, result["nextCursor"]) == ({"name": "small"}, {"name": "other"}, "2")
    # It is too large all the same, so that it is left out, and its name is told.
    assert len(json.dumps(kept)) >= LARGEST_LISTED > LARGEST_ITEM
    assert {**kept, "description": ""} == {"name": "giant", "uri": "a://giant", "description": ""}


async def test_of_a_large_notification_only_what_a_person_reads_is_kept() -> None:
    async def kept(data: object, **more: object) -> dict[str, Any]:
        params = {"level": "info", "data": data, **more}
        message = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
        read = await read_large_message(json.dumps(message).encode())
        assert read is not None
        assert read.params is not None
        return read.params

    long = await kept("a" * LARGE, _meta={"x": 1}, logger="b" * LARGE, more=["c" * LARGE])
    assert long["data"] == "a" * LONGEST_TEXT + f"… ({LARGE - LONGEST_TEXT} more characters)"
    assert long["logger"].startswith("b" * LONGEST_TEXT)
    assert (long["level"], long["_meta"], long["more"]) == ("info", {"x": 1}, None)
    assert (await kept({"a": "a" * LARGE}))["data"] == f"… ({LARGE + 8} bytes are left out)"
    assert (await kept({"a": "a" * 1000}))["data"] == {"a": "a" * 1000}


async def test_the_details_of_a_large_error_are_left_out() -> None:
    said = {"code": -1, "message": "no", "data": [[]] * LARGE}
    data = json.dumps({"jsonrpc": "2.0", "id": 7, "error": said}).encode()
    message = await read_large_message(data)
    assert message is not None
    with pytest.raises(jsonrpc.ServerRpcError) as caught:
        await result_in(message, data)
    assert (caught.value.code, caught.value.data) == (-1, None)


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_lone_surrogate_is_replaced_wherever_a_slice_ends(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    repair = jsonrpc._without_half_pairs  # pyright: ignore[reportPrivateUsage]
    text = b'"\\ud800 \\\\ud800 \\ud83d\\ude00\\udc00x\\\\\\ud83d"'
    whole = repair(text)
    monkeypatch.setattr(jsonrpc, "_SLICE", cut)
    # Only a slice without any other character may end within an escape.
    assert repair(text) == whole or cut < 3
    assert whole == b'"\\ufffd \\\\ud800 \\ud83d\\ude00\\ufffdx\\\\\\ufffd"'


async def test_responses_beyond_the_budget_wait_for_their_turn() -> None:
    budget = ResponseBudget(10 << 20)
    first, second, third = (budget.share(name) for name in "abc")
    await first.grow(6 << 20)
    await second.grow(4 << 20)
    order: list[str] = []

    async def read(name: str, size: int) -> None:
        await third.grow(size)
        order.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(read, "third", 5 << 20)
        await anyio.wait_all_tasks_blocked()
        assert (budget.waiting, budget.held, order) == (1, 10 << 20, [])
        # The oldest never waits, so that it can end.
        await first.grow(9 << 20)
        second.close()
        await anyio.wait_all_tasks_blocked()
        assert order == []
        first.close()
    assert (order, budget.held) == (["third"], 5 << 20)
    third.close()
    assert (budget.held, budget.waiting) == (0, 0)


async def test_one_server_holds_half_of_the_budget_at_most() -> None:
    budget = ResponseBudget(10 << 20)
    first, second, other = budget.share("a"), budget.share("a"), budget.share("b")
    await first.grow(4 << 20)
    with anyio.move_on_after(0.01):
        await second.grow(4 << 20)
        raise AssertionError
    # A response that was given up while it waited has left nothing behind.
    assert (budget.waiting, budget.held) == (0, 4 << 20)
    await other.grow(6 << 20)
    assert budget.held == 10 << 20


async def test_small_responses_never_wait() -> None:
    budget = ResponseBudget(1)
    await budget.share("a").grow(10 << 20)
    await budget.share("b").grow(LARGE)
    assert budget.held == 10 << 20


async def test_a_response_on_another_event_loop_gets_its_turn() -> None:
    budget, waits = ResponseBudget(1 << 20), threading.Event()
    mine, other = budget.share("a"), budget.share("b")
    await mine.grow(1 << 20)

    async def read() -> int:
        async with anyio.create_task_group() as group:
            group.start_soon(other.grow, 1 << 20)
            await anyio.wait_all_tasks_blocked()
            waits.set()
        return other.size

    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(anyio.run(read)))
    thread.start()
    await anyio.to_thread.run_sync(waits.wait, 5)
    mine.close()
    await anyio.to_thread.run_sync(thread.join, 5)
    assert found == [1 << 20]


def test_a_server_pauses_after_a_burst_and_longer_the_more_it_sends() -> None:
    pace = Pace()
    assert all(pace.spend(1) == 0 for _ in range(int(Pace.BURST) - 1))
    pauses = [pace.spend(1000) for _ in range(2)]
    assert [it > 0 for it in pauses] == [False, True] or 0 < pauses[0] < pauses[1] <= 1


async def test_a_flood_of_notifications_is_read_in_turns_and_the_response_arrives() -> None:
    heard: list[Message] = []
    read, write = os.pipe()
    note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}\n'
    async with anyio.create_task_group() as group:
        channel = DuplexChannel("pipe", _ignore, heard.append)
        os.set_blocking(read, False)
        with open(read, "rb", buffering=0) as pipe, open(write, "wb", buffering=0) as server:  # noqa: ASYNC230, PTH123
            reader = StdoutReader(
                CONFIG,
                pipe,
                channel=channel,
                lose=lambda _: None,
                start_soon=group.start_soon,
                max_line_bytes=1 << 20,
            )
            done = anyio.Event()
            group.start_soon(_answered, channel, done)
            await anyio.wait_all_tasks_blocked()
            server.write(note * 500 + b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
            taken = 0
            for _ in range(20):
                await checkpoint()
                taken = max(taken, len(heard))
            assert 0 < taken < 500
            with anyio.fail_after(5):
                await done.wait()
            assert len(heard) == 500
            reader.end()


async def test_many_responses_at_once_are_taken_in_turns() -> None:
    read, write = os.pipe()
    runs = [0]

    async def ask(channel: DuplexChannel, number: int) -> None:
        await channel.request({"id": number, "method": "ping"}, {}, lambda _: None)
        runs[-1] += 1

    async def start_a_run_each_turn() -> None:
        while True:
            runs.append(0)
            await checkpoint()

    async with anyio.create_task_group() as group:
        channel = DuplexChannel("pipe", _ignore, lambda _: None)
        os.set_blocking(read, False)
        with open(read, "rb", buffering=0) as pipe, open(write, "wb", buffering=0) as server:  # noqa: ASYNC230, PTH123
            reader = StdoutReader(
                CONFIG,
                pipe,
                channel=channel,
                lose=lambda _: None,
                start_soon=group.start_soon,
                max_line_bytes=1 << 20,
            )
            async with anyio.create_task_group() as asking:
                for number in range(1000):
                    asking.start_soon(ask, channel, number)
                await anyio.wait_all_tasks_blocked()
                group.start_soon(start_a_run_each_turn)
                said = [b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % it for it in range(1000)]
                server.write(b"".join(said))
            reader.end()
            group.cancel_scope.cancel()
    assert sum(runs) == 1000
    assert max(runs) <= 32


async def test_a_body_in_chunks_of_one_byte_is_read_in_turns() -> None:
    body, runs = b"x" * 20_000, [0]

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            await stream.send(b"".join(b"1\r\n%c\r\n" % it for it in body) + b"0\r\n\r\n")

    async def start_a_run_each_turn() -> None:
        while True:
            runs.append(0)
            await checkpoint()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    read = bytearray()
    async with listener, anyio.create_task_group() as group, aiohttp.ClientSession() as client:
        group.start_soon(listener.serve, serve)
        async with client.get(f"http://127.0.0.1:{port}/") as response:
            group.start_soon(start_a_run_each_turn)
            async for piece in chunks_of(response):
                read += piece
                runs[-1] += len(piece)
        group.cancel_scope.cancel()
    assert bytes(read) == body
    # A busy machine may give a turn twice the time of a quiet one.
    assert max(runs) <= 10_000


async def test_a_large_line_holds_its_share_of_the_budget_until_it_is_read() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    async with anyio.create_task_group() as group:
        channel = DuplexChannel("pipe", _ignore, lambda _: None)
        with open(read, "rb", buffering=0) as pipe, open(write, "wb", buffering=0) as server:  # noqa: ASYNC230, PTH123
            reader = StdoutReader(
                CONFIG,
                pipe,
                channel=channel,
                lose=lambda _: None,
                start_soon=group.start_soon,
                max_line_bytes=1 << 20,
            )
            done = anyio.Event()
            group.start_soon(_answered, channel, done)
            await anyio.wait_all_tasks_blocked()
            before = RESPONSES.held
            said = b'{"jsonrpc":"2.0","id":1,"result":{}' + b" " * 2 * LARGE
            for start in range(0, len(said), LARGE // 2):
                server.write(said[start : start + LARGE // 2])
                await anyio.wait_all_tasks_blocked()
            assert RESPONSES.held == before + 512 * 1024
            server.write(b'}\n{"jsonrpc":')
            with anyio.fail_after(5):
                await done.wait()
            await anyio.wait_all_tasks_blocked()
            # The beginning of the next line is small.
            assert RESPONSES.held == before
            reader.end()


async def _answered(channel: DuplexChannel, done: anyio.Event) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    assert await channel.request(message, {}, lambda _: None) == {}
    done.set()


async def _ignore(_: bytes, __: object) -> None:
    pass
