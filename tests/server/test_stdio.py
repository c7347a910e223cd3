"""Both eras over standard input and output; the pipes are real."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream
from blockbuster import BlockBuster
from mcp_types import CLIENT_INFO_META_KEY

from pegboard.server import RequestPipeline, StdioWire, serve_stdio
from pegboard.server.message_limits import MOST_VALUES
from pegboard.server.stdio import LONGEST_LINE, Work
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import modern_request
from tests.server.test_http_sessions import INITIALIZE, PING
from tests.server.test_jsonrpc import UNREADABLE

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture(autouse=True)
def waits_before_it_reads(no_blocking_calls: BlockBuster) -> None:
    """Reading what is there, and writing what has room, does not block."""
    for name in ("os.read", "os.write"):
        detector = no_blocking_calls.functions[name]
        for function in ("_read", "write"):
            detector.can_block_in("pegboard/server/stdio.py", function)


class Peer:
    """The client at the other end."""

    def __init__(self, lines: MemoryObjectReceiveStream[bytes], target: int) -> None:
        self._lines = lines
        self._target = target
        self._wire = StdioWire(target, target)

    async def says(self, message: Any) -> None:
        await self._wire.write(message if isinstance(message, bytes) else encoded(message))

    async def hears(self) -> Any:
        with anyio.fail_after(5):
            return json.loads(await self._lines.receive())

    async def asks(self, message: Any) -> Any:
        await self.says(message)
        return await self.hears()

    def hangs_up(self) -> None:
        os.close(self._target)


def encoded(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


@asynccontextmanager
async def talking() -> AsyncGenerator[tuple[FakeGateway, Peer]]:
    """Give a gateway that is served over pipes, and the client at their other ends."""
    gateway = FakeGateway()
    (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()
    try:
        arrived, lines = anyio.create_memory_object_stream[bytes](100)
        async with arrived, lines, anyio.create_task_group() as tasks:
            tasks.start_soon(StdioWire(their_input, their_output).read, arrived.send_nowait)
            tasks.start_soon(
                serve_stdio, RequestPipeline(gateway), StdioWire(our_input, our_output)
            )
            yield gateway, Peer(lines, their_output)
            tasks.cancel_scope.cancel()
    finally:
        for descriptor in (our_output, their_output):
            with suppress(OSError):
                os.close(descriptor)


async def test_a_handshake_opens_the_older_era() -> None:
    async with talking() as (gateway, peer):
        response = await peer.asks(INITIALIZE)
        assert response["result"]["protocolVersion"] == "2025-06-18"
        await peer.says(INITIALIZED)
        assert (await peer.asks(PING))["result"] == {}
        assert gateway.heard[0].client.era == "legacy"
        assert list(gateway.sessions) == ["stdio"]


async def test_an_envelope_opens_the_modern_era() -> None:
    async with talking() as (gateway, peer):
        body = modern_request("tools/call", {"name": "echo", "arguments": {"text": "a"}})
        response = await peer.asks(body)
        assert response["result"]["resultType"] == "complete"
        assert response["result"]["content"] == [{"type": "text", "text": "a"}]
        assert gateway.heard[0].client.era == "modern"


async def test_the_eras_do_not_mix() -> None:
    async with talking() as (_, peer):
        await peer.asks(INITIALIZE)
        assert (await peer.asks(modern_request("tools/list")))["error"]["code"] == -32600
    async with talking() as (_, peer):
        await peer.asks(modern_request("tools/list"))
        assert (await peer.asks(INITIALIZE))["error"]["code"] == -32022
        assert (await peer.asks(PING))["error"]["code"] == -32602


async def test_a_client_may_look_around_before_it_chooses_the_older_era() -> None:
    async with talking() as (gateway, peer):
        assert "result" in await peer.asks(modern_request("server/discover"))
        assert (await peer.asks(INITIALIZE))["result"]["protocolVersion"] == "2025-06-18"
        await peer.says(INITIALIZED)
        assert (await peer.asks(PING))["result"] == {}
        assert gateway.heard[-1].client.era == "legacy"
        assert (await peer.asks(modern_request("server/discover")))["error"]["code"] == -32600


async def test_a_client_may_look_around_before_it_chooses_the_modern_era() -> None:
    async with talking() as (_, peer):
        await peer.asks({"jsonrpc": "2.0", "id": 1, "method": "server/discover"})
        assert "result" in await peer.asks(modern_request("server/discover"))
        assert "result" in await peer.asks(modern_request("tools/list"))
        assert (await peer.asks(INITIALIZE))["error"]["code"] == -32022


async def test_progress_comes_before_the_answer() -> None:
    async with talking() as (_, peer):
        await peer.says(modern_request("tools/call", {"name": "count"}, progressToken=7))
        heard = [await peer.hears() for _ in range(4)]
        assert [it.get("method") for it in heard] == ["notifications/progress"] * 3 + [None]


async def test_a_modern_client_is_not_asked() -> None:
    async with talking() as (_, peer):
        response = await peer.asks(modern_request("tools/call", {"name": "ask"}))
        assert response["error"]["code"] == -32600


async def test_an_older_client_is_asked() -> None:
    async with talking() as (_, peer):
        await peer.asks(INITIALIZE)
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "ask"}}
        question = await peer.asks(call)
        assert question["method"] == "elicitation/create"
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}
        assert (await peer.asks(reply))["result"]["content"][0]["text"] == "accept"


async def test_a_client_that_never_answers_is_waited_for_no_longer_than_it_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pegboard.server.client_peer.LONGEST_ANSWER", 0.05)
    async with talking() as (_, peer):
        await peer.asks(INITIALIZE)
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "ask"}}
        question = await peer.asks(call)
        taken_back = await peer.hears()
        assert taken_back["method"] == "notifications/cancelled"
        assert taken_back["params"]["requestId"] == question["id"]
        response = await peer.hears()
        assert response["id"] == 5
        assert (
            "did not answer elicitation/create within 0.05 seconds" in response["error"]["message"]
        )


@pytest.mark.parametrize("line", [b"garbage\n", b'{"jsonrpc": "2.0"\n', b"\xff\xfe\n", b"[" * 999])
async def test_a_line_that_is_no_json_is_an_error_and_no_end(line: bytes) -> None:
    async with talking() as (_, peer):
        error = await peer.asks(line.rstrip(b"\n") + b"\n")
        assert (error["id"], error["error"]["code"]) == (None, -32700)
        assert "result" in await peer.asks(INITIALIZE)


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        ([], None),
        ([PING], None),
        (1, None),
        ({"jsonrpc": "2.0"}, None),
        ({"jsonrpc": "2.0", "id": 5, "method": 5}, 5),
        ({"jsonrpc": "2.0", "id": "a", "method": "ping", "params": []}, "a"),
        ({"jsonrpc": "1.0", "id": 5, "method": "ping"}, 5),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": [5], "method": "ping"}, None),
        # This id would be one of ours, and is not to be taken for one of the client's.
        ({"jsonrpc": "2.0", "id": 5, "result": 5}, None),
        ([0] * (MOST_VALUES + 2), None),
    ],
)
async def test_json_that_is_no_message_is_an_invalid_request(message: Any, request_id: Any) -> None:
    async with talking() as (_, peer):
        error = await peer.asks(message)
        assert (error["id"], error["error"]["code"]) == (request_id, -32600)
        assert "result" in await peer.asks(INITIALIZE)


async def test_empty_lines_say_nothing() -> None:
    async with talking() as (_, peer):
        await peer.says(b"\n  \r\n\n")
        assert "result" in await peer.asks(INITIALIZE)


async def test_a_line_that_never_ends_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LONGEST_LINE > 4 * 1024 * 1024
    monkeypatch.setattr("pegboard.server.stdio.LONGEST_LINE", 1000)
    async with talking() as (_, peer):
        for _ in range(10):
            await peer.says(b"x" * 1000)
        assert (await peer.asks(b"x\n"))["error"]["code"] == -32700
        assert "result" in await peer.asks(INITIALIZE)


async def test_the_end_of_the_input_is_the_end_of_the_session() -> None:
    async with talking() as (gateway, peer):
        await peer.asks(INITIALIZE)
        await peer.says(INITIALIZED)
        await peer.asks(PING)
        peer.hangs_up()
        with anyio.fail_after(5):
            await gateway.left.wait()


async def test_requests_under_way_at_the_end_of_the_input_are_answered() -> None:
    async with talking() as (gateway, peer):
        await peer.says(modern_request("tools/call", {"name": "hang"}))
        with anyio.fail_after(5):
            await gateway.waiting.wait()
            peer.hangs_up()
            gateway.release.set()
        assert "result" in await peer.hears()


@pytest.mark.parametrize("name", ["echo", "flood"])
async def test_a_client_that_hangs_up_and_does_not_read_is_not_served_for_ever(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("GRACE", "LAST_WORDS"):
        monkeypatch.setattr(f"pegboard.server.stdio.{limit}", 0.05)
    (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()
    gateway, client = FakeGateway(), StdioWire(their_input, their_output)
    call = {"name": name, "arguments": {"text": "x" * 100_000}}
    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(
                    serve_stdio, RequestPipeline(gateway), StdioWire(our_input, our_output)
                )
                await client.write(encoded(modern_request("tools/call", call)))
                os.close(their_output)
        assert len(gateway.heard) == 1
    finally:
        for descriptor in (their_input, our_output, our_input):
            os.close(descriptor)


@pytest.mark.parametrize("said", [b"no json", encoded(INITIALIZE).strip()])
async def test_a_client_that_fills_both_pipes_and_hangs_up_is_not_waited_for(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.server.stdio.LAST_WORDS", 0.05)
    (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()
    client = StdioWire(their_input, their_output)
    try:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                gateway = RequestPipeline(FakeGateway())
                tasks.start_soon(serve_stdio, gateway, StdioWire(our_input, our_output))
                with anyio.move_on_after(0.5):
                    while True:
                        await client.write((said + b"\n") * 100)
                os.close(their_output)
    finally:
        for descriptor in (their_input, our_output, our_input):
            os.close(descriptor)


async def test_a_line_whose_writer_is_cancelled_half_way_is_completed_by_the_next() -> None:
    (source, target) = os.pipe()
    wire, reader = StdioWire(source, target), StdioWire(source, target)
    long, short = b"x" * 1_000_000, b"short"
    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wire.write, long + b"\n")
                await anyio.wait_all_tasks_blocked()  # the pipe is full
                tasks.cancel_scope.cancel()
            arrived, lines = anyio.create_memory_object_stream[bytes](2)
            async with arrived, lines, anyio.create_task_group() as tasks:
                tasks.start_soon(reader.read, arrived.send_nowait)
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await wire.write(b"never\n")
                tasks.start_soon(wire.write, short + b"\n")
                assert [await lines.receive(), await lines.receive()] == [long, short]
                tasks.cancel_scope.cancel()
    finally:
        os.close(source)
        os.close(target)


@pytest.mark.parametrize("is_file", [False, True])
async def test_a_line_is_taken_when_the_work_for_the_line_before_is_done(
    tmp_path: Path, is_file: bool
) -> None:
    """Standard input may be an ordinary file, too."""
    text = b"first\nsecond\n\nthe end"
    (tmp_path / "input").write_bytes(text)
    source, target = os.pipe()
    if is_file:
        os.close(source)
        source = os.open(tmp_path / "input", os.O_RDONLY)
    else:
        os.write(target, text)
    os.close(target)
    taken: list[bytes] = []
    started, go_on = anyio.Event(), anyio.Event()

    async def work() -> None:
        started.set()
        await go_on.wait()

    def take(line: bytes) -> Work | None:
        taken.append(line)
        return work if line == b"first" else None

    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(StdioWire(source, source).read, take)
                await started.wait()
                await anyio.wait_all_tasks_blocked()
                assert taken == [b"first"]
                go_on.set()
        assert taken == [b"first", b"second", b"", b"the end"]
    finally:
        os.close(source)


async def test_a_mistake_in_taking_a_line_ends_the_reading() -> None:
    source, target = os.pipe()

    def take(line: bytes) -> None:
        raise ZeroDivisionError

    try:
        os.write(target, b"line\n")
        with anyio.fail_after(5), pytest.raises(ZeroDivisionError):
            await StdioWire(source, target).read(take)
    finally:
        os.close(source)
        os.close(target)


async def test_a_cancelled_request_is_cancelled() -> None:
    async with talking() as (gateway, peer):
        await peer.says(modern_request("tools/call", {"name": "hang"}))
        with anyio.fail_after(5):
            await gateway.waiting.wait()
            params = {"requestId": 1}
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            await peer.says(cancel)
            await gateway.cancelled.wait()


@pytest.mark.parametrize("request_id", [[], {}, None, True, 1.5, [[1]]])
async def test_what_takes_back_no_request_is_ignored(request_id: Any) -> None:
    async with talking() as (_, peer):
        params = {"requestId": request_id}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        await peer.says(cancel)
        await peer.says(modern_request("tools/call", {"name": "echo"}))
        assert (await peer.hears())["id"] == 1


async def test_a_mistake_of_ours_is_an_internal_error_without_details() -> None:
    async with talking() as (_, peer):
        error = (await peer.asks(modern_request("tools/call", {"name": "break"})))["error"]
        assert error == {"code": -32603, "message": "Internal server error"}
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "break"}}
    async with talking() as (_, peer):
        await peer.asks(INITIALIZE)
        assert (await peer.asks(call))["error"]["message"] == "Internal server error"


LONG_WORDS = {"name": "x" * 17_000, "version": "1"}


async def test_who_introduces_itself_at_too_great_a_length_is_refused() -> None:
    async with talking() as (_, peer):
        params = {**INITIALIZE["params"], "clientInfo": LONG_WORDS}
        assert (await peer.asks({**INITIALIZE, "params": params}))["error"]["code"] == -32602
        assert "result" in await peer.asks(INITIALIZE)
    async with talking() as (_, peer):
        body = modern_request("tools/list", **{CLIENT_INFO_META_KEY: LONG_WORDS})
        assert (await peer.asks(body))["error"]["code"] == -32602


@pytest.mark.parametrize("value", UNREADABLE)
async def test_a_request_that_cannot_be_read_is_refused_by_its_id(value: str) -> None:
    async with talking() as (_, peer):
        line = '{"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"a": %s}}\n'
        error = await peer.asks((line % value).encode())
        assert error["id"] == "a"
        assert error["error"]["code"] in (-32600, -32700)
        # Of a response the id would be one of ours.
        line = '{"jsonrpc": "2.0", "id": "a", "result": {"a": %s}}\n'
        assert (await peer.asks((line % value).encode()))["id"] is None
