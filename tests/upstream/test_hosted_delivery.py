"""Whether a call reached a hosted server, and how often it is sent, when a connection breaks."""

from contextlib import suppress
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from pegboard import ConnectionLostError, Hub, ServerUnavailableError
from tests.upstream.board_servers import until
from tests.upstream.hosted import PLAIN, STREAM, Host, Say, call, result, saying, whole
from tests.upstream.http_servers import answer


async def lost(hub: Hub) -> ConnectionLostError:
    with pytest.raises(ConnectionLostError) as caught:
        await call(hub)
    assert caught.value.sent
    assert caught.value.server == "it"
    return caught.value


def cut(where: str) -> Say:
    """Answer the first call with a part of its answer and hang up; answer the others."""
    is_first = True

    async def say(stream: ByteStream, request: dict[str, Any]) -> None:
        nonlocal is_first
        if not is_first:
            await stream.send(whole(request))
            return
        is_first = False
        kind = STREAM if where == "stream" else PLAIN
        full = answer("200 OK", result(request), content_length="1000", **kind)
        ends = {"before": 0, "status": 5, "head": 30, "body": -9, "stream": -9}
        await stream.send(full[: ends[where]])
        await stream.aclose()

    return say


PARTS = pytest.mark.parametrize("where", ["before", "status", "head", "body", "stream"])


@PARTS
async def test_a_call_that_the_server_has_read_is_not_repeated(host: Host, where: str) -> None:
    async with host.hub(cut(where)) as (hub, server):
        await lost(hub)
        assert len(server.calls) == 1
        assert await call(hub) == "done"
        assert len(server.calls) == 2


@PARTS
async def test_a_call_of_an_idempotent_tool_is_repeated_once(host: Host, where: str) -> None:
    async with host.hub(cut(where), idempotent=("go",)) as (hub, server):
        assert await call(hub) == "done"
        assert len(server.calls) == 2


async def test_a_read_call_is_not_repeated_on_a_connection_that_was_kept(host: Host) -> None:
    async with host.hub(saying(whole)) as (hub, server):
        for _ in range(3):
            assert await call(hub) == "done"
        before = server.connections
        server.say = cut("before")
        await lost(hub)
        assert len(server.calls) == 4
        assert server.connections == before
        assert await call(hub) == "done"
        assert len(server.calls) == 5


async def test_an_idle_connection_that_the_server_closed_costs_no_call(host: Host) -> None:
    async with host.hub(saying(whole)) as (hub, server):
        for number in range(1, 6):
            assert await call(hub) == "done"
            assert len(server.calls) == number
            await server.close_connections()
            await until(lambda: not server.open_connections)


async def test_a_connection_that_is_closed_just_before_its_reuse_costs_no_call(
    host: Host,
) -> None:
    is_closed = anyio.Event()

    async def say(stream: ByteStream, request: dict[str, Any]) -> None:
        await stream.send(whole(request))
        await stream.aclose()
        is_closed.set()

    async with host.hub(say) as (hub, server):
        for number in range(1, 21):
            is_closed = anyio.Event()
            assert await call(hub) == "done"
            # The event loop of the hub may not have seen yet that the connection is closed.
            await is_closed.wait()
            assert len(server.calls) == number


async def test_a_connection_that_the_server_wants_to_close_is_not_used_again(host: Host) -> None:
    def last(request: dict[str, Any]) -> bytes:
        return whole(request, connection="close")

    async with host.hub(saying(last)) as (hub, server):
        before = server.connections
        for _ in range(3):
            assert await call(hub) == "done"
        assert server.connections - before >= 2
        assert len(server.calls) == 3


async def test_an_answer_may_end_with_its_connection(host: Host) -> None:
    async def say(stream: ByteStream, request: dict[str, Any]) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        await stream.send(head + result(request))
        await stream.aclose()

    async with host.hub(say) as (hub, server):
        assert [await call(hub), await call(hub)] == ["done", "done"]
        assert len(server.calls) == 2


async def test_a_server_that_closes_every_connection_reads_nothing_and_comes_back(
    host: Host,
) -> None:
    async with host.hub(saying(whole)) as (hub, server):
        assert await call(hub) == "done"
        server.hangs_up = True
        await server.close_connections()
        with pytest.raises((ServerUnavailableError, ConnectionLostError)) as caught:
            await call(hub)
        # Over TLS it is certain that nothing was read: the handshake was not complete.
        assert not (host.is_secure and caught.value.sent)
        assert len(server.calls) == 1
        server.hangs_up = False
        with anyio.fail_after(10):
            while len(server.calls) < 2:
                with suppress(ServerUnavailableError, ConnectionLostError):
                    assert await call(hub) == "done"
                await anyio.sleep(0.02)


async def test_calls_share_a_connection_one_after_the_other(host: Host) -> None:
    async with host.hub(saying(whole)) as (hub, server):
        assert await call(hub) == "done"
        before = server.connections
        for _ in range(5):
            assert await call(hub) == "done"
        assert server.connections == before
