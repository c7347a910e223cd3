"""Why a tool is not there: filtered, its server down, no server at all, the hub closed."""

from collections.abc import Callable
from typing import Any

import pytest

from pegboard import (
    Hub,
    NotConnectedError,
    ServerAuthenticationError,
    ServerConfig,
    ServerUnavailableError,
    ToolNotFoundError,
)
from pegboard.upstream import FileCatalogCache, NoCatalogCache
from tests.upstream.board_servers import Bench, hub_of, memory
from tests.upstream.http_servers import serving


def say(arguments: dict[str, Any]) -> str:
    return "said"


GONE = ServerConfig(name="gone", transport="stdio", command="no-such-command-anywhere")


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def locked(origin: str, **fields: Any) -> ServerConfig:
    return ServerConfig(name="locked", transport="streamable_http", url=f"{origin}/mcp", **fields)


@pytest.mark.parametrize("lazy", [True, False])
async def test_a_call_to_a_server_that_wants_other_credentials_says_so(lazy: bool) -> None:
    async with serving(refuse) as origin, hub_of(locked(origin, lazy=lazy)) as hub:
        for _ in range(7):
            with pytest.raises(ServerAuthenticationError) as caught:
                await hub.call("mcp_locked_go")
            assert (caught.value.server, caught.value.tool) == ("locked", "mcp_locked_go")
            assert "hub.server('locked').start()" in str(caught.value)


async def test_a_remembered_tool_of_such_a_server_says_so_however_often(tmp_path: Any) -> None:
    app: Any = Bench(go=say).server.streamable_http_app()
    is_shut = False

    async def door(scope: Any, receive: Any, send: Any) -> None:
        shut = is_shut and scope["type"] == "http"
        await (refuse if shut else app)(scope, receive, send)

    async with serving(door) as origin:
        async with hub_of(
            locked(origin, lazy=True), catalog_cache=FileCatalogCache(tmp_path)
        ) as hub:
            await hub.call("mcp_locked_go")
        is_shut = True
        async with hub_of(
            locked(origin, lazy=True), catalog_cache=FileCatalogCache(tmp_path)
        ) as hub:
            # More often than any server is tried before it is left alone.
            for _ in range(7):
                with pytest.raises(ServerAuthenticationError):
                    await hub.call("mcp_locked_go")


async def test_a_tool_of_a_server_that_is_down_names_the_server() -> None:
    async with hub_of(GONE, memory("fine", Bench(say=say))) as hub:
        with pytest.raises(ServerUnavailableError, match="no-such-command") as caught:
            await hub.call("mcp_gone_anything")
        assert not isinstance(caught.value, ServerAuthenticationError)
        with pytest.raises(ToolNotFoundError):
            await hub.call("mcp_fine_anything")


def capitalised(server: str, tool: str) -> str:
    return tool[0].upper() + tool[1:]


@pytest.mark.parametrize("naming", ["plain", "mcp_{tool}", "{tool}_{server}", capitalised])
async def test_a_wrong_name_is_not_blamed_on_a_server_that_has_nothing_to_do_with_it(
    naming: str | Callable[[str, str], str],
) -> None:
    async with hub_of(GONE, memory("fine", Bench(say=say)), naming=naming) as hub:
        for wrong in ("sya", "mcp_sya", "x"):
            with pytest.raises(ToolNotFoundError):
                await hub.call(wrong)


async def test_the_longest_prefix_tells_whose_tool_it_would_be() -> None:
    up = memory("gone-too", Bench(say=say))
    async with hub_of(GONE, up) as hub:
        with pytest.raises(ToolNotFoundError):
            await hub.call("mcp_gone_too_other")
        with pytest.raises(ServerUnavailableError):
            await hub.call("mcp_gone_to_other")


async def test_a_tool_that_is_filtered_away_says_so() -> None:
    bench = Bench(read=say, write=say, wipe=say)
    async with hub_of(memory("calc", bench, allow=("read", "write"), deny=("write",))) as hub:
        for name in ("mcp_calc_write", "mcp_calc_wipe"):
            with pytest.raises(ToolNotFoundError, match="`allow` and `deny` of server 'calc'"):
                await hub.call(name)
            with pytest.raises(ToolNotFoundError, match="`allow` and `deny`"):
                await hub.toolset().call(name)
        with pytest.raises(ToolNotFoundError) as caught:
            await hub.call("mcp_calc_raed")
        assert caught.value.nearest == ("mcp_calc_read",)


async def test_a_tool_that_a_naming_function_fails_for_is_left_out_and_told() -> None:
    known = {"read": "look"}
    config = memory("calc", Bench(read=say, write=say, wipe=say), deny=("wipe",))
    async with hub_of(config, naming=lambda _, tool: known[tool]) as hub:
        assert set(hub.registry) == {"look"}
        [(tool, reason)] = hub.servers["calc"].left_out.items()
        assert tool == "write"
        assert "KeyError: 'write'" in reason
        with pytest.raises(ToolNotFoundError):
            await hub.call("nope")


async def test_a_hub_without_servers_says_so() -> None:
    async with Hub.open({}, catalog_cache=NoCatalogCache()) as hub:
        with pytest.raises(ToolNotFoundError, match="This hub has no servers"):
            await hub.call("mcp_calc_say")


async def test_what_is_kept_of_a_closed_hub_says_that_it_is_closed() -> None:
    async with hub_of(memory("calc", Bench(say=say))) as hub:
        tools = hub.toolset().select(include=["*"])
        (function,) = tools.functions()
        (blocking,) = tools.sync_functions()
    with pytest.raises(NotConnectedError, match="hub is not open"):
        await function()
    with pytest.raises(NotConnectedError, match="hub is not open"):
        await tools.call("mcp_calc_say")
    with pytest.raises(NotConnectedError, match="hub is not open"):
        blocking()
    with pytest.raises(NotConnectedError, match="hub is not open"):
        tools.call_sync("mcp_calc_say")
