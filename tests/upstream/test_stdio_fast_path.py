"""The fast path over a pipe: responses of every kind find their callers."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, ErrorData, JSONRPCRequest

from pegboard.upstream.messages.jsonrpc import NotDirectError, read_message
from pegboard.upstream.stdio.fast_path import StdioFastPath

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}
DONE = {"content": [], "text": "grüß Gott 🙂"}


async def ignore(message: dict[str, Any]) -> None:
    raise AssertionError("The fast path of a pipe receives no notifications.")


def answering(
    exchanges: StdioFastPath, line: bytes
) -> Callable[[bytes], Awaitable[ErrorData | None]]:
    async def write(sent: bytes) -> None:
        assert json.loads(sent) == CALL
        assert sent.endswith(b"}\n")
        if not exchanges.take(line):
            assert exchanges.take_message(read_message(line))

    return write


@pytest.mark.parametrize("number", [7, "7"], ids=["number", "text"])
async def test_an_answer_finds_whoever_waits_for_it(number: object) -> None:
    exchanges = StdioFastPath()
    line = json.dumps({"jsonrpc": "2.0", "id": number, "result": DONE}).encode()
    exchanges.open(answering(exchanges, line))
    with anyio.fail_after(5):
        assert await exchanges.request(CALL, {}, ignore) == DONE
    assert not exchanges.take(line)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"no","data":[1]}}', -5),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":' + b"[" * 5000 + b"]" * 5000 + b"}}", -32603),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":' + b"[" * 300 + b"]" * 300 + b"}}", -32603),
        (b'{"jsonrpc":"2.0","id":7,"result":"words"}', -32603),
    ],
)
async def test_an_answer_that_is_an_error_or_unreadable_is_an_error(line: bytes, code: int) -> None:
    exchanges = StdioFastPath()
    exchanges.open(answering(exchanges, line))
    with anyio.fail_after(5), pytest.raises(MCPError) as caught:
        await exchanges.request(CALL, {}, ignore)
    assert caught.value.code == code


async def test_an_answer_without_a_result_is_an_empty_one() -> None:
    exchanges = StdioFastPath()
    exchanges.open(answering(exchanges, b'{"jsonrpc":"2.0","id":7}'))
    with anyio.fail_after(5):
        assert await exchanges.request(CALL, {}, ignore) == {}


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"id":8,"result":{}}', b'{"id":7,"method":"x"}', b'{"result":{}}']
)
async def test_what_is_no_answer_to_us_is_left_to_others(line: bytes) -> None:
    exchanges = StdioFastPath()
    assert not exchanges.take(line)

    async def write(sent: bytes) -> None:
        assert not exchanges.take(line)
        exchanges.close()

    exchanges.open(write)
    with anyio.fail_after(5), pytest.raises(MCPError) as caught:
        await exchanges.request(CALL, {}, ignore)
    assert caught.value.code == CONNECTION_CLOSED
    with pytest.raises(MCPError):
        await exchanges.request(CALL, {}, ignore)


async def test_what_cannot_be_written_is_not_sent() -> None:
    exchanges = StdioFastPath()
    with pytest.raises(NotDirectError):
        await exchanges.request(CALL, {}, ignore)

    async def fail(sent: bytes) -> ErrorData:
        return ErrorData(code=-9, message="gone")

    exchanges.open(fail)
    with pytest.raises(MCPError, match="gone"):
        await exchanges.request(CALL, {}, ignore)

    async def closed(sent: bytes) -> None:
        raise anyio.ClosedResourceError

    exchanges.open(closed)
    with pytest.raises(MCPError, match="closed"):
        await exchanges.request(CALL, {}, ignore)
    for strange in ("\ud800", object()):
        with pytest.raises(NotDirectError):
            await exchanges.request({**CALL, "params": strange}, {}, ignore)


def test_a_question_of_the_server_is_never_taken_for_an_answer() -> None:
    asked = JSONRPCRequest(jsonrpc="2.0", id=7, method="roots/list")
    assert not StdioFastPath().take_message(asked)
