import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync

from pegboard import Registry
from pegboard.errors import ConfigError
from pegboard.gateway import Gateway, GatewayOptions
from pegboard.model import Tool
from pegboard.model.principal import Principal
from pegboard.search import tokens_of
from pegboard.search.methods.regex import Regex
from pegboard.server.settings import load_gateway_settings
from pegboard.storage import Use
from pegboard.upstream import Era
from tests.gateway.clients import Caller, text_of
from tests.gateway.servers import hub

CATALOGS = Path(__file__).parents[1] / "data" / "catalogs"
QUERIES = (
    *("read a file", "create a pull request", "take a screenshot of the page", "query database"),
    *("search the web", "add a comment to a jira issue", "format cells in a spreadsheet"),
    *("list kubernetes pods", "convert time between zones", "git commit", "create a page"),
)


def board(*names: str) -> Registry:
    registry = Registry()
    registry.register_many(
        [Tool(name=name, description=f"Does {name.replace('_', ' ')}.") for name in names]
    )
    return registry


def real_tools() -> list[Tool]:
    return [
        Tool(
            name=f"mcp_{path.stem}_{raw['name']}"[:64],
            description=raw.get("description") or "",
            input_schema=raw.get("inputSchema") or {},
            server=path.stem,
        )
        for path in sorted(CATALOGS.glob("*.json"))
        for raw in json.loads(path.read_text("utf-8"))
    ]


