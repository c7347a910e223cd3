"""Answers that are almost right, over every transport."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream
from mcp import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pegboard import ProtocolError, ServerConfig
from pegboard.upstream.http.client import HttpPool
from pegboard.upstream.messages.jsonrpc import mended, quick_answer, result_of_answer
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import read_request, serving, serving_raw

START = '{"jsonrpc": "2.0", "id": ID, '
GOOD = START + '"result": {"content": [{"type": "text", "text": "fine"}]}}'
HALF = START + '"result": {"content": [{"type": "text", "text": "a\\ud800b"}]}}'
TOOLS = [{"name": "go", "inputSchema": {"type": "object"}}]


def careless(answer: str, kind: str) -> Starlette:
    """A server that gives this answer to every call, as an event or as JSON."""

    async def serve(request: Request) -> Response:
        asked: dict[str, Any] = await request.json()
        match asked["method"]:
            case "initialize":
                said: dict[str, Any] = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "careless", "version": "1"},
                }
            case "tools/list":
                said = {"tools": TOOLS}
            case "tools/call":
                text = answer.replace("ID", str(asked["id"]))
                if kind == "event":
                    return pieces(f"data: {text}\n\n", "text/event-stream")
                return pieces(text, "application/json")
            case _:
                return Response(status_code=202)
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": said})

    return Starlette(routes=[Route("/mcp", serve, methods=["POST"])])


def pieces(text: str, kind: str) -> Response:
    """A network cuts where it likes."""

    async def cut() -> AsyncGenerator[bytes]:
        yield text.encode()[:40]
        yield text.encode()[40:]

    return StreamingResponse(cut(), media_type=kind)


@pytest.mark.parametrize("kind", ["event", "json"])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (GOOD, "fine"),
        (HALF, "a\ufffdb"),
        (START + '"result": null}', ""),
    ],
    ids=["good", "half a character", "null"],
)
async def test_what_can_be_mended_is_mended_over_http_too(
    answer: str, text: str, kind: str
) -> None:
    async with serving(careless(answer, kind)) as origin, hub_of(web(origin)) as hub:
        assert (await hub.call("mcp_web_go")).text() == text


async def test_a_byte_order_mark_is_no_part_of_an_answer() -> None:
    app = careless("\ufeff" + GOOD, "json")
    async with serving(app) as origin, hub_of(web(origin)) as hub:
        assert (await hub.call("mcp_web_go")).text() == "fine"


async def test_what_comes_over_a_stream_of_its_own_is_mended_too() -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        await stream.send(head + f"data: {HALF.replace('ID', '1')}\r\n\r\n".encode())

    async with serving_raw(handle) as origin, HttpPool() as pool:
        client = pool.client_for(web(origin))
        request = client.build_request("GET", origin, headers={"accept": "text/event-stream"})
        response = await client.send(request, stream=True)
        (event,) = [event.data async for event in httpx2.EventSource(response)]
    assert json.loads(event)["result"]["content"][0]["text"] == "a\ufffdb"


@pytest.mark.parametrize("kind", ["event", "json"])
@pytest.mark.parametrize(
    "answer",
    ["{{{", "[" + GOOD + "]", START + '"error": "boom"}', START + '"result": ' + "[" * 9_000],
    ids=["garbage", "batch", "error", "deep"],
)
async def test_what_cannot_be_read_is_one_line_and_not_put_into_the_servers_mouth(
    answer: str, kind: str
) -> None:
    async with serving(careless(answer, kind)) as origin, hub_of(web(origin)) as hub:
        with anyio.fail_after(5), pytest.raises(ProtocolError) as caught:
            await hub.call("mcp_web_go")
        said = "sent a response that cannot be read: it is broken, or nested too deeply."
        assert str(caught.value) == f"Server 'web' ({origin}/mcp) {said}"
        assert caught.value.rpc_code is None


def test_what_the_sdk_can_read_is_left_as_it_is() -> None:
    message = GOOD.replace("ID", "1").encode()
    assert mended(message) is message
    assert mended(b"<html>") == b"<html>"


def web(origin: str) -> ServerConfig:
    return ServerConfig(
        name="web", transport="streamable_http", url=f"{origin}/mcp", protocol="legacy"
    )


@pytest.mark.parametrize("padding", [0, 300_000])
async def test_an_answer_that_is_nested_too_deeply_is_refused_however_large(padding: int) -> None:
    async def result_of(levels: int) -> dict[str, Any]:
        nested = b"[" * levels + b"]" * levels
        body = b'{"id":1,"result":{"v":%b,"p":"%b"}}' % (nested, b"x" * padding)
        said = quick_answer(body)
        assert said is not None
        return await result_of_answer(said, body)

    assert "v" in await result_of(190)
    with pytest.raises(MCPError, match="nested too deeply"):
        await result_of(300)
