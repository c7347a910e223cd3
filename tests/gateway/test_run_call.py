from collections.abc import Iterable
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from pegboard import Registry
from pegboard.errors import ToolNotFoundError
from pegboard.gateway import Gateway, RpcError
from pegboard.gateway.calls.run_call import caller_in
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.request import Client
from pegboard.gateway.visibility import Visibility
from pegboard.model import CallRecord, Image, Tool, ToolResult
from pegboard.model.principal import LOCAL, Principal
from pegboard.model.tool_names import nearest_names
from pegboard.observe.call_reporter import MOST_OF_NAME, CallReporter
from pegboard.upstream import Era
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import Stall, bench, hub
from tests.upstream.board_servers import Bench, memory

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
STRICT = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer", "default": 1}},
    "required": ["text"],
}


def echo(arguments: dict[str, Any]) -> str:
    return str(arguments["text"])


def strict_bench() -> Bench:
    made = Bench(echo=echo)
    made.schemas["echo"] = STRICT
    return made


@ERAS
@pytest.mark.covers("R-REG-5", "R-REG-6")
async def test_an_agent_searches_looks_and_calls(era: Era) -> None:
    made = Bench(aws_cost_explorer=lambda _: "42 USD")
    async with hub(memory("aws", made, prefix="")) as it, Gateway(it) as gateway:
        agent = Caller(gateway, era)
        found = await agent.call("search_tools", query="check aws billing cost")
        assert found["structuredContent"]["tools"][0]["name"] == "aws_cost_explorer"
        shown = await agent.call("get_tool_definition", tool_name="aws_cost_explorer")
        assert '"inputSchema"' in text_of(shown)
        called = await agent.call("call_tool", name="aws_cost_explorer", arguments={})
        assert text_of(called) == "42 USD"


@ERAS
async def test_wrong_arguments_come_back_with_the_signature_and_never_reach_the_server(
    era: Era,
) -> None:
    made = strict_bench()
    async with hub(memory("calc", made)) as it, Gateway(it) as gateway:
        result = await Caller(gateway, era).call("call_tool", name="mcp_calc_echo", arguments={})
        assert result["isError"]
        assert "mcp_calc_echo(text: string, times?: integer)" in text_of(result)
        same = await Caller(gateway, era, face=FULL).call("mcp_calc_echo", txt=1)
        assert "mcp_calc_echo(text: string, times?: integer)" in text_of(same)
        assert made.calls == []


async def test_an_unknown_name_is_answered_with_near_ones() -> None:
    async with hub(memory("calc", strict_bench())) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("call_tool", name="mcp_calc_ecko", arguments={})
        assert result["isError"]
        assert "mcp_calc_echo" in text_of(result)
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, face=FULL).call("mcp_calc_ecko")
        assert (caught.value.code, caught.value.data["nearest"]) == (-32602, ["mcp_calc_echo"])  # pyright: ignore[reportIndexIssue]


async def test_near_names_among_very_many_tools_are_those_that_sort_near() -> None:
    looked = 0

    def admits(_: str | None, __: str | None, ___: tuple[str, ...]) -> bool:
        nonlocal looked
        looked += 1
        return True

    with Registry() as registry:
        registry.register_many([Tool(name=f"tool_{number:05}") for number in range(30_000)])
        tools = ToolList(registry, lambda _: None)
        with pytest.raises(ToolNotFoundError) as caught:
            tools.find("tool_25_000", Visibility(LOCAL, admits))
        assert caught.value.nearest[0] == "tool_25000"
        # Only of those that are alike is asked whether the caller sees them.
        assert looked <= 2000


async def test_near_names_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def count(name: object, names: Iterable[str], **options: Any) -> list[str]:
        asked.append(name)
        return nearest_names(name, names, **options)

    monkeypatch.setattr("pegboard.gateway.catalog.tool_list.nearest_names", count)
    async with hub(memory("calc", strict_bench())) as it, Gateway(it) as gateway:
        with pytest.raises(RpcError):
            await Caller(gateway, face=FULL).call("mcp_calc_ecko")
    assert asked == ["mcp_calc_ecko"]