@pytest.mark.covers("R-REG-25", "R-REG-3")
async def test_five_hits_over_real_catalogues_take_at_most_800_tokens() -> None:
    registry = Registry()
    registry.register_many(real_tools(), on_conflict="rename", on_error="report")
    assert len(registry) > 300
    async with hub(registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        for query in QUERIES:
            for method in ("bm25", "hybrid"):
                found = await caller.call("search_tools", query=query, search_method=method)
                lines = text_of(found).splitlines()
                assert 1 <= len(lines) <= 5
                assert tokens_of(text_of(found)) <= 800, query
                assert tokens_of(json.dumps(found["structuredContent"])) <= 1000, query


@pytest.mark.covers("R-REG-25", "R-REG-29")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_parameters_are_those_of_the_document_and_hybrid_is_the_default(
    era: Era,
) -> None:
    registry = board(*(f"read_file_{number}" for number in range(9)))
    async with hub(registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era)
        [definition] = [
            tool
            for tool in (await caller.send("tools/list"))["tools"]
            if tool["name"] == "search_tools"
        ]
        properties = definition["inputSchema"]["properties"]
        assert list(properties)[:3] == ["query", "search_method", "limit"]
        assert properties["search_method"]["default"] == "hybrid"
        assert properties["limit"]["default"] == 5
        found = await caller.call("search_tools", query="read file")
        assert found["structuredContent"]["method"] == "hybrid"
        assert len(text_of(found).splitlines()) == 5
        two = await caller.call("search_tools", query="read file", method="regex", limit=2)
        assert len(two["structuredContent"]["tools"]) == 2
        assert two["structuredContent"]["method"] == "regex"
        for method in ("regex", "bm25", "embedding", "hybrid"):
            one = await caller.call(
                "search_tools", query="read_file_3", search_method=method, limit=1
            )
            assert text_of(one).startswith("read_file_3() — Does read file 3. [")


async def test_nothing_is_an_answer_and_says_where_to_look() -> None:
    registry = Registry()
    registry.register(Tool(name="paint", description="Paints a wall.", category="walls"))
    async with hub(registry=registry) as it, Gateway(it) as gateway:
        found = await Caller(gateway).call("search_tools", query="quantum chromodynamics lattice")
        assert found["structuredContent"]["tools"] == []
        assert text_of(found).startswith("No tool here does that. There is the category walls. ")
        assert found["structuredContent"]["hints"] == ["category: walls"]
        it.registry.register(Tool(name="fell", description="Fells a tree.", category="garden"))
        found = await Caller(gateway).call("search_tools", query="quantum chromodynamics lattice")
        assert "There are the categories walls, garden. " in text_of(found)
        assert "isError" not in found


def shop() -> Registry:
    registry = Registry()
    registry.register(Tool(name="cancel_order", description="Cancels an order of a customer."))
    registry.register(Tool(name="get_current_time", description="Tells the time in a zone."))
    registry.register(Tool(name="send_email", description="Sends a message by email."))
    return registry


MEANT = pytest.mark.parametrize(
    ("query", "name"),
    [("现在东京几点", "get_current_time"), ("call off a purchase", "cancel_order")],
)


@MEANT
async def test_what_no_word_finds_is_found_by_meaning(query: str, name: str) -> None:
    async with hub(registry=shop()) as it, Gateway(it) as gateway:
        found = await Caller(gateway).call("search_tools", query=query)
        assert found["structuredContent"]["method"] == "hybrid"
        assert found["structuredContent"]["tools"][0]["name"] == name
        assert "hybrid" not in text_of(found)


@pytest.mark.covers("R-REG-25")
@MEANT
async def test_bm25_as_the_default_falls_back_to_hybrid_and_the_answer_says_so(
    query: str, name: str
) -> None:
    options = GatewayOptions(search_method="bm25")
    async with hub(registry=shop()) as it, Gateway(it, options) as gateway:
        caller = Caller(gateway)
        found = await caller.call("search_tools", query=query)
        assert found["structuredContent"]["method"] == "hybrid"
        assert found["structuredContent"]["tools"][0]["name"] == name
        assert "hybrid" in text_of(found).splitlines()[-1]
        for named in ("method", "search_method"):
            found = await caller.call("search_tools", query=query, **{named: "bm25"})
            assert found["structuredContent"]["tools"] == []
            assert found["structuredContent"]["method"] == "bm25"


@pytest.mark.covers("R-REG-25")
async def test_bm25_as_the_default_is_listed_and_keeps_what_its_words_find() -> None:
    options = load_gateway_settings({}, environ={"PEGBOARD_SEARCH_METHOD": "bm25"}).options
    async with hub(registry=shop()) as it, Gateway(it, options) as gateway:
        caller = Caller(gateway)
        listed = (await caller.send("tools/list"))["tools"]
        [tool] = [tool for tool in listed if tool["name"] == "search_tools"]
        assert tool["inputSchema"]["properties"]["search_method"]["default"] == "bm25"
        assert "bm25 finds nothing, hybrid is tried" in tool["description"]
        found = await caller.call("search_tools", query="cancel order")
        assert found["structuredContent"]["method"] == "bm25"
        assert "hybrid" not in text_of(found)


async def test_a_default_method_that_is_not_there_keeps_the_gateway_from_opening() -> None:
    async with hub(registry=shop()) as it:
        with pytest.raises(ConfigError, match=r"`search_method`.* hybrid.*'bm52'"):
            async with Gateway(it, GatewayOptions(search_method="bm52")):
                pass
        it.registry.add_searcher("bm52", Regex)
        async with Gateway(it, GatewayOptions(search_method="bm52")) as gateway:
            found = await Caller(gateway).call("search_tools", query="cancel")
            assert found["structuredContent"]["method"] == "bm52"


def keep_tools_with_usage(path: Path) -> None:
    with Registry(storage=path) as registry:
        registry.register_many(real_tools(), on_conflict="rename", on_error="report")
        used = [tool.name for tool in registry.tools()][::7]
        assert registry.storage is not None
        registry.storage.add_usage({name: Use(50, datetime.now(UTC)) for name in used})


@pytest.mark.covers("R-REG-25")
@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_caller_that_sees_everything_finds_what_the_registry_finds(
    is_stored: bool, tmp_path: Path
) -> None:
    storage = tmp_path / "tools.db" if is_stored else None
    if storage is not None:
        await run_sync(keep_tools_with_usage, storage)
    async with hub(storage=storage) as it, Gateway(it) as gateway:
        if storage is None:
            it.registry.register_many(real_tools(), on_conflict="rename", on_error="report")
        caller, boosted = Caller(gateway), 0
        for query in QUERIES:
            found = await caller.call("search_tools", query=query, limit=10)
            names = [tool["name"] for tool in found["structuredContent"]["tools"]]
            assert names == [hit.tool.name for hit in (await it.search(query, limit=10)).hits]
            assert names
            plain = await it.search(query, limit=10, usage=False)
            boosted += names != [hit.tool.name for hit in plain.hits]
        assert (boosted > 0) == is_stored


@pytest.mark.covers("R-REG-39")
async def test_what_a_caller_may_not_know_is_neither_found_nor_hinted_at() -> None:
    registry = Registry()
    registry.register(Tool(name="open_vault", description="Opens the vault.", category="secret"))
    registry.register(Tool(name="open_door", description="Opens the door.", category="house"))
    reader = Principal(subject="s", scopes=frozenset({"read"}), tools=("*_door",))
    async with hub(registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway, principal=reader)
        for query in ("open vault", "open_vault", "secret", "zzzz"):
            for method in ("bm25", "hybrid", "regex"):
                found = await caller.call("search_tools", query=query, search_method=method)
                assert "vault" not in text_of(found)
                assert "secret" not in text_of(found)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": "x" * 1001},
        {"query": "x" * 1_000_000},
        {"query": 5},
        {"query": None},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 101},
        {"query": "x", "limit": "5"},
        {"query": "x", "search_method": "magic"},
        {"query": "x", "method": "'; DROP TABLE tools"},
        {"query": "x", "surprise": 1},
        {"query": "(a+)+$\\1", "search_method": "regex"},
        {"query": "   "},
    ],
)
@pytest.mark.covers("R-REG-35", "R-REG-36")
async def test_bad_arguments_are_told_what_is_wrong(arguments: dict[str, Any]) -> None:
    async with hub(registry=board("echo")) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("search_tools", **arguments)
        assert result["isError"]
        assert text_of(result)


