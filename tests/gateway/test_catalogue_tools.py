import json
from pathlib import Path
from typing import Any

import pytest

from pegboard import Registry
from pegboard.gateway import Gateway
from pegboard.model import Tool
from pegboard.model.principal import Principal
from tests.gateway.clients import Caller, text_of
from tests.gateway.servers import bench, hub
from tests.upstream.board_servers import Bench, memory

SCHEMA = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}


@pytest.mark.covers("R-REG-26")
async def test_a_definition_is_shown_whole() -> None:
    registry = Registry()
    tool = Tool(
        name="cost",
        description="Shows the cost. Of a day.",
        input_schema=SCHEMA,
        output_schema={"type": "object"},
        category="billing",
        tags=("aws",),
    )
    registry.register(tool)
    async with hub(registry=registry) as it, Gateway(it) as gateway:
        shown = await Caller(gateway).call("get_tool_definition", tool_name="cost")
        assert json.loads(text_of(shown)) == {
            "name": "cost",
            "description": "Shows the cost. Of a day.",
            "inputSchema": SCHEMA,
            "outputSchema": {"type": "object"},
            "category": "billing",
            "tags": ["aws"],
        }
        for name in ("coast", "", None, "x" * 10_000):
            refused = await Caller(gateway).call("get_tool_definition", tool_name=name)
            assert refused["isError"]


@pytest.mark.covers("R-REG-27", "X-REG-3")
async def test_tools_are_listed_by_category_and_all_lists_the_categories() -> None:
    registry = Registry()
    registry.register_many([Tool(name=f"paint_{it}", category="walls") for it in range(30)])
    registry.register(Tool(name="loose"))
    configs = bench("disk", read=str)
    async with hub(configs, registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        every = await caller.call("list_tools_by_category", category="all")
        assert every["structuredContent"]["categories"] == {"disk": 1, "other": 1, "walls": 30}
        walls = await caller.call("list_tools_by_category", category="walls")
        lines = text_of(walls).splitlines()
        assert lines[0] == "paint_0() [definition only]"
        assert len(lines) == 21
        assert "10 more" in lines[-1]
        assert walls["structuredContent"]["total"] == 30
        few = await caller.call("list_tools_by_category", category="walls", limit=2)
        assert len(few["structuredContent"]["tools"]) == 2
        disk = await caller.call("list_tools_by_category", category="disk")
        assert disk["structuredContent"]["tools"] == ["mcp_disk_read"]
        assert "definition only" not in text_of(disk)
        for category, words in (
            ("Wall", "No category is named 'Wall'. Did you mean 'walls'?"),
            ("zebra", "No category is named 'zebra'. There are: disk, other, walls."),
        ):
            wrong = await caller.call("list_tools_by_category", category=category)
            assert wrong["isError"]
            assert text_of(wrong) == f'{words} "all" lists them.'


@pytest.mark.covers("R-REG-28", "R-REG-29", "R-REG-6", "X-REG-6")
@pytest.mark.parametrize("file", ["tools.json", "tools.db"])
async def test_what_is_registered_is_found_and_kept(file: str, tmp_path: Path) -> None:
    place = tmp_path / file
    async with hub(storage=place) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        done = await caller.call(
            "register_tool",
            name="cost",
            description="Shows the cost.",
            category="billing",
            tags=["aws"],
        )
        assert done["structuredContent"] == {"name": "cost"}
        whole = {
            "name": "bill",
            "description": "Shows a bill.",
            "input_schema": SCHEMA,
            "mcp_server": "aws",
            "use_frequency": 3,
        }
        assert "isError" not in await caller.call("register_tool", tool_def=whole)
        found = await caller.call("search_tools", query="show a bill")
        assert text_of(found).startswith("bill(day: string) — Shows a bill.")
        again = await caller.call("register_tool", name="cost", description="Other.")
        assert again["isError"]
    async with hub(storage=place) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        listed = await caller.call("list_tools_by_category", category="all")
        assert listed["structuredContent"]["categories"] == {"aws": 1, "billing": 1}
        kept = json.loads(text_of(await caller.call("get_tool_definition", tool_name="cost")))
        assert kept == {
            "name": "cost",
            "description": "Shows the cost.",
            "inputSchema": {"type": "object"},
            "category": "billing",
            "tags": ["aws"],
        }
        assert "isError" not in await caller.call("unregister_tool", tool_name="cost")
        assert (await caller.call("unregister_tool", tool_name="cost"))["isError"]
        assert "cost" not in it.registry


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"name": "x"},
        {"name": "", "description": "d"},
        {"name": " ", "description": "d"},
        {"name": "x", "description": "d" * 1001},
        {"name": "x", "description": "d", "input_schema": {"type": "no such type"}},
        {"name": "x", "description": "d", "tags": "aws"},
        {"name": "x\n", "description": "d"},
        {"name": "search_tools", "description": "d"},
        {"name": "bad name!", "description": "d"},
        {"name": "n" * 300, "description": "d"},
        {"name": "名前", "description": "d"},
        {"tool_def": {"name": "x"}},
        {"tool_def": "x"},
        {"name": "x", "description": "d", "surprise": 1},
    ],
)
@pytest.mark.covers("R-REG-35", "X-REG-5")
async def test_definitions_that_are_none_are_refused(arguments: dict[str, Any]) -> None:
    async with hub() as it, Gateway(it) as gateway:
        refused = await Caller(gateway).call("register_tool", **arguments)
        assert refused["isError"]
        assert len(it.registry) == 0


