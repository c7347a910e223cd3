"""What a server hides in its words is shown to models and people; results stay as they are."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pegboard.gateway import Gateway, RpcError
from pegboard.gateway.passthrough import listing_cache
from pegboard.gateway.passthrough.listing_cache import LARGEST_ITEM
from pegboard.upstream import Era
from pegboard.upstream.standalone import StandaloneClient
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import hub
from tests.upstream.hosted import HostedServer, config_of, listening, result, saying
from tests.upstream.http_servers import answer

JSON = {"content_type": "application/json"}
HIDDEN = "\u202e\U000e0041\u200b\x1b[2J"
SHOWN = "\\u202e\\U000e0041\\u200b\\u001b[2J"
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
TOOL: dict[str, Any] = {
    "name": "go",
    "title": f"Go{HIDDEN}",
    "description": f"Goes{HIDDEN} {PERSIAN}.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "way": {"type": "string", "description": HIDDEN, "enum": [f"a{HIDDEN}", "b"]},
        },
    },
    "_meta": {"ui": {"resourceUri": "ui://clock/app.html"}, "note": HIDDEN},
}
CONTENT = {
    "prompts/list": {
        "prompts": [{"name": f"p{HIDDEN}", "description": HIDDEN, "arguments": [{"name": "x"}]}]
    },
    "resources/list": {
        "resources": [
            {"uri": "note://one", "name": f"one{HIDDEN}"},
            {"uri": f"note://{HIDDEN}", "name": "two"},
            {"uri": "note://large", "name": "large", "description": "x" * LARGEST_ITEM},
        ]
    },
    "resources/templates/list": {"resourceTemplates": []},
}


class Sly(HostedServer):
    """A server of the modern era that hides characters wherever it can."""

    def greet(self, request: dict[str, Any]) -> bytes:
        fields: dict[str, Any]
        match request.get("method"):
            case "server/discover":
                can = {"tools": {}, "prompts": {}, "resources": {}}
                said = {"supportedVersions": ["2026-07-28"], "instructions": HIDDEN}
                fields = {"capabilities": can, **said}
            case "tools/list":
                fields = {"tools": [TOOL]}
            case str() as method if method in CONTENT:
                fields = CONTENT[method]
            case _:
                return super().greet(request)
        fields = {**fields, "ttlMs": 0, "cacheScope": "private"}
        return answer("200 OK", result(request, **fields), **JSON)


@asynccontextmanager
async def gateway_of(**fields: Any) -> AsyncGenerator[tuple[Gateway, Sly]]:
    say = saying(lambda request: answer("200 OK", result(request, HIDDEN, **fields), **JSON))
    async with (
        listening(Sly(say)) as server,
        hub(config_of(server)) as it,
        Gateway(it) as gateway,
    ):
        with anyio.fail_after(20):
            assert isinstance(server, Sly)
            yield gateway, server


@ERAS
async def test_a_listed_definition_shows_what_it_hides_and_keeps_its_other_fields(era: Era) -> None:
    async with gateway_of() as (gateway, _):
        [tool] = (await Caller(gateway, era, face=FULL).send("tools/list"))["tools"]
    assert tool["title"] == f"Go{SHOWN}"
    assert tool["description"] == f"Goes{SHOWN} {PERSIAN}."
    way = tool["inputSchema"]["properties"]["way"]
    assert (way["description"], way["enum"]) == (SHOWN, [f"a{SHOWN}", "b"])
    assert tool["_meta"] == {"ui": {"resourceUri": "ui://it/clock/app.html"}, "note": SHOWN}


@ERAS
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_tools", {"query": "goes"}),
        ("get_tool_definition", {"tool_name": "mcp_it_go"}),
        ("list_tools_by_category", {"category": "it"}),
    ],
)
async def test_the_tools_of_the_gateway_show_it_too(
    era: Era, tool: str, arguments: dict[str, Any]
) -> None:
    async with gateway_of() as (gateway, _):
        told = json.dumps(await Caller(gateway, era).call(tool, **arguments), ensure_ascii=False)
    assert "u202e" in told
    assert not set(HIDDEN) & set(told) - set("[2J")


@ERAS
async def test_prompts_and_resources_are_listed_with_what_they_hide(era: Era) -> None:
    async with gateway_of() as (gateway, _):
        caller = Caller(gateway, era, face=FULL)
        [prompt] = (await caller.send("prompts/list"))["prompts"]
        resources = (await caller.send("resources/list"))["resources"]
    assert prompt["description"] == SHOWN
    assert prompt["name"].isascii()
    # A URI that hides something cannot be shown in another way and still be read: it is left out.
    assert [it["name"] for it in resources if "note:" in it["uri"]] == [f"one{SHOWN}"]


@ERAS
async def test_the_result_of_a_call_is_not_touched(era: Era) -> None:
    async with gateway_of(structuredContent={"x": HIDDEN}) as (gateway, _):
        told = await Caller(gateway, era, face=FULL).call("mcp_it_go", way="b")
    assert text_of(told) == HIDDEN
    assert told["structuredContent"] == {"x": HIDDEN}


async def test_an_argument_is_checked_by_the_true_schema() -> None:
    async with gateway_of() as (gateway, server):
        caller = Caller(gateway, face=FULL)
        await caller.call("mcp_it_go", way=f"a{HIDDEN}")
        assert server.calls[0].request["params"]["arguments"] == {"way": f"a{HIDDEN}"}
        refused = await caller.call("mcp_it_go", way="c")
        assert refused["isError"]
        assert len(server.calls) == 1


@ERAS
async def test_an_error_of_a_server_shows_what_it_hides(era: Era) -> None:
    async with gateway_of() as (gateway, server):
        error = {"code": -32000, "message": HIDDEN}
        server.say = saying(
            lambda request: answer(
                "200 OK",
                json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode(),
                **JSON,
            )
        )
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, era, face=FULL).call("mcp_it_go")
    assert caught.value.message == SHOWN


QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": f"Which?{HIDDEN}",
        "requestedSchema": {
            "type": "object",
            "properties": {"a": {"type": "string", "title": HIDDEN, "enum": [HIDDEN]}},
        },
    },
}


@ERAS
async def test_a_question_shows_what_its_words_hide_and_keeps_its_choices(era: Era) -> None:
    fields = {"resultType": "input_required", "inputRequests": {"q": QUESTION}}
    async with gateway_of(**fields) as (gateway, _):
        caller = Caller(
            gateway, era, face=FULL, answers=lambda *_: {"action": "decline"}, elicitation={}
        )
        told = await caller.call("mcp_it_go")
        asked = told["inputRequests"]["q"]["params"] if era == "modern" else caller.wire.asked[0][1]
    assert asked["message"] == f"Which?{SHOWN}"
    field = asked["requestedSchema"]["properties"]["a"]
    assert (field["title"], field["enum"]) == (SHOWN, [HIDDEN])


async def test_a_question_of_an_unknown_kind_is_not_relayed() -> None:
    asked = {"q": {"method": "com.example/ask", "params": {}}}
    fields = {"resultType": "input_required", "inputRequests": asked}
    async with gateway_of(**fields) as (gateway, _):
        told = await Caller(gateway, face=FULL, elicitation={}).call("mcp_it_go")
    assert told["isError"]
    assert "inputRequests" not in told


async def test_the_status_shows_what_instructions_hide() -> None:
    async with (
        listening(Sly(saying(lambda it: answer("200 OK", result(it), **JSON)))) as server,
        hub(config_of(server)) as it,
    ):
        assert it.servers["it"].instructions == SHOWN


async def test_a_registered_definition_shows_what_it_hides() -> None:
    async with hub() as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        await caller.call("register_tool", name="mine", description=f"Mine{HIDDEN}")
        assert it.registry.get("mine").description == f"Mine{SHOWN}"


async def test_a_client_without_a_hub_shows_it_too() -> None:
    async with listening(Sly(saying(lambda it: answer("200 OK", result(it), **JSON)))) as server:
        client = StandaloneClient(config_of(server))
        await client.connect()
        [tool] = await client.list_tools()
        await client.close()
    assert tool["description"] == f"Goes{SHOWN} {PERSIAN}."


async def test_many_items_that_are_left_out_are_counted_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = [{"uri": f"note://{HIDDEN}{it}"} for it in range(50)]
    assert await listing_cache.visible_items(items, "resources/list", "sly") == []
    told = [it.message for it in caplog.records if "item_left_out" in it.message]
    assert len(told) == 21
    assert told[-1] == "item_left_out: 30 more of resources/list of server 'sly'"


async def test_a_long_list_that_hides_much_is_shown_in_turns_with_other_work() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    shown: list[Any] = []
    items = [{"uri": f"note://{it}", "name": HIDDEN} for it in range(500)]
    shown: list[Any] = []
    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await checkpoint()
        shown += await listing_cache.visible_items(items, "resources/list", "sly")
        group.cancel_scope.cancel()
    assert len(shown) == 500
    assert turns >= 500