async def test_two_methods_at_once_are_refused_unless_they_are_the_same() -> None:
    async with hub(registry=board("echo")) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        for other in ("bm25", "hybrid"):
            refused = await caller.call(
                "search_tools", query="echo", method="regex", search_method=other
            )
            assert refused["isError"]
            assert f"`method`: is 'regex', but `search_method` {other!r}; give one" in text_of(
                refused
            )
        found = await caller.call(
            "search_tools", query="echo", method="regex", search_method="regex"
        )
        assert found["structuredContent"]["method"] == "regex"


async def test_a_pattern_that_is_none_is_looked_for_as_text_and_the_answer_says_so() -> None:
    async with hub(registry=board("echo")) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        for query, is_told in (("echo (", True), ("zebra (", True), ("echo", False)):
            found = await caller.call("search_tools", query=query, method="regex")
            assert ("not a valid regular expression" in text_of(found).splitlines()[-1]) is is_told
        found = await caller.call("search_tools", query="echo (")
        assert "regular expression" not in text_of(found)


async def test_what_is_only_a_definition_is_marked() -> None:
    registry = board("paint_wall")

    @registry.register
    async def paint_door() -> None:  # pyright: ignore[reportUnusedFunction]
        """Paint a door."""

    async with hub(registry=registry) as it, Gateway(it) as gateway:
        found = await Caller(gateway).call("search_tools", query="paint")
        marked = {
            line.split("(")[0]: " [definition only] [" in line
            for line in text_of(found).splitlines()
        }
        assert marked == {"paint_wall": True, "paint_door": False}
        data = found["structuredContent"]["tools"]
        assert {it["name"]: it.get("definition_only", False) for it in data} == marked


async def test_an_expression_that_would_explode_is_answered_at_once() -> None:
    async with hub(registry=board("a" * 200)) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("search_tools", query="(a+)+$b", search_method="regex")
        assert "content" in result


async def test_use_brings_a_tool_forward(tmp_path: Path) -> None:
    def number(which: int) -> Any:
        async def convert_units() -> int:
            """Convert units."""
            return which

        convert_units.__name__ = f"convert_units_{which}"
        return convert_units

    for is_used in (False, True):
        async with hub(storage=tmp_path / "tools.json") as it, Gateway(it) as gateway:
            it.registry.register_many([number(which) for which in range(3)])
            caller = Caller(gateway)
            found = await caller.call("search_tools", query="convert units")
            best = found["structuredContent"]["tools"][0]["name"]
            assert (best == "convert_units_2") == is_used
            for _ in range(30):
                await caller.call("call_tool", name="convert_units_2")


async def test_methods_that_a_program_adds_are_offered_always_in_one_order() -> None:
    for added in (("zeta", "alpha"), ("alpha", "zeta")):
        registry = board("read_file")
        for method in added:
            registry.add_searcher(method, Regex)
        async with hub(registry=registry) as it, Gateway(it) as gateway:
            caller = Caller(gateway)
            [tool] = [
                tool
                for tool in (await caller.send("tools/list"))["tools"]
                if tool["name"] == "search_tools"
            ]
            properties = tool["inputSchema"]["properties"]
            for name in ("search_method", "method"):
                known = ["bm25", "hybrid", "embedding", "regex", "alpha", "zeta"]
                assert properties[name]["enum"] == known
            found = await caller.call("search_tools", query="read", search_method="zeta")
            assert found["structuredContent"]["tools"][0]["name"] == "read_file"


async def test_what_changes_is_found_at_once_and_shown_as_it_is_now() -> None:
    registry = board("read_file")
    async with hub(registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        for number in range(3):
            words = f"Reads the file number {number}."
            registry.register(Tool(name="read_file", description=words), on_conflict="override")
            for _ in range(2):
                found = await caller.call("search_tools", query="read file")
                assert words in text_of(found)
        nothing = await caller.call("search_tools", query="xyzzy")
        assert nothing["structuredContent"]["hints"] == ["category: other"]
        registry.register(Tool(name="cook", description="Cooks.", category="kitchen"))
        nothing = await caller.call("search_tools", query="xyzzy")
        assert nothing["structuredContent"]["hints"] == ["category: kitchen", "category: other"]