async def test_a_name_that_no_model_takes_is_refused_with_the_rule() -> None:
    async with hub() as it, Gateway(it) as gateway:
        refused = await Caller(gateway).call("register_tool", name="bad name!", description="d")
        assert "1 to 64 letters" in text_of(refused)


async def test_fields_that_no_definition_has_are_named() -> None:
    async with hub() as it, Gateway(it) as gateway:
        definition = {"name": "x", "description": "d", "categry": "a", "n" * 100_000: 1}
        refused = await Caller(gateway).call("register_tool", tool_def=definition)
        assert refused["isError"]
        assert "'categry'" in text_of(refused)
        assert "category" in text_of(refused)
        assert len(text_of(refused)) < 1000
        assert len(it.registry) == 0


async def test_a_taken_name_is_refused_with_advice_that_helps() -> None:
    async with hub(bench("calc", echo=str)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        await caller.call("register_tool", name="mine", description="d")
        again = await caller.call("register_tool", name="mine", description="d")
        assert "unregister it first" in text_of(again)
        other = await caller.call("register_tool", name="mcp_calc_echo", description="d")
        assert "choose another name" in text_of(other)


async def test_who_registers_does_not_learn_which_tools_exist_for_others(tmp_path: Path) -> None:
    made = Bench(echo=str)
    limited = Principal(subject="w", scopes=frozenset({"register"}), servers=("alpha",))
    async with (
        hub(memory("secret", made), bench("alpha", x=str), storage=tmp_path / "t.json") as it,
        Gateway(it) as gateway,
    ):
        caller, told = Caller(gateway, principal=limited), []
        for name in ("mcp_secret_echo", "mcp_secret_free"):
            mine = {"name": name, "description": "Mine.", "mcp_server": "alpha"}
            said = [
                text_of(await caller.call("register_tool", **mine)),
                text_of(await caller.call("register_tool", **mine)),
                text_of(await caller.call("unregister_tool", tool_name=name)),
                text_of(await caller.call("unregister_tool", tool_name=name)),
                text_of(await caller.call("register_tool", **mine)),
            ]
            told.append([words.replace(name, "it") for words in said])
        assert told[0] == told[1]
        assert text_of(await Caller(gateway).call("call_tool", name="mcp_secret_echo")) == "{}"


async def test_a_name_outside_ones_patterns_is_refused_in_the_same_words_whatever_is_there(
    tmp_path: Path,
) -> None:
    by_name = Principal(subject="w", scopes=frozenset({"register", "read"}), tools=("mine_*",))
    by_server = Principal(subject="w", scopes=frozenset({"register"}), servers=("alpha",))
    secret = memory("secret", Bench(echo=str))
    async with hub(storage=tmp_path / "t.json") as it, Gateway(it) as gateway:
        # It waits behind the tool of a server.
        await Caller(gateway).call("register_tool", name="mcp_secret_echo", description="d")
    async with hub(secret, storage=tmp_path / "t.json") as it, Gateway(it) as gateway:
        await Caller(gateway).call("register_tool", name="theirs", description="d")
        for principal, names in (
            (by_name, ("theirs", "mcp_secret_echo", "free")),
            (by_server, ("theirs", "mcp_secret_echo")),
        ):
            caller = Caller(gateway, principal=principal)
            for name in names:
                given = {"name": name, "description": "d", "mcp_server": "alpha"}
                said = text_of(await caller.call("register_tool", **given))
                assert said == f"This credential may not register {name!r}."


@pytest.mark.covers("R-REG-37")
async def test_only_registered_definitions_can_be_taken_back_and_only_by_those_who_may() -> None:
    registry = Registry()

    @registry.register
    def local() -> str:  # pyright: ignore[reportUnusedFunction]
        return "here"

    registrar = Principal(subject="w", scopes=frozenset({"register"}), tools=("mine_*",))
    async with hub(bench("calc", echo=str), registry=registry) as it, Gateway(it) as gateway:
        admin = Caller(gateway)
        for name in ("local", "mcp_calc_echo"):
            refused = await admin.call("unregister_tool", tool_name=name)
            assert refused["isError"]
            assert name in it.registry
        caller = Caller(gateway, principal=registrar)
        assert (await caller.call("register_tool", name="yours_x", description="d"))["isError"]
        assert "isError" not in await caller.call("register_tool", name="mine_x", description="d")
        await admin.call("register_tool", name="yours_x", description="d")
        assert (await caller.call("unregister_tool", tool_name="yours_x"))["isError"]
        assert "isError" not in await caller.call("unregister_tool", tool_name="mine_x")
        assert "mine_x" not in it.registry


async def test_a_tool_of_a_server_goes_before_a_definition_of_its_name(tmp_path: Path) -> None:
    made = Bench(echo=str)
    async with hub(storage=tmp_path / "t.json") as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        said = await caller.call("register_tool", name="mcp_calc_wipe", description="Not yours.")
        assert "If a server offers a tool with this name" in text_of(said)
    for _ in range(2):
        storage = tmp_path / "t.json"
        async with hub(memory("calc", made), storage=storage) as it, Gateway(it) as gateway:
            caller = Caller(gateway)
            described = await caller.call("call_tool", name="mcp_calc_wipe")
            assert "definition only" in text_of(described)
            made.tools["wipe"] = lambda _: "wiped"
            await it.server("calc").refresh()
            assert text_of(await caller.call("call_tool", name="mcp_calc_wipe")) == "wiped"
            refused = await caller.call("unregister_tool", tool_name="mcp_calc_wipe")
            assert refused["isError"]
            del made.tools["wipe"]
            await it.server("calc").refresh()
            described = await caller.call("call_tool", name="mcp_calc_wipe")
            assert "definition only" in text_of(described)


async def test_names_are_suggested_to_those_only_who_may_read_them() -> None:
    registrar = Principal(subject="w", scopes=frozenset({"register"}))
    async with hub(bench("calc", echo=str)) as it, Gateway(it) as gateway:
        refused = await Caller(gateway, principal=registrar).call(
            "unregister_tool", tool_name="mcp_calc_ecko"
        )
        assert text_of(refused) == "No tool is named 'mcp_calc_ecko'."


async def test_a_schema_that_is_too_large_is_refused() -> None:
    schema = {"type": "object", "anyOf": [{}] * 50_000}
    async with hub() as it, Gateway(it) as gateway:
        for name in ("input_schema", "output_schema"):
            arguments = {"name": "x", "description": "d", name: schema}
            for given in (arguments, {"tool_def": arguments}):
                refused = await Caller(gateway).call("register_tool", **given)
                assert f"`{name}`: has more than 32000 bytes" in text_of(refused)
        assert len(it.registry) == 0


@pytest.mark.parametrize("name", ["inputSchema", "outputSchema"])
async def test_a_schema_that_is_none_is_refused_however_it_is_spelt(name: str) -> None:
    definition = {"name": "u", "description": "x", name: "foo"}
    async with hub() as it, Gateway(it) as gateway:
        refused = await Caller(gateway).call("register_tool", tool_def=definition)
        assert refused["isError"]
        assert f"`{name}`: must be an object" in text_of(refused)
        assert "u" not in it.registry


async def test_a_definition_that_contradicts_itself_is_refused() -> None:
    async with hub() as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        whole = {"name": "cost", "description": "Shows the cost.", "category": "billing"}
        for given in ({"name": "coast"}, {"category": "beaches"}):
            refused = await caller.call("register_tool", **given, tool_def=whole)
            assert refused["isError"]
            assert f"`{next(iter(given))}`: is not the same as in `tool_def`" in text_of(refused)
        done = await caller.call("register_tool", name="cost", tags=None, tool_def=whole)
        assert done["structuredContent"] == {"name": "cost"}


@pytest.mark.parametrize(
    ("tool", "argument"), [("call_tool", "name"), ("get_tool_definition", "tool_name")]
)
async def test_a_caller_that_names_no_tool_of_the_catalogue_is_told_the_next_step(
    tool: str, argument: str
) -> None:
    async with hub(bench("calc", echo=str)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        own = await caller.call(tool, **{argument: "search_tools"})
        assert text_of(own) == "'search_tools' is a tool of the gateway itself: call it directly."
        none = await caller.call(tool, **{argument: "zebra"})
        assert (
            text_of(none) == "No tool is named 'zebra'. search_tools finds tools by what they do."
        )
        near = await caller.call(tool, **{argument: "mcp_calc_ecko"})
        assert text_of(near) == "No tool is named 'mcp_calc_ecko'. Did you mean 'mcp_calc_echo'?"