async def test_near_names_are_only_those_that_exist_for_the_caller() -> None:
    limited = Principal(subject="s", scopes=frozenset({"call"}), tools=("mcp_calc_other",))
    async with hub(bench("calc", echo=echo)) as it, Gateway(it) as gateway:
        result = await Caller(gateway, principal=limited).call("call_tool", name="mcp_calc_echo")
        assert text_of(result) == (
            "No tool is named 'mcp_calc_echo'. search_tools finds tools by what they do."
        )


async def test_a_definition_says_that_nothing_runs_it() -> None:
    registry = Registry()
    registry.register(Tool(name="wish", description="Grants a wish."))
    async with hub(registry=registry) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("call_tool", name="wish", arguments={})
        assert result["isError"]
        assert "definition only" in text_of(result)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, -32602),
        ({"name": 5}, -32602),
        ({"name": None, "arguments": {}}, -32602),
        ({"name": "search_tools", "arguments": []}, -32602),
        ({"name": "search_tools", "arguments": "query"}, -32602),
    ],
)
@pytest.mark.covers("R-REG-35")
async def test_requests_that_make_no_sense_are_refused(params: dict[str, Any], code: int) -> None:
    async with hub() as it, Gateway(it) as gateway:
        with pytest.raises(RpcError) as caught:
            await Caller(gateway).send("tools/call", **params)
        assert caught.value.code == code


async def test_what_a_tool_raises_is_told_to_the_model() -> None:
    registry = Registry()

    @registry.register
    def broken() -> str:  # pyright: ignore[reportUnusedFunction]
        raise ValueError("no such day")

    async with hub(registry=registry) as it, Gateway(it) as gateway:
        result = await Caller(gateway, face=FULL).call("broken")
        assert result["isError"]
        assert text_of(result) == "The tool failed: ValueError: no such day"


@ERAS
async def test_errors_of_a_server_are_relayed_where_nothing_else_is_changed(era: Era) -> None:
    def refuse(_: dict[str, Any]) -> str:
        raise MCPError(-32099, "not today", {"why": "rain"})

    async with hub(bench("calc", refuse=refuse)) as it, Gateway(it) as gateway:
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, era, face=FULL).call("mcp_calc_refuse")
        assert (caught.value.code, caught.value.data) == (-32099, {"why": "rain"})
        assert "not today" in caught.value.message
        told = await Caller(gateway, era).call("call_tool", name="mcp_calc_refuse")
        assert told["isError"]
        assert "not today" in text_of(told)


async def test_a_page_to_visit_is_for_the_client_and_not_for_the_model() -> None:
    def visit(_: dict[str, Any]) -> str:
        raise MCPError(types.URL_ELICITATION_REQUIRED, "visit", {"elicitations": []})

    async with hub(bench("calc", visit=visit)) as it, Gateway(it) as gateway:
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, "legacy").call("call_tool", name="mcp_calc_visit")
        assert caught.value.code == types.URL_ELICITATION_REQUIRED


async def test_results_are_relayed_as_they_came() -> None:
    block = types.TextContent(text="hi", annotations=types.Annotations(priority=0.5))
    result = types.CallToolResult(
        content=[block], structured_content={"a": [1, None]}, _meta={"example.org/x": {"y": 1}}
    )

    async def respond() -> types.CallToolResult:
        return result

    async with hub(bench("calc", answer=lambda _: respond())) as it, Gateway(it) as gateway:
        got = await Caller(gateway, face=FULL).call("mcp_calc_answer")
        assert got["content"][0]["annotations"] == {"priority": 0.5}
        assert got["structuredContent"] == {"a": [1, None]}
        assert got["_meta"]["example.org/x"] == {"y": 1}
        assert got["_meta"]["io.modelcontextprotocol/serverInfo"] == gateway.info
        assert got["resultType"] == "complete"


async def test_values_of_functions_become_results_of_both_eras() -> None:
    registry = Registry()

    @registry.register
    async def numbers() -> list[int]:  # pyright: ignore[reportUnusedFunction]
        return [1, 2]

    @registry.register
    async def picture() -> ToolResult:  # pyright: ignore[reportUnusedFunction]
        return ToolResult(content=(Image(data="AA==", mime_type="image/png"),), is_error=True)

    async with hub(registry=registry) as it, Gateway(it) as gateway:
        modern = await Caller(gateway, face=FULL).call("numbers")
        assert (text_of(modern), modern["structuredContent"]) == ("[1,2]", [1, 2])
        legacy = await Caller(gateway, "legacy", face=FULL).call("numbers")
        assert legacy == {"content": [{"type": "text", "text": "[1,2]"}]}
        shown = await Caller(gateway, "legacy", face=FULL).call("picture")
        assert shown == {
            "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}],
            "isError": True,
        }


