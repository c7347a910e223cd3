"""What is remembered, read without a hub, is what a hub shows."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
import pytest

from pegboard import Hub, Registry, ServerConfig, Tool, open_store
from pegboard.model.tool import definition_of
from pegboard.upstream.catalog.cache import CachedCatalog, StoreCatalogCache
from pegboard.upstream.catalog.offline_catalog import (
    SERVERS,
    CachedTools,
    catalog_key,
    read_cached_tools,
)
from pegboard.upstream.connection import Negotiated

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def config(name: str, **fields: Any) -> ServerConfig:
    fields = {"command": sys.executable, "lazy": True, **fields}
    return ServerConfig(name=name, transport="stdio", **fields)


def remember(place: Path, *known: tuple[ServerConfig, CachedCatalog]) -> None:
    with open_store(place) as store:
        memory = StoreCatalogCache(lambda: store)
        for server, remembered in known:
            memory.save(catalog_key(server), remembered)


def recalled(place: Path, configs: list[ServerConfig]) -> CachedTools:
    with open_store(place) as store:
        return read_cached_tools(configs, store)


def offered(*tools: dict[str, Any], **names: tuple[str, str]) -> CachedCatalog:
    said = msgspec.convert({"era": "legacy", "version": "2025-06-18"}, Negotiated)
    return CachedCatalog(negotiated=said, tools=tools, names=names)


async def test_names_and_definitions_are_those_of_a_hub(tmp_path: Path) -> None:
    plain = {"name": "get", "description": "Get it.", "inputSchema": SCHEMA}
    hinted = {"name": "put it!", "title": "Put", "annotations": {"readOnlyHint": False}}
    odd = {"name": "odd", "annotations": "nonsense", "outputSchema": SCHEMA}
    broken: list[dict[str, Any]] = [{"name": 5}, {"name": "bad", "description": 7}, plain]
    known = [
        (config("a-b"), offered(plain, hinted, odd, *broken)),
        (config("a_b", tags=("x",)), offered(plain, hinted)),
        (config("own", prefix="", category="c", deny=("odd",)), offered(plain, odd)),
        (config("moved"), offered(plain, get=("mcp_moved_get", "mcp_moved_get_1"))),
        (config("other"), offered(plain, get=("elsewhere", "mcp_other_get_1"))),
        (config("off", enabled=False), offered(plain)),
    ]
    place = tmp_path / "store.db"
    await anyio.to_thread.run_sync(partial(remember, place, *known))
    configs = [it for it, _ in known]
    async with Hub(configs, storage=place, registry=Registry()) as hub:
        shown = {tool.name: tool for tool in hub.registry.tools()}
        origins = {name: hub.origin(name) for name in shown}
        raw = {name: hub.server(server).definition(it) for name, (server, it) in origins.items()}
    found = await anyio.to_thread.run_sync(recalled, place, configs)
    assert len(shown) == 8
    assert {name: it.tool for name, it in found.tools.items()} == shown
    assert {name: (it.tool.server, it.original) for name, it in found.tools.items()} == origins
    assert {name: definition_of(it.tool, it.raw) for name, it in found.tools.items()} == {
        name: definition_of(tool, raw[name]) for name, tool in shown.items()
    }
    assert found.unknown == ()


def test_a_server_that_changed_is_not_known_any_more(tmp_path: Path) -> None:
    place = tmp_path / "store.json"
    before, new = config("a"), config("b")
    remember(place, (before, offered({"name": "get"})))
    after = msgspec.structs.replace(before, args=("more",))
    assert recalled(place, [before, new]).unknown == (new,)
    assert recalled(place, [after]).unknown == (after,)
    assert recalled(place, [msgspec.structs.replace(before, tags=("t",))]).unknown == ()


def test_a_recalled_tool_is_a_tool(tmp_path: Path) -> None:
    server, place = config("a"), tmp_path / "store.json"
    remember(place, (server, offered({"name": "get", "inputSchema": SCHEMA})))
    [found] = recalled(place, [server]).tools.values()
    assert found.tool == Tool(name="mcp_a_get", input_schema=SCHEMA, server="a")


@pytest.mark.parametrize("value", [5, {}, {"tools": 3}, {"tools": [[]], "names": [1]}])
def test_what_cannot_be_understood_has_no_tools(tmp_path: Path, value: Any) -> None:
    server = config("a")
    with open_store(tmp_path / "store.json") as store:
        store.namespace(SERVERS).put(catalog_key(server), value)
        assert dict(read_cached_tools([server], store).tools) == {}
