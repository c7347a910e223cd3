"""A hub for programs without an event loop."""

from typing import Any

import pytest

from pegboard import ConfigError, Hub, ServerNotFoundError, ServerState, WouldDeadlockError
from pegboard.upstream import NoCatalogCache
from tests.upstream.board_servers import Bench, hub_of, memory


def say(arguments: dict[str, Any]) -> str:
    return "said"


def test_one_server_can_be_started_stopped_refreshed_and_asked() -> None:
    bench = Bench(say=say)
    with Hub.open_sync([memory("calc", bench)], catalog_cache=NoCatalogCache()) as hub:
        server = hub.server("calc")
        assert (server.config.name, server.status.state) == ("calc", ServerState.READY)
        assert [tool["name"] for tool in server.list_all("tools/list")] == ["say"]
        params = {"name": "say", "arguments": {}}
        raw = server.request("tools/call", params)
        assert raw["content"][0]["text"] == "said"
        assert hub.request("calc", "tools/call", params)["content"] == raw["content"]
        bench.tools["more"] = say
        server.refresh()
        assert "mcp_calc_more" in hub.registry
        server.stop()
        assert server.status.state == ServerState.CLOSED
        server.start()
        assert server.status.starts == 2
        with pytest.raises(ConfigError, match="does not use HTTP"):
            server.set_headers({"X-A": "b"})
        with pytest.raises(ServerNotFoundError):
            hub.server("clac")


def test_a_toolset_calls_its_tools_without_a_loop() -> None:
    with Hub.open_sync([memory("calc", Bench(say=say))], catalog_cache=NoCatalogCache()) as hub:
        tools = hub.toolset(servers=["calc"])
        assert tools.call_sync("mcp_calc_say").text() == "said"
        assert tools.sync_functions()[0]() == "said"


async def test_waiting_on_the_loop_that_has_to_work_is_refused_in_words_that_help() -> None:
    async with hub_of(memory("calc", Bench(say=say))) as hub:
        tools = hub.toolset()
        with pytest.raises(WouldDeadlockError, match=r"`functions\(\)`.*`Hub.open_sync`") as caught:
            tools.sync_functions()[0]()
        assert caught.value.tool == "mcp_calc_say"
        with pytest.raises(WouldDeadlockError, match=r"`await tools.call\(...\)`"):
            tools.call_sync("mcp_calc_say")
