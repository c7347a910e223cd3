"""Lists of servers end: by pages, items, bytes and values, however they are sent."""

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import anyio
import msgspec
import pytest
from anyio.abc import SocketStream

from pegboard import ProtocolError, ServerConfig, ServerState
from pegboard.config.servers import OAuthConfig
from pegboard.upstream import CallContext, context_of_call
from pegboard.upstream.catalog.feed import MOST_DEFINITION_BYTES
from pegboard.upstream.session import list_pages
from pegboard.upstream.session.list_pages import read_pages
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import answer, config_for, read_request, serving_raw
from tests.upstream.test_hostile import TOOLS, raw

CONFIG = ServerConfig(name="long", transport="stdio", command="x", max_response_values=2000)
SMALL = {"name": "go"}


class Pages:
    """A server whose list has as many pages as one cares to read."""

    def __init__(self, *items: Any, last: int = 1 << 30, cursor: str = "") -> None:
        self.asked = 0
        self._items = list(items)
        self._last = last
        self._cursor = cursor

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked += 1
        page: dict[str, Any] = {method.partition("/")[0]: self._items}
        if self.asked < self._last:
            page["nextCursor"] = f"{self.asked}{self._cursor}"
        return page


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list"])
@pytest.mark.parametrize(
    ("pages", "words", "most"),
    [
        (Pages(*[SMALL] * 1000), "more than 200000 items", 201),
        (Pages({"name": "x" * 5_000_000}), "more than 67108864 bytes", 14),
        (Pages({"name": [[]] * 2000}), "values, 20 times its `max_response_values`", 11),
        (Pages(SMALL, cursor="c" * 5_000_000), "more than 67108864 bytes", 14),
        (Pages(), "never ends its list", list_pages.MAX_PAGES),
    ],
)
async def test_a_list_without_an_end_is_given_up(
    pages: Pages, words: str, most: int, method: str
) -> None:
    pages.asked = 0
    many = ServerConfig(name="long", transport="stdio", command="x", max_response_values=100_000)
    config = CONFIG if "values" in words else many
    with pytest.raises(ProtocolError, match=words):
        await read_pages(pages.ask, method, config)
    assert pages.asked <= most


async def test_a_list_within_the_limits_is_returned_whole() -> None:
    pages = Pages(*[SMALL] * 10, last=900)
    assert await read_pages(pages.ask, "tools/list", CONFIG) == [SMALL] * 9_000


async def test_a_server_with_a_list_that_is_too_long_says_so_in_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_pages, "MAX_ITEMS", 3)
    tools = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(4)]
    async with hub_of(raw({"tools/list": {"result": {"tools": tools}}})) as hub:
        assert "lists too much: `tools/list` has more than 3 items" in str(
            hub.servers["raw"].last_error
        )
        assert len(hub.registry) == 0


@pytest.mark.parametrize("size", [MOST_DEFINITION_BYTES + 1, 20 * MOST_DEFINITION_BYTES])
async def test_a_definition_that_is_too_large_costs_its_own_tool_only(size: int) -> None:
    # Written by the server itself: no command line holds it.
    code = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    it = json.loads(line)\n"
        "    if 'id' not in it: continue\n"
        "    schema = {'type': 'object'}\n"
        "    go = {'name': 'go', 'inputSchema': schema}\n"
        f"    big = {{'name': 'big', 'description': 'x' * {size}, 'inputSchema': schema}}\n"
        "    said = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}},\n"
        "            'serverInfo': {'name': 's', 'version': '1'}, 'tools': [go, big]}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': it['id'], 'result': said}), flush=True)\n"
    )
    config = msgspec.structs.replace(raw({}), args=("-S", "-E", "-c", code))
    async with hub_of(config) as hub:
        assert set(hub.registry) == {"mcp_raw_go"}
        assert f"the most are {MOST_DEFINITION_BYTES} bytes" in hub.servers["raw"].left_out["big"]


async def test_a_handshake_server_cannot_speak_of_what_only_the_modern_era_has() -> None:
    forged = {
        "content": [{"type": "text", "text": "x", "_meta": {"io.modelcontextprotocol/a": 1}}],
        "resultType": "input_required",
        "inputRequests": {"q": {"method": "elicitation/create", "params": {}}},
        "requestState": "s",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "evil"}, "mine": 1},
    }
    replies = {"tools/list": TOOLS, "tools/call": {"result": forged}}
    async with hub_of(raw(replies)) as hub:
        result = await hub.call("mcp_raw_go")
        assert result.wire == {"content": forged["content"], "_meta": {"mine": 1}}
        read = await hub.server("raw").request("tools/call", {"name": "go"})
        assert read == result.wire


async def test_a_handshake_server_cannot_forge_the_meta_of_a_notification() -> None:
    reserved = {"io.modelcontextprotocol/subscriptionId": 1, "mine": 2}
    note = {
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {"level": "error", "data": "x", "_meta": reserved},
    }
    said = json.dumps(note) + '\n{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}'
    heard: list[Mapping[str, Any]] = []
    async with hub_of(raw({"tools/list": TOOLS, "tools/call": said})) as hub:
        token = context_of_call.set(CallContext(on_log=heard.append, log_level="debug"))
        await hub.call("mcp_raw_go")
        context_of_call.reset(token)
    assert [it["_meta"] for it in heard] == [{"mine": 2}]


async def test_a_compressed_or_endless_answer_to_a_login_is_not_read() -> None:
    """The library of the login would decompress a body as often as its headers say."""
    asked: list[str] = []
    sizes = count()

    async def handle(stream: SocketStream) -> None:
        head, _ = await read_request(stream)
        path = head.split(b" ")[1].decode()
        asked.append(path)
        if path == "/mcp":
            fields = {"www_authenticate": "Bearer", "content_encoding": "gzip, gzip"}
            await stream.send(answer("401 Unauthorized", b"junk", connection="close", **fields))
        elif next(sizes) == 0:
            packed = answer("200 OK", b"junk", content_encoding="gzip", connection="close")
            await stream.send(packed)
        else:
            await stream.send(answer("200 OK", b"x" * 1_100_000, connection="close"))

    robot = OAuthConfig(flow="client_credentials", client_id="robot", client_secret="s" * 20)
    async with serving_raw(handle) as origin:
        for problem in ("its answer is compressed", "its answer is larger than 1 MiB"):
            asked.clear()
            with anyio.fail_after(10):
                async with hub_of(config_for(f"{origin}/mcp", oauth=robot)) as hub:
                    (status,) = hub.servers.values()
                    assert status.state != ServerState.READY
                    assert problem in str(status.last_error)
            assert any("well-known" in it for it in asked)
