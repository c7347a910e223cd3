import json
from typing import Any

import pytest
from mcp.server import MCPServer

from pegboard.config import ServerConfig
from pegboard.gateway import Gateway, GatewayOptions
from pegboard.gateway.calls.result_cache import DuplicateContent, repetition_in
from tests.gateway.clients import Caller, text_of
from tests.gateway.servers import hub
from tests.gateway.test_result_cache import LONG, handle_in, pages_of

ROWS = [{"id": number, "name": f"row {number}"} for number in range(500)]


@pytest.mark.parametrize(
    ("texts", "structured", "expected"),
    [
        (['{"a": 1}'], {"a": 1}, DuplicateContent.JSON),
        (["[1, 2]"], {"result": [1, 2]}, DuplicateContent.WRAPPED_JSON),
        (["5"], {"result": 5}, DuplicateContent.WRAPPED_JSON),
        (["5"], {"result": "5"}, DuplicateContent.WRAPPED_TEXT),
        (["a", '{"b": 1}'], {"result": ["a", {"b": 1}]}, DuplicateContent.WRAPPED_LIST),
        (["a"], {"result": ["a", "b"]}, None),
        (["a", "c"], {"result": ["a", "b"]}, None),
        (["5"], {"result": 5, "more": 6}, None),
        (["5"], {"other": 5}, None),
        (["done"], [1], None),
    ],
)
def test_what_is_said_twice_is_told_from_what_says_more(
    texts: list[str], structured: object, expected: DuplicateContent | None
) -> None:
    assert repetition_in(texts, structured) is expected


@pytest.mark.parametrize(
    "text", ["[" + "[]," * 150_000 + "1]", "[" + "1e300," * 1_500 + "1]", " " * 4_000_000 + "1"]
)
def test_a_text_that_takes_long_to_decode_is_not_compared(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("it was decoded")

    assert repetition_in([text], {"result": text}) is DuplicateContent.WRAPPED_TEXT
    monkeypatch.setattr("pegboard.gateway.calls.result_cache.msgspec.json.decode", fail)
    assert repetition_in([text], {"a": 1}) is None
    assert repetition_in([text], None) is None


def sdk_server() -> ServerConfig:
    server = MCPServer("texts", log_level="CRITICAL")

    @server.tool()
    def text() -> str:  # pyright: ignore[reportUnusedFunction]
        return LONG

    @server.tool()
    def rows() -> list[dict[str, Any]]:  # pyright: ignore[reportUnusedFunction]
        return ROWS

    @server.tool()
    def letter() -> str:  # pyright: ignore[reportUnusedFunction]
        return json.dumps({"rows": ROWS})

    return ServerConfig(name="texts", transport="memory", server=server)


async def test_a_copy_in_structured_content_takes_no_room() -> None:
    options = GatewayOptions(result_cache_bytes=2 * len(LONG.encode()))
    async with hub(sdk_server()) as it, Gateway(it, options) as gateway:
        caller = Caller(gateway)
        result = await caller.call("call_tool", name="mcp_texts_text")
        assert "Structured content" not in text_of(result)
        assert await pages_of(caller, handle_in(result)) == LONG


async def test_what_came_twice_is_still_read_by_path() -> None:
    async with hub(sdk_server()) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        for tool, path in (("rows", "result[3].name"), ("letter", "rows[3].name")):
            result = await caller.call("call_tool", name=f"mcp_texts_{tool}")
            assert "Structured content" not in text_of(result)
            part = await caller.call("read_result", handle=handle_in(result), path=path)
            assert part["content"][0]["text"] == "row 3"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "1 second:"), (3, "3 seconds:"), (120, "2 minutes:"), (900, "15 minutes:")],
)
async def test_how_long_a_result_is_kept_is_said_in_its_unit(seconds: int, words: str) -> None:
    options = GatewayOptions(result_cache_seconds=seconds)
    async with hub(sdk_server()) as it, Gateway(it, options) as gateway:
        result = await Caller(gateway).call("call_tool", name="mcp_texts_text")
        assert f"Everything is kept for {words}" in text_of(result)
