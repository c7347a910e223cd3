"""Schemas and results that are nested deeper than any parser reads."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pegboard import ProtocolError, ServerConfig, ServerState
from pegboard.upstream.messages.jsonrpc import read_message, result_in
from pegboard.upstream.messages.nesting_limit import MOST_LEVELS, TOO_DEEP, without_depths
from tests.upstream.board_servers import SERVERS, hub_of
from tests.upstream.http_servers import serving
from tests.upstream.servers.deep_server import answer

WAYS = [
    ("stdio", "legacy"),
    ("stdio", "modern"),
    ("json", "legacy"),
    ("json", "modern"),
    ("event", "legacy"),
    ("event", "modern"),
    ("sse", "legacy"),
]
DEPTHS = [(*way, levels) for way in WAYS for levels in (300, 5_000)]
over_every_wire = pytest.mark.parametrize(("wire", "era"), WAYS)


@pytest.mark.parametrize(("wire", "era", "levels"), DEPTHS)
async def test_a_schema_that_is_too_deep_costs_its_own_tool_only(
    wire: str, era: str, levels: int
) -> None:
    async with deep(wire, era, levels) as config, hub_of(config) as hub:
        names = {"before", "hinted", "go", "structured"}
        assert set(hub.registry) == {f"mcp_deep_{name}" for name in names}
        status = hub.servers["deep"]
        assert (status.state, status.last_error) == (ServerState.READY, None)
        assert set(status.left_out) == {"deep", "out"}
        for reason in status.left_out.values():
            assert "is nested too deeply" in reason
        assert (await hub.call("mcp_deep_go")).text() == "fine"


@pytest.mark.parametrize(("wire", "era", "levels"), DEPTHS)
async def test_a_result_that_is_too_deep_is_an_error_of_its_call_only(
    wire: str, era: str, levels: int
) -> None:
    async with deep(wire, era, levels) as config, hub_of(config) as hub:
        with anyio.fail_after(5), pytest.raises(ProtocolError, match="nested too deeply"):
            await hub.call("mcp_deep_structured")
        assert (await hub.call("mcp_deep_go")).text() == "fine"
        assert (hub.servers["deep"].state, hub.servers["deep"].starts) == (ServerState.READY, 1)


@over_every_wire
async def test_what_is_not_too_deep_arrives_whole(wire: str, era: str) -> None:
    async with deep(wire, era, 100) as config, hub_of(config) as hub:
        assert hub.servers["deep"].left_out == {}
        value = (await hub.call("mcp_deep_structured")).structured_content
        assert json.dumps(value).count('{"x"') == 101


@pytest.mark.parametrize("levels", range(MOST_LEVELS - 10, MOST_LEVELS + 10))
async def test_there_is_no_depth_between_what_is_read_and_what_is_cut(levels: int) -> None:
    said = answer({"id": 1, "method": "tools/list"}, era="legacy", levels=levels)
    assert said is not None
    tools = (await result_of(said.encode()))["tools"]
    assert [tool["name"] for tool in tools][1:3] == ["deep", "out"]
    # A field begins on the fifth level.
    assert (tools[1]["inputSchema"] == TOO_DEEP) == (levels + 4 > MOST_LEVELS)


async def test_no_depth_is_too_much() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    list_ = (
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":%b},{"name":"b"}]}}'
    )
    tools = [{"name": "a", "inputSchema": TOO_DEEP}, {"name": "b"}]
    assert await result_of(list_ % deep) == {"tools": tools}


async def result_of(data: bytes) -> dict[str, Any]:
    message = read_message(data)
    assert message is not None
    return await result_in(message, data)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("tools"), inner),
    max_leaves=10,
)


@given(_values, st.integers(0, 50))
def test_a_message_that_is_not_too_deep_is_left_as_it_is(value: object, position: int) -> None:
    whole = json.dumps({"result": {"tools": [{"name": "a", "inputSchema": value}]}}).encode()
    assert without_depths(whole) is whole
    # Nor does it matter how broken it is.
    assert without_depths(whole[position:]) == whole[position:]
    assert without_depths(whole[:-position]) == whole[:-position]


@pytest.mark.parametrize("piece", [b"[", b"]", b'"', b'"\\"', b"[],", b'{"":'])
def test_nonsense_without_end_is_given_back_soon(piece: bytes) -> None:
    message = b'{"tools"' + piece * 2_100_000
    assert without_depths(message) is message


@asynccontextmanager
async def deep(wire: str, era: str, levels: int) -> AsyncGenerator[ServerConfig]:
    """A running server, or one that runs when it is connected to."""
    protocol = "legacy" if era == "legacy" else "2026-07-28"
    if wire == "stdio":
        yield ServerConfig(
            name="deep",
            transport="stdio",
            command=sys.executable,
            args=("-S", "-E", str(SERVERS / "deep_server.py"), era, str(levels)),
            protocol=protocol,
        )
        return
    async with serving(app_of(wire, era, levels)) as origin:
        yield ServerConfig(
            name="deep",
            transport="sse" if wire == "sse" else "streamable_http",
            url=f"{origin}/mcp",
            protocol=protocol,
        )


def app_of(wire: str, era: str, levels: int) -> Starlette:
    sessions: list[Any] = []

    async def listen(_: Request) -> Response:
        to_client, events = anyio.create_memory_object_stream[str](10)
        sessions.append(to_client)

        async def flow() -> AsyncGenerator[str]:
            yield "event: endpoint\ndata: /mcp\n\n"
            async with to_client, events:
                async for said in events:
                    yield f"event: message\ndata: {said}\n\n"

        return StreamingResponse(flow(), media_type="text/event-stream")

    async def take(request: Request) -> Response:
        said = answer(await request.json(), era=era, levels=levels)
        if said is None:
            return Response(status_code=202)
        if wire == "json":
            return Response(said, media_type="application/json")
        if wire == "event":
            return Response(f"data: {said}\n\n", media_type="text/event-stream")
        await sessions[-1].send(said)
        return Response(status_code=202)

    routes = [Route("/mcp", take, methods=["POST"])]
    if wire == "sse":
        routes.append(Route("/mcp", listen))
    return Starlette(routes=routes)
