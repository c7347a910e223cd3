"""Answers that are almost right, over every transport."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pegboard import ProtocolError, ServerConfig
from pegboard.upstream.messages.failures import FailedError
from pegboard.upstream.messages.jsonrpc import read_message, result_in
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import serving

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


def web(origin: str) -> ServerConfig:
    return ServerConfig(
        name="web", transport="streamable_http", url=f"{origin}/mcp", protocol="legacy"
    )


@pytest.mark.parametrize("padding", [0, 300_000])
async def test_an_answer_that_is_nested_too_deeply_is_refused_however_large(padding: int) -> None:
    async def result_of(levels: int) -> dict[str, Any]:
        nested = b"[" * levels + b"]" * levels
        body = b'{"id":1,"result":{"v":%b,"p":"%b"}}' % (nested, b"x" * padding)
        said = read_message(body)
        assert said is not None
        return await result_in(said, body)

    assert "v" in await result_of(190)
    with pytest.raises(FailedError, match="nested too deeply"):
        await result_of(300)
