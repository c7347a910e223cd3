"""Responses of a hosted server that are too large, too slow, or never end."""

import gc
import gzip
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from pegboard import ConnectionLostError, Hub, ProtocolError, ToolTimeoutError, UpstreamError
from pegboard.config import Timeouts
from pegboard.gateway import Gateway
from tests.gateway.clients import FULL, Caller
from tests.upstream.board_servers import until
from tests.upstream.hosted import Host, Say, call, saying, whole
from tests.upstream.http_servers import answer
from tests.upstream.scripted_server import PLAIN, scripted

LIMIT = 64 * 1024 * 1024
PIECE = b"x" * (1 << 20)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
SHORT = Timeouts(connect=10, list=10, call=0.5)


class Sender:
    """Sends a beginning, then a piece again and again until the client goes away."""

    def __init__(self, head: bytes, piece: Callable[[int], bytes], *, seconds: float = 0) -> None:
        self._head = head
        self._piece = piece
        self._seconds = seconds
        self.sent = 0
        self.is_over = anyio.Event()

    async def __call__(self, stream: ByteStream, request: dict[str, Any]) -> None:
        try:
            await stream.send(self._head)
            while True:
                data = self._piece(self.sent)
                await stream.send(data)
                self.sent += len(data)
                await anyio.sleep(self._seconds)
        finally:
            self.is_over.set()

    async def was_left(self) -> None:
        """Wait until the client has closed the connection."""
        with anyio.fail_after(10):
            await self.is_over.wait()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def failure(hub: Hub) -> UpstreamError:
    with pytest.raises((ConnectionLostError, ProtocolError)) as caught:
        await call(hub)
    assert caught.value.sent
    assert caught.value.server == "it"
    return caught.value


async def works_again(hub: Hub, server: Any) -> None:
    """The call was sent once, and the next one works."""
    assert len(server.calls) == 1
    server.say = saying(whole)
    assert await call(hub) == "done"


@pytest.mark.parametrize("name", [b"x-long: ", b""])
async def test_a_header_above_the_limit_is_given_up(host: Host, name: bytes) -> None:
    endless = Sender(HEAD + name, lambda _: b"x" * 65_536)
    async with host.hub(endless) as (hub, server):
        await failure(hub)
        await endless.was_left()
        assert endless.sent < LIMIT / 8
        await works_again(hub, server)


async def test_headers_that_never_end_are_given_up(host: Host) -> None:
    endless = Sender(HEAD, lambda sent: b"x-%d: y\r\n" % sent * 100)
    async with host.hub(endless) as (hub, server):
        await failure(hub)
        await endless.was_left()
        assert endless.sent < LIMIT / 8
        await works_again(hub, server)


async def test_a_status_line_that_never_ends_is_given_up(host: Host) -> None:
    endless = Sender(b"HTTP/1.1 200 ", lambda _: b"O" * 65_536)
    async with host.hub(endless) as (hub, server):
        await failure(hub)
        await endless.was_left()
        await works_again(hub, server)


async def test_informational_answers_that_never_end_are_given_up(host: Host) -> None:
    endless = Sender(b"", lambda _: b"HTTP/1.1 102 Processing\r\n\r\n" * 100)
    async with host.hub(endless, timeouts=SHORT) as (hub, server):
        with pytest.raises((UpstreamError, ToolTimeoutError)) as caught:
            await call(hub)
        assert caught.value.sent
        await endless.was_left()
        await works_again(hub, server)


async def test_a_body_that_is_announced_above_the_limit_is_given_up(host: Host) -> None:
    large = Sender(HEAD + b"Content-Length: %d\r\n\r\n" % (LIMIT + 1), lambda _: PIECE)
    async with host.hub(large) as (hub, server):
        error = await failure(hub)
        assert isinstance(error, ProtocolError)
        assert "64 MiB" in str(error)
        await works_again(hub, server)


