import asyncio  # noqa: TID251 - uvicorn's transports are asyncio's
from typing import Any

import httpx2
import pytest

from pegboard.server.http.uvicorn_server import JoinedWrites
from tests.server.serving import served_fake

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Packets(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.is_open = True

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.is_open = False

    def is_closing(self) -> bool:
        return not self.is_open


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ([HEAD, b"ok"], [HEAD + b"ok"]),
        ([HEAD, b"o", b"k"], [HEAD + b"o", b"k"]),
        ([HEAD, b"ok", HEAD, b"ok"], [HEAD + b"ok", HEAD + b"ok"]),
        ([HEAD, HEAD, b"ok"], [HEAD + HEAD, b"ok"]),
        ([STREAM, b"2\r\nok\r\n"], [STREAM, b"2\r\nok\r\n"]),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], [b"HTTP/1.1 100 Continue\r\n\r\n"]),
    ],
)
def test_head_and_body_leave_together(written: list[bytes], sent: list[bytes]) -> None:
    packets = Packets()
    joined = JoinedWrites(packets)
    for part in written:
        joined.write(part)
    assert packets.sent == sent


def test_a_head_that_nothing_follows_leaves_at_the_end_of_the_answer_or_of_the_connection() -> None:
    packets = Packets()
    joined = JoinedWrites(packets)
    joined.write(HEAD)
    assert packets.sent == []
    joined.flush()
    joined.flush()
    joined.write(HEAD)
    joined.close()
    assert packets.sent == [HEAD, HEAD]
    assert joined.is_closing()


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_every_answer_arrives_with_a_body_or_without(method: str) -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        for _ in range(2):
            response = await client.request(method, f"{url}/healthz")
            assert response.content.startswith(b"ok") == (method == "GET")
