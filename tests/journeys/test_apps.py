"""MCP Apps on every wire and surface, in both eras of clients and servers."""

from typing import Any

import anyio
import pytest

from pegboard.gateway import Gateway
from tests.gateway.app_servers import SHOWS, AppServer
from tests.gateway.servers import hub
from tests.journeys.test_extensions import SURFACES, WIRES, peer_of

URI = "ui://disk/clock/app.html"


@pytest.mark.parametrize("server_era", ["legacy", "auto"])
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_host_finds_the_page_reads_it_and_calls_for_its_app(
    wire: str, surface: str, server_era: Any
) -> None:
    server = AppServer()
    async with (
        hub(server.config("disk", protocol=server_era), relays_apps=True) as it,
        Gateway(it) as gateway,
        peer_of(gateway, wire, surface) as peer,
    ):
        with anyio.fail_after(20):
            listed = (await peer.ask("tools/list", SHOWS))["result"]["tools"]
            tools = {tool["name"]: tool for tool in listed}
            if surface == "full":
                assert tools["mcp_disk_tick"]["_meta"]["ui"]["visibility"] == ["app"]
                shown = tools["mcp_disk_show"]
            else:
                assert "mcp_disk_tick" not in tools
                call = {"name": "call_tool", "arguments": {"name": "mcp_disk_show"}}
                shown = (await peer.ask("tools/call", SHOWS, **call))["result"]
            assert shown["_meta"]["ui"]["resourceUri"] == URI
            read = (await peer.ask("resources/read", SHOWS, uri=URI))["result"]
            assert read["contents"][0]["text"] == "<!doctype html> of clock"
            assert read["contents"][0]["uri"] == URI
            ticked = await peer.ask("tools/call", SHOWS, name="tick", arguments={})
            assert ticked["result"]["content"][0]["text"] == "clock tick"
