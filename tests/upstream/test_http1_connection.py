"""One connection for plain exchanges: what a server may send on it besides its answer."""

from contextlib import suppress
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from pegboard import ConnectionLostError
from tests.upstream.http_servers import answer
from tests.upstream.test_http_fast_path import PLAIN, STREAM, call, event, result, saying, scripted


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
        with pytest.raises(ConnectionLostError, match="never end"):
            await call(hub)