async def test_records_say_who_called(records: list[CallRecord]) -> None:
    limited = Principal(subject="pb_1", scopes=frozenset({"call"}))
    registry = Registry(observers=[records.append])
    async with hub(bench("calc", echo=echo), registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway, principal=limited)
        await caller.call("call_tool", name="mcp_calc_echo", arguments={"text": "x"})
    [record] = records
    assert record.meta == {"tenant": "default", "subject": "pb_1"}


def test_records_keep_only_the_beginning_of_names_that_a_client_chooses() -> None:
    records: list[CallRecord] = []
    reporter = CallReporter(records.append)
    info = {"name": "c" * 16_000}
    caller = caller_in(Client(principal=LOCAL, era="modern", version="", info=info))
    name = "n" * 4_000_000
    reporter.refused(name, caller, "rate_limited")
    with pytest.raises(ToolNotFoundError), reporter.begin(name, caller):
        raise ToolNotFoundError(name)
    assert [len(it.tool) for it in records] == [MOST_OF_NAME, MOST_OF_NAME]
    assert len(caller["client"]) == MOST_OF_NAME


async def test_a_tool_that_may_only_be_looked_at_is_refused_by_name_of_the_scope() -> None:
    reader = Principal(subject="r", scopes=frozenset({"read"}))
    made = strict_bench()
    async with hub(memory("calc", made)) as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL, principal=reader)
        for name in ("mcp_calc_echo", "nothing"):
            with pytest.raises(RpcError) as caught:
                await caller.call(name, text="x")
            assert caught.value.data == {"code": "access_denied", "scope": "call"}
        assert made.calls == []


async def test_links_in_results_lead_to_where_they_can_be_read() -> None:
    link = types.ResourceLink(uri="note://one", name="one")
    held = types.TextResourceContents(uri="note://two", text="2")
    result = types.CallToolResult(content=[link, types.EmbeddedResource(resource=held)])

    async def respond() -> types.CallToolResult:
        return result

    made = Bench(answer=lambda _: respond())
    configs = (memory("desk", made), memory("own", made, prefix=""))
    async with hub(*configs) as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL)
        first, second = (await caller.call("mcp_desk_answer"))["content"]
        assert first["uri"] == "desk+note://one"
        assert second["resource"]["uri"] == "desk+note://two"
        kept, _ = (await caller.call("answer"))["content"]
        assert kept["uri"] == "note://one"


async def test_a_result_in_too_many_parts_is_refused() -> None:
    stall = Stall()

    async def many(context: Any, _: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": ""}] * 10_001}

    stall.tools = {"many": many}
    async with hub(stall.config("desk")) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("call_tool", name="mcp_desk_many")
        assert result["isError"]
        assert "10001 content blocks" in text_of(result)


@pytest.mark.parametrize(
    ("more", "ending"),
    [
        ({}, "add_days(day: string, days: integer)\nIt has no argument `date`."),
        ({"additionalProperties": True}, "add_days(day: string, days: integer)"),
        ({"anyOf": [{"properties": {"date": {}}}]}, "add_days(day: string, days: integer)"),
    ],
)
async def test_an_argument_that_the_schema_does_not_list_is_named_when_another_is_missing(
    more: dict[str, Any], ending: str
) -> None:
    made = Bench(add_days=str)
    properties = {"day": {"type": "string"}, "days": {"type": "integer"}}
    required = ["day", "days"]
    made.schemas["add_days"] = {
        "type": "object",
        "properties": properties,
        "required": required,
        **more,
    }
    async with hub(memory("clock", made)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        given = {"date": "2026-01-01", "days": 3}
        refused = await caller.call("call_tool", name="mcp_clock_add_days", arguments=given)
        assert text_of(refused).endswith(ending)
        given["day"] = "2026-01-01"
        taken = await caller.call("call_tool", name="mcp_clock_add_days", arguments=given)
        assert text_of(taken) == str(given)