async def test_a_body_that_grows_above_the_limit_is_given_up(host: Host) -> None:
    endless = Sender(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", lambda _: chunk(PIECE))
    async with host.hub(endless) as (hub, server):
        error = await failure(hub)
        assert isinstance(error, ProtocolError)
        assert "64 MiB" in str(error)
        await endless.was_left()
        assert endless.sent < 3 * LIMIT
        await works_again(hub, server)


async def test_a_small_body_that_unpacks_above_the_limit_is_not_unpacked(host: Host) -> None:
    bomb = gzip.compress(bytes(LIMIT + (1 << 20)), 1)
    packed = answer("200 OK", bomb, content_encoding="gzip", content_type="application/json")
    async with host.hub(saying(lambda _: packed)) as (hub, server):
        assert isinstance(await failure(hub), ProtocolError)
        await works_again(hub, server)


async def test_an_event_above_the_limit_is_given_up(host: Host) -> None:
    endless = Sender(STREAM_HEAD + b"data: ", lambda _: PIECE)
    async with host.hub(endless) as (hub, server):
        await failure(hub)
        await endless.was_left()
        assert endless.sent < 3 * LIMIT
        await works_again(hub, server)


async def test_an_event_of_many_lines_above_the_limit_is_given_up(host: Host) -> None:
    endless = Sender(STREAM_HEAD, lambda _: (b"data: " + b"x" * 1000 + b"\n") * 1000)
    async with host.hub(endless) as (hub, server):
        await failure(hub)
        await endless.was_left()
        assert endless.sent < 3 * LIMIT
        await works_again(hub, server)


@pytest.mark.parametrize("piece", [b": still there\r\n\r\n", b"event: x\r\ndata: y\r\n\r\n"])
async def test_a_stream_that_never_answers_ends_with_the_time_of_the_call(
    host: Host, piece: bytes
) -> None:
    endless = Sender(STREAM_HEAD, lambda _: piece, seconds=0.02)
    async with host.hub(endless, timeouts=SHORT) as (hub, server):
        with pytest.raises(ToolTimeoutError) as caught:
            await call(hub)
        assert caught.value.sent
        await endless.was_left()
        await works_again(hub, server)


SLOW_HEADS = {
    "status": b"",
    "headers": HEAD + b"x-slow: ",
    "body": HEAD + b"Content-Length: 1000000\r\n\r\n",
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n",
    "stream": STREAM_HEAD + b"data: ",
}


@pytest.mark.parametrize("part", SLOW_HEADS)
async def test_an_answer_in_drops_ends_with_the_time_of_the_call(host: Host, part: str) -> None:
    drip = Sender(SLOW_HEADS[part], lambda sent: b"HTTP/1.1 200 OK"[sent % 15 :][:1], seconds=0.05)
    async with host.hub(drip, timeouts=SHORT) as (hub, server):
        with pytest.raises(ToolTimeoutError) as caught:
            await call(hub)
        assert caught.value.sent
        await drip.was_left()
        await works_again(hub, server)


async def test_a_slow_answer_does_not_delay_another_call(host: Host) -> None:
    drip = Sender(SLOW_HEADS["body"], lambda _: b"x", seconds=0.05)

    async def say(stream: ByteStream, request: dict[str, Any]) -> None:
        is_slow = request["params"]["arguments"].get("slow")
        await (drip if is_slow else _plain)(stream, request)

    async with host.hub(say) as (hub, _), anyio.create_task_group() as group:
        group.start_soon(lambda: call(hub, slow=True))
        await until(lambda: drip.sent)
        assert await call(hub) == "done"
        assert not drip.is_over.is_set()
        group.cancel_scope.cancel()


_plain: Say = saying(whole)


async def test_an_error_page_that_never_ends_is_cut(host: Host) -> None:
    head = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\n"
    endless = Sender(head + b"Transfer-Encoding: chunked\r\n\r\n", lambda _: chunk(PIECE))
    async with host.hub(endless) as (hub, server):
        with pytest.raises(UpstreamError, match="HTTP 500") as caught:
            await call(hub)
        assert len(str(caught.value)) < 1000
        await endless.was_left()
        assert endless.sent < LIMIT
        await works_again(hub, server)


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
async def test_a_refused_response_does_not_wait_for_the_garbage_collector() -> None:
    many = f"[{'[],' * 30_000}1]"

    def refused(request: dict[str, Any]) -> bytes:
        said = f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{{"x":{many}}}}}'
        return answer("200 OK", said.encode(), **PLAIN)

    def held() -> int:
        return sum(isinstance(it, ProtocolError) for it in gc.get_objects())

    async with scripted(saying(refused), max_response_values=10_000) as (hub, _):
        before = held()
        async with Gateway(hub) as gateway:
            assert (await Caller(gateway, face=FULL).call("mcp_raw_go"))["isError"]
            assert held() == before
