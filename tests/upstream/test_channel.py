"""A channel over one stream each way: responses of every kind find their requests."""

import json
from typing import Any

import anyio
import pytest

from pegboard import UpstreamError
from pegboard.upstream.messages.channel import DuplexChannel
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.messages.jsonrpc import Message, ServerRpcError

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}
DONE = {"content": [], "text": "grüß Gott 🙂"}


def ignore(message: Message) -> None:
    raise AssertionError("A pipe does not tell which call a message belongs to.")


class Pipe:
    """A channel to a server that responds to each request with one line."""

    def __init__(self, line: bytes) -> None:
        self._line = line
        self.heard: list[Message] = []
        self.taken: list[bool] = []
        self.channel = DuplexChannel("pipe", self._write, self.heard.append)

    async def _write(self, sent: bytes, number: int | str | None) -> None:
        assert json.loads(sent) == CALL
        assert number == 7
        assert b"\n" not in sent
        self.taken.append(self.channel.take(self._line))

    async def request(self) -> dict[str, Any]:
        with anyio.fail_after(5):
            return await self.channel.request(CALL, {}, ignore)


@pytest.mark.parametrize("number", [7, "7"], ids=["number", "text"])
async def test_a_response_finds_its_request(number: object) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": number, "result": DONE}).encode()
    pipe = Pipe(line)
    assert await pipe.request() == DONE
    # What comes once more is for no request; the session hears that it came too late.
    assert pipe.channel.take(line)
    assert [(it.id, it.method) for it in pipe.heard] == [(number, None)]


async def test_an_error_of_the_server_is_raised_with_its_code_and_data() -> None:
    pipe = Pipe(b'{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"no","data":[1]}}')
    with pytest.raises(ServerRpcError) as caught:
        await pipe.request()
    assert (caught.value.code, caught.value.message, caught.value.data) == (-5, "no", [1])


async def test_an_error_without_an_id_fails_the_only_request_under_way() -> None:
    line = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    with pytest.raises(ServerRpcError, match="Parse error"):
        await Pipe(line).request()


async def test_an_error_without_an_id_fails_none_of_several_requests() -> None:
    failed: list[str] = []
    channel = DuplexChannel("pipe", _written, ignore)

    async def wait(number: int) -> None:
        with pytest.raises(FailedError) as caught:
            await channel.request({**CALL, "id": number}, {}, ignore)
        failed.append(caught.value.failure.kind)

    async with anyio.create_task_group() as group:
        group.start_soon(wait, 1)
        group.start_soon(wait, 2)
        await anyio.wait_all_tasks_blocked()
        assert channel.take(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}')
        await anyio.wait_all_tasks_blocked()
        assert failed == []
        channel.close()
    assert failed == ["lost", "lost"]


async def _written(line: bytes, number: int | str | None) -> None:
    """Take what is written, and say nothing."""


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"x":' + b"[" * 5000 + b"]" * 5000 + b"}}",
        b'{"jsonrpc":"2.0","id":7,"result":{"x":' + b"[" * 300 + b"]" * 300 + b"}}",
        b'{"jsonrpc":"2.0","id":7,"result":"words"}',
    ],
    ids=["very deep", "deep", "no object"],
)
async def test_a_response_that_is_unreadable_fails_its_request_at_once(line: bytes) -> None:
    pipe = Pipe(line)
    with pytest.raises(FailedError) as caught:
        await pipe.request()
    assert caught.value.failure.kind == "unreadable"


async def test_a_response_without_a_result_is_an_empty_one() -> None:
    assert await Pipe(b'{"jsonrpc":"2.0","id":7}').request() == {}


@pytest.mark.parametrize(
    ("line", "is_message"),
    [
        (b"", False),
        (b"{", False),
        (b"[]", False),
        (b'{"id":8,"result":{}}', True),
        (b'{"id":7,"method":"x"}', True),
        (b'{"result":{}}', True),
    ],
)
async def test_what_is_no_response_to_a_request_leaves_it_waiting(
    line: bytes, is_message: bool
) -> None:
    pipe = Pipe(line)
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            with pytest.raises(FailedError) as caught:
                await pipe.request()
            assert caught.value.failure.kind == "lost"

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert pipe.taken == [is_message]
        pipe.channel.close()
    with pytest.raises(FailedError) as caught:
        await pipe.request()
    assert caught.value.failure.kind == "not_sent"


async def test_a_request_of_the_server_is_never_taken_for_a_response() -> None:
    pipe = Pipe(b"")
    assert pipe.channel.take(b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}')
    assert [(it.id, it.method) for it in pipe.heard] == [(7, "roots/list")]


async def test_a_request_that_cannot_be_written_is_not_sent() -> None:
    async def fail(line: bytes, number: int | str | None) -> None:
        raise FailedError(Failure(kind="not_sent", message="gone"))

    channel = DuplexChannel("pipe", fail, ignore)
    with pytest.raises(FailedError, match="gone"):
        await channel.request(CALL, {}, ignore)
    for strange in ("\ud800", object()):
        with pytest.raises(UpstreamError, match="was not sent") as caught:
            await channel.request({**CALL, "params": strange}, {}, ignore)
        assert not caught.value.sent
