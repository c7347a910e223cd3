"""Tools that only apps call: programs call them, and no model is offered them."""

from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from pegboard import Hub, Registry
from pegboard.model import Tool
from pegboard.storage import open_store
from pegboard.upstream.catalog.offline_catalog import read_cached_tools
from tests.gateway.app_servers import AppServer, tool
from tests.upstream.board_servers import hub_of


@pytest.mark.parametrize("method", ["bm25", "hybrid", "embedding", "regex"])
def test_a_search_of_the_library_does_not_find_them(method: str) -> None:
    registry = Registry()
    names = {"paint_wall": False, "paint_door": True}
    for name, app_only in names.items():
        registry.register(Tool(name=name, description="To paint.", app_only=app_only))
    for text in ("paint", "paint_door"):
        found = registry.search(text, method=method)
        assert {hit.tool.name for hit in found.hits} <= {"paint_wall"}
    assert "paint_door" in registry


async def test_a_program_calls_them_and_no_toolset_has_them() -> None:
    server = AppServer()
    async with hub_of(server.config("disk")) as hub:
        assert (await hub.call("mcp_disk_tick")).text() == "clock tick"
        assert hub.registry.get("mcp_disk_tick").app_only
        assert not hub.registry.get("mcp_disk_show").app_only
        names = set(hub.toolset().names)
        assert "mcp_disk_tick" not in names
        assert "mcp_disk_show" in names


async def test_a_search_follows_what_a_server_says_later() -> None:
    server = AppServer()
    async with hub_of(server.config("disk")) as hub:

        async def found() -> bool:
            hits = (await hub.search("clock of tick", limit=50)).hits
            return "mcp_disk_tick" in [hit.tool.name for hit in hits]

        hidden, shown = tool("tick", visibility=["app"]), tool("tick", visibility=["app", "model"])
        for definition, is_found in ((hidden, False), (shown, True), (hidden, False)):
            server.listed[1] = definition
            await hub.server("disk").refresh()
            assert await found() == is_found


async def test_the_cache_knows_them_before_the_server_is_up(tmp_path: Path) -> None:
    server, url = AppServer(), f"sqlite:///{tmp_path}/store.db"
    config = server.config("disk")
    for entry in (config, server.config("disk", lazy=True)):
        async with Hub([entry], storage=url) as hub:
            assert hub.registry.get("mcp_disk_tick").app_only
            assert hub.servers["disk"].starts == (0 if entry.lazy else 1)

    def cached() -> list[str]:
        with open_store(url) as store:
            tools = read_cached_tools([config], store).tools
        return [name for name, it in tools.items() if it.tool.app_only]

    assert await run_sync(cached) == ["mcp_disk_tick"]
