"""What is on the board of what servers list: each tool once, by whom the configuration says."""

from typing import Any

import pytest

from pegboard import Hub, Registry, ServerConfig, ToolCall
from pegboard.model import Step, Tool
from pegboard.model.tool_names import NameTable
from pegboard.upstream import NoCatalogCache
from pegboard.upstream.catalog.feed import CatalogFeed
from tests.upstream.board_servers import OPEN, Bench, memory

TWIN = {"name": "twin", "inputSchema": OPEN}


def step_of(original: str, _: Tool) -> Step:
    async def run(_: ToolCall) -> str:
        return original

    return run


def feed_of(registry: Registry) -> CatalogFeed:
    return CatalogFeed(
        ServerConfig(name="raw", transport="stdio", command="raw"),
        registry=registry,
        names=NameTable(taken=registry.runs),
        steps=step_of,
        policies={},
        on_conflict="rename",
    )


@pytest.mark.parametrize(
    "broken",
    [{"description": 5}, {"inputSchema": {"type": "nonsense"}}],
    ids=["unreadable", "invalid"],
)
def test_a_tool_listed_twice_whose_first_definition_is_broken_is_not_on_the_board(
    broken: dict[str, Any],
) -> None:
    registry = Registry()
    feed = feed_of(registry)
    for _ in range(3):
        feed.apply([{**TWIN, **broken}, TWIN, {"name": "good", "inputSchema": OPEN}])
        assert list(registry) == ["mcp_raw_good"]
        assert set(feed.left_out) == {"twin", "twin (again)"}
    feed.retire()
    assert list(registry) == []


def test_a_tool_that_is_called_as_another_is_reported_leaves_with_its_server() -> None:
    registry = Registry()
    feed = feed_of(registry)
    for _ in range(3):
        feed.apply([{"name": "twin (again)", "inputSchema": OPEN}, TWIN, TWIN])
        assert (len(registry), feed.on_board()) == (2, 2)
    feed.retire()
    assert list(registry) == []


def test_of_a_tool_listed_twice_the_first_definition_is_the_one_that_is_shown() -> None:
    feed = feed_of(Registry())
    feed.apply([{**TWIN, "title": "First"}, {**TWIN, "title": "Second"}])
    definition = feed.definition("twin")
    assert definition is not None
    assert definition["title"] == "First"


def marked(mark: object, kind: object = "string") -> dict[str, Any]:
    return {"type": "object", "properties": {"place": {"type": kind, "x-mcp-header": mark}}}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (marked("not one word"), "`x-mcp-header` of 'place' is not the name of a header"),
        (marked(5), "`x-mcp-header` of 'place' is not the name of a header"),
        (
            marked("Place", ["string", "null"]),
            "`x-mcp-header` of 'place' needs the type string, integer or boolean",
        ),
        ({"type": "object", "x-mcp-header": "Place"}, "`x-mcp-header` stands where no argument is"),
        (
            {"type": "object", "properties": {"a": marked("P"), "b": marked("p")}},
            "`x-mcp-header` 'P' is there twice",
        ),
    ],
)
async def test_a_tool_that_marks_arguments_for_headers_in_a_wrong_way_is_left_out(
    schema: dict[str, Any], problem: str
) -> None:
    """The modern era demands it; in the era before, the marks mean nothing."""
    for era, left_out in (("modern", {"wrong": problem}), ("legacy", {})):
        bench = Bench(wrong=lambda _: "", right=lambda _: "")
        bench.schemas = {"wrong": schema, "right": marked("Place")}
        config = memory("raw", bench, protocol="legacy" if era == "legacy" else "auto")
        async with Hub([config], catalog_cache=NoCatalogCache()) as hub:
            assert hub.servers["raw"].era == era
            assert hub.servers["raw"].left_out == left_out
            assert ("mcp_raw_wrong" in hub.registry) == (era == "legacy")
            assert "mcp_raw_right" in hub.registry


async def test_an_overridden_tool_is_back_when_the_one_that_took_its_name_has_left() -> None:
    servers = [memory(name, Bench(c=lambda _, name=name: name)) for name in ("a-b", "a_b")]
    async with Hub(servers, catalog_cache=NoCatalogCache(), on_conflict="override") as hub:
        assert (await hub.call("mcp_a_b_c")).text() == "a_b"
        winner = servers.pop()
        await hub.reload()
        assert (await hub.call("mcp_a_b_c")).text() == "a-b"
        assert hub.servers["a-b"].left_out == {}
        servers.append(winner)
        await hub.reload()
        assert (await hub.call("mcp_a_b_c")).text() == "a_b"


async def test_however_often_the_loser_of_a_name_is_listed_the_winner_keeps_it() -> None:
    servers = [memory(name, Bench(c=lambda _, name=name: name)) for name in ("a-b", "a_b")]
    async with Hub(servers, catalog_cache=NoCatalogCache(), on_conflict="override") as hub:
        for name in ("a-b", "a-b", "a_b", "a-b"):
            await hub.server(name).refresh()
            assert (await hub.call("mcp_a_b_c")).text() == "a_b"
        servers.pop()
        await hub.reload()
        assert (await hub.call("mcp_a_b_c")).text() == "a-b"
