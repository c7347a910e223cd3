"""Searches through a hub find what searches of its registry find."""

import inspect

import anyio
import pytest

from pegboard import Hub, Registry
from pegboard.errors import InvalidQueryError
from pegboard.hub import SyncHub
from pegboard.model import Tool
from pegboard.upstream import NoCatalogCache


def board() -> Registry:
    registry = Registry()
    for name in ("paint_wall", "paint_door", "fell_tree"):
        words = name.replace("_", " ")
        registry.register(Tool(name=name, description=f"To {words}.", category=words[:5]))
    return registry


@pytest.mark.parametrize("method", ["search", "search_many"])
def test_hubs_and_registries_search_with_the_same_parameters(method: str) -> None:
    wanted = inspect.signature(getattr(Registry, method))
    for kind in (Hub, SyncHub):
        assert inspect.signature(getattr(kind, method)).parameters == wanted.parameters
        assert inspect.signature(getattr(kind, method)) == wanted


@pytest.mark.parametrize("method", ["bm25", "hybrid", "embedding", "regex"])
async def test_a_hub_finds_what_its_registry_finds_with_and_without_an_index(method: str) -> None:
    registry = board()
    async with Hub.open([], registry=registry, catalog_cache=NoCatalogCache()) as hub:
        for _ in range(2):
            for text in ("paint", "paint" * 100):
                found = await hub.search(
                    text, method=method, limit=1, where=lambda tool: tool.name != "paint_wall"
                )
                same = registry.search(
                    text, method=method, limit=1, where=lambda tool: tool.name != "paint_wall"
                )
                assert found.hits == same.hits
        many = await hub.search_many(["paint", "fell"], where=lambda it: it.category == "fell ")
        assert [[hit.tool.name for hit in it.hits] for it in many] == [[], ["fell_tree"]]
        with pytest.raises(InvalidQueryError):
            await hub.search(" ", method=method)


def test_a_hub_searches_on_any_event_loop() -> None:
    hub = Hub.open([], registry=board(), catalog_cache=NoCatalogCache())

    async def search() -> list[str]:
        return [hit.tool.name for hit in (await hub.search("fell a tree", method="regex")).hits]

    assert anyio.run(search) == anyio.run(search)


def test_a_program_without_an_event_loop_filters_too() -> None:
    with Hub.open_sync([], registry=board(), catalog_cache=NoCatalogCache()) as hub:
        found = hub.search("paint", where=lambda tool: tool.name == "paint_door")
        assert [hit.tool.name for hit in found.hits] == ["paint_door"]
        assert hub.search_many(["paint"], where=lambda _: False)[0].hits == ()
