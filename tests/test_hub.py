import asyncio  # noqa: TID251 - one event loop after another is the matter
import json
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import Server

from pegboard import (
    Access,
    AccessDeniedError,
    CircuitOpenError,
    ConfigError,
    ConnectionLostError,
    Hub,
    InvalidArgumentsError,
    NotConnectedError,
    ProtocolError,
    Registry,
    ServerConfig,
    ServerNotFoundError,
    ServerState,
    ServerUnavailableError,
    ToolConflictError,
    ToolNotFoundError,
    ToolTimeoutError,
    WouldDeadlockError,
)
from pegboard.model import CatalogChange
from pegboard.upstream import FileCatalogCache, NoCatalogCache
from pegboard.upstream.catalog.feed import tool_of
from tests.upstream.board_servers import Bench, hub_of, limits, memory, script, until
from tests.upstream.http_servers import build_server, serving


def echo(arguments: dict[str, Any]) -> str:
    return str(arguments.get("text", "nothing"))


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_tools_of_a_server_are_called_as_if_they_were_local(protocol: str) -> None:
    bench = Bench(echo=echo)
    async with hub_of(memory("calc", bench, protocol=protocol)) as hub:
        result = await hub.call("mcp_calc_echo", {"text": "hi"})
        assert (result.text(), result.value(), result.is_error) == ("hi", "hi", False)
        status = hub.servers["calc"]
        assert (status.state, status.tool_count, status.last_error) == (ServerState.READY, 1, None)
        assert status.era == ("legacy" if protocol == "legacy" else "modern")
        assert status.startup_seconds is not None
        assert hub.origin("mcp_calc_echo") == ("calc", "echo")


async def test_a_hub_reads_its_file_and_reports_bad_entries(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entry = {"command": "no-such-command-anywhere"}
    file.write_text(json.dumps({"mcpServers": {"gone": entry, "bad": {}}}), "utf-8")
    async with Hub.open(file, catalog_cache=NoCatalogCache()) as hub:
        assert hub.loaded.path == file
        assert [problem.server for problem in hub.loaded.problems] == ["bad"]
        status = hub.servers["gone"]
        # The background may already be trying again.
        assert status.state in (ServerState.DOWN, ServerState.STARTING)
        assert "no-such-command-anywhere" in str(status.last_error)
    with pytest.raises(ConfigError) as caught:
        await Hub.open(file, strict=True).start()
    assert caught.value.line == 1


@pytest.mark.parametrize("failing", ["lists", "connects"])
@pytest.mark.covers("R-EXCEL-28")
async def test_a_failing_server_harms_no_other(failing: str) -> None:
    def refuse(_: dict[str, Any]) -> str:
        raise RuntimeError

    broken = Bench(bad=refuse)

    async def no_list(*_: object) -> types.ListToolsResult:
        raise RuntimeError("no list today")

    server: Any = broken.server
    if failing == "lists":
        server.add_request_handler("tools/list", types.PaginatedRequestParams, no_list)
        config = memory("broken", broken)
    else:
        config = ServerConfig(name="broken", transport="stdio", command="no-such-command")
    async with hub_of(config, memory("fine", Bench(echo=echo))) as hub:
        assert (await hub.call("mcp_fine_echo", {"text": "hi"})).text() == "hi"
        assert hub.servers["broken"].last_error
        assert hub.servers["broken"].tool_count == 0


async def test_all_pages_of_a_list_are_read() -> None:
    bench = Bench(page=3, **{f"tool{number}": echo for number in range(10)})
    async with hub_of(memory("many", bench)) as hub:
        assert hub.servers["many"].tool_count == 10
        assert bench.lists == 4


async def test_five_thousand_tools_over_many_pages() -> None:
    bench = Bench(page=100, **{f"tool{number}": echo for number in range(5000)})
    async with hub_of(memory("many", bench)) as hub:
        assert hub.servers["many"].tool_count == 5000
        assert (await hub.call("mcp_many_tool4999", {"text": "last"})).text() == "last"


async def test_a_bad_schema_disables_one_tool_with_a_reason() -> None:
    bench = Bench(good=echo, bad=echo)
    bench.schemas["bad"] = {"type": "object", "properties": {"a": {"type": "no such type"}}}
    async with hub_of(memory("mixed", bench)) as hub:
        assert set(hub.registry) == {"mcp_mixed_good"}
        assert set(hub.servers["mixed"].left_out) == {"bad"}


async def test_wrong_arguments_never_reach_the_server() -> None:
    bench = Bench(strict=echo)
    bench.schemas["strict"] = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    async with hub_of(memory("calc", bench)) as hub:
        with pytest.raises(InvalidArgumentsError):
            await hub.call("mcp_calc_strict", {})
        assert bench.calls == []


async def test_an_error_flag_is_never_lost() -> None:
    def fail(_: dict[str, Any]) -> Any:
        async def answer() -> types.CallToolResult:
            return types.CallToolResult(content=[types.TextContent(text="no")], is_error=True)

        return answer()

    async with hub_of(memory("calc", Bench(fail=fail))) as hub:
        result = await hub.call("mcp_calc_fail")
        assert (result.is_error, result.text()) == (True, "no")


async def test_a_slow_call_ends_at_its_limit_and_is_cancelled_upstream() -> None:
    def slow(_: dict[str, Any]) -> Any:
        return anyio.sleep_forever()

    bench = Bench(slow=slow, echo=echo)
    config = memory("calc", bench, timeouts=limits(call=1), protocol="legacy")
    async with hub_of(config) as hub:
        with pytest.raises(ToolTimeoutError, match=r"timeouts\.call") as caught:
            await hub.call("mcp_calc_slow")
        assert caught.value.sent
        with anyio.fail_after(5):
            await bench.cancelled.wait()
        assert (await hub.call("mcp_calc_echo", {"text": "still there"})).text() == "still there"


async def test_cancelling_a_caller_cancels_the_call_upstream() -> None:
    started = anyio.Event()

    def slow(_: dict[str, Any]) -> Any:
        started.set()
        return anyio.sleep_forever()

    bench = Bench(slow=slow)
    async with hub_of(memory("calc", bench, protocol="legacy")) as hub:
        async with anyio.create_task_group() as group:
            group.start_soon(hub.call, "mcp_calc_slow")
            await started.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await bench.cancelled.wait()


async def test_progress_reaches_the_caller() -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with hub_of(script("light")) as hub:
        await hub.call("mcp_light_progress", {"n": 2}, on_progress=note)
        await until(lambda: len(seen) == 2)
    assert seen == [(1, 2, None), (2, 2, None)]


async def test_a_changed_list_is_one_change_of_the_catalogue() -> None:
    bench = Bench(old=echo, kept=echo)
    changes: list[CatalogChange] = []
    changed = anyio.Event()
    async with hub_of(memory("calc", bench, protocol="legacy")) as hub:

        def note(change: CatalogChange) -> None:
            changes.append(change)
            changed.set()

        hub.registry.subscribe(note)
        del bench.tools["old"]
        bench.tools["new"] = echo
        assert bench.context is not None
        await bench.context.session.send_tool_list_changed()
        with anyio.fail_after(5):
            await changed.wait()
        (change,) = changes
        assert [tool.name for tool in change.added] == ["mcp_calc_new"]
        assert [tool.name for tool in change.removed] == ["mcp_calc_old"]
        assert change.changed == ()
        with pytest.raises(ToolNotFoundError):
            await hub.call("mcp_calc_old")


async def test_a_dead_server_is_noticed_and_the_next_call_starts_it_again() -> None:
    async with hub_of(script("light", lazy=True)) as hub:
        first = (await hub.call("mcp_light_pid")).text()
        with pytest.raises(ConnectionLostError) as caught:
            await hub.call("mcp_light_crash")
        assert caught.value.sent
        assert "may have run" in str(caught.value)
        assert hub.servers["light"].state == ServerState.DOWN
        second = (await hub.call("mcp_light_pid")).text()
        assert first != second
        assert hub.servers["light"].starts == 2


async def test_an_eager_server_is_started_again_by_itself() -> None:
    async with hub_of(script("light")) as hub:
        with pytest.raises(ConnectionLostError):
            await hub.call("mcp_light_crash")
        await until(lambda: hub.servers["light"].starts == 2, "a second start")


async def test_a_tool_that_may_be_repeated_is_repeated_after_the_server_died() -> None:
    config = script("light", lazy=True, idempotent=("crash",))
    async with hub_of(config) as hub:
        with pytest.raises(ConnectionLostError):
            await hub.call("mcp_light_crash")
        assert hub.servers["light"].starts == 2


async def test_a_server_that_keeps_failing_is_left_alone_but_stays_listed() -> None:
    async with hub_of(script("light", lazy=True)) as hub:
        for _ in range(5):
            with pytest.raises(ConnectionLostError):
                await hub.call("mcp_light_crash")
        with pytest.raises(CircuitOpenError) as caught:
            await hub.call("mcp_light_pid")
        assert caught.value.retry_in > 0
        assert hub.servers["light"].state == ServerState.TRIPPED
        assert "mcp_light_pid" in hub.registry


async def test_fifty_first_calls_start_a_lazy_server_once(tmp_path: Path) -> None:
    config = script("light", lazy=True)
    memory_ = FileCatalogCache(tmp_path)
    async with hub_of(config, catalog_cache=memory_):
        pass
    async with hub_of(config, catalog_cache=memory_) as hub:
        assert hub.servers["light"].state == ServerState.COLD
        assert hub.servers["light"].tool_count == 9
        pids: set[str] = set()

        async def call() -> None:
            pids.add((await hub.call("mcp_light_pid")).text())

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(call)
        assert len(pids) == 1
        assert hub.servers["light"].starts == 1


async def test_what_was_remembered_is_reconciled_when_the_server_is_up(tmp_path: Path) -> None:
    bench = Bench(old=echo)
    config = memory("calc", bench, lazy=True)
    async with hub_of(config, catalog_cache=FileCatalogCache(tmp_path)):
        pass
    bench.tools = {"new": echo}
    async with hub_of(config, catalog_cache=FileCatalogCache(tmp_path)) as hub:
        assert set(hub.registry) == {"mcp_calc_old"}
        await hub.server("calc").start()
        await until(lambda: set(hub.registry) == {"mcp_calc_new"})


async def test_an_idle_server_is_stopped_and_the_next_call_starts_it() -> None:
    config = script("light", lazy=True, timeouts=limits(idle=0.05))
    async with hub_of(config) as hub:
        await hub.call("mcp_light_pid")
        await until(lambda: hub.servers["light"].state == ServerState.COLD, "a cold server")
        assert (await hub.call("mcp_light_pid")).text()
        assert hub.servers["light"].starts >= 2


async def test_a_call_in_flight_keeps_a_server_from_being_idle() -> None:
    config = script("light", lazy=True, timeouts=limits(idle=0.05))
    async with hub_of(config) as hub:
        result = await hub.call("mcp_light_slow", {"seconds": 0.3})
        assert result.text() == "done"


async def test_a_closed_hub_says_so_and_can_be_started_again() -> None:
    hub = hub_of(memory("calc", Bench(echo=echo)))
    await hub.start()
    await hub.start()
    await hub.close()
    await hub.close()
    with pytest.raises(NotConnectedError):
        await hub.call("mcp_calc_echo")
    await hub.start()
    assert (await hub.call("mcp_calc_echo", {"text": "again"})).text() == "again"
    await hub.close()


async def test_a_hub_is_opened_in_one_task_and_closed_in_another() -> None:
    hub = hub_of(script("light"))
    async with anyio.create_task_group() as group:
        group.start_soon(hub.start)
    await until(lambda: hub.servers["light"].state == ServerState.READY)
    async with anyio.create_task_group() as group:
        group.start_soon(hub.close)
        group.start_soon(hub.close)
    assert hub.servers["light"].state == ServerState.CLOSED


async def test_closing_a_server_in_mid_call_ends_the_call() -> None:
    failures: list[Exception] = []
    async with hub_of(script("light", lazy=True)) as hub:

        async def call() -> None:
            try:
                await hub.call("mcp_light_slow", {"seconds": 30})
            except ConnectionLostError as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: hub.server("light").connection.in_flight == 1)
            await hub.server("light").stop()
    assert len(failures) == 1


async def test_names_that_collide_are_told_apart() -> None:
    configs = [
        memory("a-b", Bench(c=lambda _: "first")),
        memory("a", Bench(b_c=lambda _: "second")),
    ]
    async with hub_of(*configs) as hub:
        first, second = hub.registry
        answers = {(await hub.call(first)).text(), (await hub.call(second)).text()}
        assert answers == {"first", "second"}
        assert {hub.origin(first), hub.origin(second)} == {("a-b", "c"), ("a", "b_c")}


@pytest.mark.parametrize("on_conflict", ["skip", "override", "raise"])
async def test_conflicts_with_local_tools_are_settled_as_the_caller_says(on_conflict: Any) -> None:
    registry = Registry()

    def mcp_calc_echo() -> str:
        return "local"

    registry.register(mcp_calc_echo)
    hub = hub_of(memory("calc", Bench(echo=echo)), registry=registry, on_conflict=on_conflict)
    if on_conflict == "raise":
        with pytest.raises(ToolConflictError):
            await hub.start()
        return
    async with hub:
        result = await hub.call("mcp_calc_echo")
        assert result.text() == ("local" if on_conflict == "skip" else "nothing")


async def test_allow_deny_prefix_and_tags_shape_what_is_shown() -> None:
    bench = Bench(read_a=echo, read_b=echo, write=echo)
    config = memory(
        "files",
        bench,
        allow=("read_*",),
        deny=("*_b",),
        prefix="fs_",
        tags=("disk",),
        category="io",
    )
    async with hub_of(config) as hub:
        (tool,) = hub.registry.tools()
        assert (tool.name, tool.tags, tool.category) == ("fs_read_a", ("disk",), "io")
        assert (await hub.call("fs_read_a", {"text": "x"})).text() == "x"


async def test_a_toolset_chooses_tools_of_a_server() -> None:
    async with hub_of(memory("a", Bench(one=echo)), memory("b", Bench(two=echo))) as hub:
        tools = hub.toolset(servers=["b"])
        assert tools.names == ("mcp_b_two",)
        (function,) = tools.functions()
        assert await function() == "nothing"


async def test_a_toolset_takes_servers_that_can_be_looked_through_only_once() -> None:
    async with hub_of(memory("a", Bench(one=echo)), memory("b", Bench(two=echo))) as hub:
        assert hub.toolset(servers=(name for name in ["b"])).names == ("mcp_b_two",)


async def test_a_server_can_be_asked_for_more_than_tools() -> None:
    async with hub_of(memory("calc", Bench(echo=echo))) as hub:
        server = hub.server("calc")
        raw = await server.request("tools/call", {"name": "echo", "arguments": {}})
        assert raw["content"][0]["text"] == "nothing"
        assert [tool["name"] for tool in await server.list_all("tools/list")] == ["echo"]
        with pytest.raises(ProtocolError) as caught:
            await server.list_all("prompts/list")
        assert caught.value.rpc_code == -32601
        with pytest.raises(ServerNotFoundError):
            hub.server("unknown")


async def test_reloading_starts_new_servers_and_stops_missing_ones(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    light = script("light")
    entry = {"command": light.command, "args": list(light.args), "protocol": "legacy"}

    def write(*names: str) -> None:
        file.write_text(json.dumps({"mcpServers": dict.fromkeys(names, entry)}), "utf-8")

    write("a", "b")
    async with Hub.open(file, catalog_cache=NoCatalogCache()) as hub:
        kept = (await hub.call("mcp_b_pid")).text()
        write("b", "c")
        await hub.reload()
        assert list(hub.servers) == ["b", "c"]
        assert (await hub.call("mcp_b_pid")).text() == kept
        assert (await hub.call("mcp_c_echo", {"text": "new"})).text() == "new"
        with pytest.raises(ToolNotFoundError):
            await hub.call("mcp_a_pid")


async def test_a_blocking_call_on_the_loop_of_the_hub_is_refused_instead_of_waiting_for_ever() -> (
    None
):
    async with hub_of(memory("calc", Bench(echo=echo))) as hub:
        with pytest.raises(WouldDeadlockError):
            hub.registry.call("mcp_calc_echo")


async def test_a_blocking_call_from_another_thread_works() -> None:
    async with hub_of(memory("calc", Bench(echo=echo))) as hub:
        result = await anyio.to_thread.run_sync(
            lambda: hub.registry.call("mcp_calc_echo", {"text": "from a thread"})
        )
        assert result.text() == "from a thread"


def test_a_synchronous_program_does_the_same() -> None:
    with Hub.open_sync([script("light")], catalog_cache=NoCatalogCache()) as hub:
        assert hub.call("mcp_light_add", {"a": 1, "b": 2}).value() == {"total": 3}
        assert hub.servers["light"].state == ServerState.READY
        add = hub.toolset(include=["*_add"]).sync_functions()[0]
        assert add(a=2, b=3) == {"total": 5}
    assert hub.servers["light"].state == ServerState.CLOSED


async def test_secrets_show_up_nowhere() -> None:
    config = ServerConfig(
        name="secretive",
        transport="stdio",
        command=sys.executable,
        args=("-c", "import os, sys; sys.exit(os.environ['TOKEN'])"),
        env={"TOKEN": "hunter2-hunter2"},
    )
    async with hub_of(config) as hub:
        status = hub.servers["secretive"]
        assert "exited" in str(status.last_error)
        assert "hunter2" not in repr(status) + repr(hub) + repr(config)
        with pytest.raises(ServerUnavailableError) as caught:
            await hub.server("secretive").start()
        assert "hunter2" not in str(caught.value)


async def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Hub(colour="red")  # pyright: ignore[reportCallIssue]


def test_a_hub_whose_event_loop_is_gone_can_be_started_again() -> None:
    hub = hub_of(memory("calc", Bench(echo=echo)))
    asyncio.run(hub.start())

    async def again() -> str:
        async with hub:
            return (await hub.call("mcp_calc_echo", {"text": "again"})).text()

    assert asyncio.run(again()) == "again"


async def test_results_are_whole_and_cut_only_for_show() -> None:
    bench = Bench(long=lambda _: "x" * 30, short=lambda _: "x")
    registry = Registry()

    def local() -> str:
        return "y" * 30

    registry.register(local)
    config = memory("calc", bench, max_result_chars=10)
    async with hub_of(config, registry=registry) as hub:
        result = await hub.call("mcp_calc_long")
        assert result.text() == "x" * 30
        shown = hub.render("mcp_calc_long", result)
        assert shown == "x" * 10 + "… [truncated: 10 of 30 characters shown]"
        assert hub.render("mcp_calc_short", await hub.call("mcp_calc_short")) == "x"
        assert hub.render("local", await hub.call("local")) == "y" * 30


async def test_a_disabled_server_is_neither_started_nor_on_the_board(tmp_path: Path) -> None:
    bench = Bench(echo=echo)
    remembered = FileCatalogCache(tmp_path)
    async with hub_of(memory("calc", bench), catalog_cache=remembered):
        pass
    async with hub_of(memory("calc", bench, enabled=False), catalog_cache=remembered) as hub:
        assert hub.servers["calc"].state == ServerState.DISABLED
        assert len(hub.registry) == 0


async def test_an_empty_registry_keeps_its_policies() -> None:
    registry = Registry(access=Access(deny=["*_delete"]))
    async with hub_of(memory("calc", Bench(delete=echo)), registry=registry) as hub:
        assert hub.registry is registry
        with pytest.raises(AccessDeniedError):
            await hub.call("mcp_calc_delete")


async def test_whoever_starts_second_finds_everything_up() -> None:
    hub = hub_of(script("light"))

    async def start_and_call() -> None:
        await hub.start()
        assert (await hub.call("mcp_light_echo", {"text": "up"})).text() == "up"

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(start_and_call)
    assert hub.servers["light"].starts == 1
    await hub.close()


async def test_one_registry_serves_one_hub_after_another() -> None:
    registry = Registry()
    for _ in range(2):
        async with hub_of(memory("calc", Bench(echo=echo)), registry=registry) as hub:
            assert (await hub.call("mcp_calc_echo", {"text": "hi"})).text() == "hi"
        assert len(registry) == 0


async def test_two_hubs_on_one_registry_tell_their_tools_apart() -> None:
    registry = Registry()
    first = hub_of(memory("calc", Bench(echo=lambda _: "1")), registry=registry)
    second = hub_of(memory("calc", Bench(echo=lambda _: "2")), registry=registry)
    async with first, second:
        assert len(registry) == 2
        assert (await first.call("mcp_calc_echo")).text() == "1"


async def test_the_loser_of_a_name_leaves_the_winner_alone() -> None:
    bench = Bench(c=lambda _: "loser")
    winner = memory("a_b", Bench(c=lambda _: "winner"))
    async with hub_of(memory("a-b", bench), winner, on_conflict="override") as hub:
        assert (await hub.call("mcp_a_b_c")).text() == "winner"
        await hub.server("a-b").refresh()
        assert (await hub.call("mcp_a_b_c")).text() == "winner"
        assert [it.tool_count for it in hub.servers.values()] == [0, 1]


@pytest.mark.parametrize("slow", ["a-b", "a_b"])
async def test_the_order_of_the_configuration_decides_about_names_not_speed(slow: str) -> None:
    def server(name: str) -> ServerConfig:
        bench = Bench(c=lambda _: name)
        if name == slow:
            listing = bench.server._request_handlers["tools/list"].handler  # pyright: ignore[reportPrivateUsage]

            async def late(*args: Any) -> Any:
                await anyio.sleep(0.05)
                return await listing(*args)

            bench.server.add_request_handler("tools/list", types.PaginatedRequestParams, late)
        return memory(name, bench)

    async with hub_of(server("a-b"), server("a_b")) as hub:
        assert hub.origin("mcp_a_b_c") == ("a-b", "c")


async def test_a_prefix_is_the_name_it_asks_for_even_in_conflict() -> None:
    configs = [memory(name, Bench(c=echo), prefix="x.") for name in ("a", "b")]
    async with hub_of(*configs) as hub:
        assert all(name.startswith("x_c_") for name in hub.registry)
        assert len(hub.registry) == 2


async def test_a_name_that_becomes_free_goes_to_who_waited_for_it(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    light = script("light")
    entry = {"command": light.command, "args": list(light.args), "protocol": "legacy"}

    def write(*names: str) -> None:
        file.write_text(json.dumps({"mcpServers": dict.fromkeys(names, entry)}), "utf-8")

    write("a-b", "a_b")
    async with Hub.open(file, catalog_cache=NoCatalogCache(), on_conflict="skip") as hub:
        assert hub.origin("mcp_a_b_pid") == ("a-b", "pid")
        write("a_b")
        await hub.reload()
        assert hub.origin("mcp_a_b_pid") == ("a_b", "pid")


async def test_a_tool_that_is_listed_twice_is_there_once() -> None:
    async def on_list(*_: object) -> types.ListToolsResult:
        tool = types.Tool(name="twin", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[tool, tool])

    server: Server[Any] = Server("twins", on_list_tools=on_list)
    config = ServerConfig(name="twins", transport="memory", server=server)
    async with hub_of(config) as hub:
        assert set(hub.registry) == {"mcp_twins_twin"}
        assert "twin (again)" in hub.servers["twins"].left_out


async def test_two_servers_of_one_name_and_lists_of_something_else_are_refused() -> None:
    config = memory("calc", Bench(echo=echo))
    with pytest.raises(ConfigError, match="calc"):
        await hub_of(config, config).start()
    with pytest.raises(TypeError, match="mcpServers"):
        await Hub([{"name": "calc"}]).start()  # pyright: ignore[reportArgumentType]


async def test_a_hub_that_is_not_open_says_so() -> None:
    hub = hub_of(memory("calc", Bench(echo=echo)))
    with pytest.raises(NotConnectedError, match="not open"):
        await hub.call("mcp_calc_echo")
    with pytest.raises(NotConnectedError, match="not open"):
        await hub.reload()


async def test_secrets_in_addresses_are_not_logged_by_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        url = f"{origin.replace('http://', 'http://me:pass-word-1@')}/mcp?token=hunter2-hunter2"
        with caplog.at_level(logging.DEBUG):
            async with hub_of(
                ServerConfig(name="web", transport="streamable_http", url=url)
            ) as hub:
                await hub.call("mcp_web_echo", {"text": "hi"})
    assert any(record.name == "pegboard.upstream" for record in caplog.records)
    assert "hunter2" not in caplog.text
    assert "pass-word-1" not in caplog.text


async def test_an_eager_server_is_listed_anew_although_it_is_remembered(tmp_path: Path) -> None:
    bench = Bench(one=echo)
    for _ in range(2):
        async with hub_of(memory("calc", bench), catalog_cache=FileCatalogCache(tmp_path)) as hub:
            assert {name.rpartition("_")[2] for name in hub.registry} == set(bench.tools)
        bench.tools["two"] = echo


async def test_a_list_that_fails_once_is_read_again() -> None:
    bench = Bench(one=echo)
    server: Any = bench.server
    listing = server._request_handlers["tools/list"].handler
    failures = [RuntimeError("not yet")]

    async def fail_first(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return await listing(*args)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, fail_first)
    async with hub_of(memory("calc", bench)) as hub:
        await until(lambda: "mcp_calc_one" in hub.registry, "the second list")
        assert hub.servers["calc"].last_error is None
        await hub.server("calc").start()


async def test_a_lazy_server_that_was_never_seen_is_tried_until_it_is() -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        port = int(origin.rpartition(":")[2])
        url = f"{origin}/mcp"
    config = ServerConfig(name="web", transport="streamable_http", url=url, lazy=True)
    async with hub_of(config) as hub:
        assert hub.servers["web"].tool_count == 0
        async with serving(build_server().streamable_http_app(), port=port):
            await until(lambda: "mcp_web_echo" in hub.registry, "the tools")
            await hub.close()


async def test_any_answer_forgives_earlier_failures() -> None:
    async with hub_of(script("light", lazy=True)) as hub:
        server = hub.server("light")
        for _ in range(7):
            await server.request("tools/call", {"name": "pid", "arguments": {}})
            with pytest.raises(ConnectionLostError):
                await hub.call("mcp_light_crash")


async def test_headers_set_later_are_as_secret_as_the_others() -> None:
    def tell(_: dict[str, Any]) -> str:
        raise MCPError(-32000, "key runtime-secret-2 is not permitted")

    bench = Bench(tell=tell)
    async with serving(bench.server.streamable_http_app()) as origin:
        config = ServerConfig(name="web", transport="streamable_http", url=f"{origin}/mcp")
        async with hub_of(config) as hub:
            hub.server("web").set_headers({"X-Key": "runtime-secret-2"})
            with pytest.raises(ProtocolError) as caught:
                await hub.call("mcp_web_tell")
    assert "runtime-secret" not in str(caught.value)


async def test_a_tool_of_a_server_that_is_down_says_so() -> None:
    gone = ServerConfig(name="gone", transport="stdio", command="no such command")
    async with hub_of(gone, memory("calc", Bench(echo=echo))) as hub:
        with pytest.raises(ServerUnavailableError, match="args") as caught:
            await hub.call("mcp_gone_anything")
        assert caught.value.server == "gone"
        with pytest.raises(ToolNotFoundError):
            await hub.call("mcp_calc_anything")
        with pytest.raises(ServerNotFoundError):
            hub.toolset(servers=["clac"])


async def test_a_process_that_ends_at_once_is_quoted_the_first_time() -> None:
    code = "import sys; sys.exit('no licence today')"
    config = ServerConfig(
        name="odd", transport="stdio", command=sys.executable, args=("-S", "-E", "-c", code)
    )
    async with hub_of(config) as hub:
        assert "no licence today" in str(hub.servers["odd"].last_error)


async def test_progress_may_be_told_to_a_plain_function() -> None:
    seen: list[float] = []
    async with hub_of(script("light")) as hub:
        await hub.call("mcp_light_progress", {"n": 2}, on_progress=lambda *it: seen.append(it[0]))
        await until(lambda: seen == [1, 2])


def test_entering_a_hub_the_wrong_way_names_the_right_one() -> None:
    with pytest.raises(TypeError, match="open_sync"), hub_of():
        pass


def test_a_failing_server_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    gone = ServerConfig(name="gone", transport="stdio", command="no-such-command")
    with Hub.open_sync([gone], catalog_cache=NoCatalogCache()):
        pass
    (record,) = (it for it in caplog.records if it.levelno == logging.ERROR)
    assert "'gone'" in record.getMessage()
    assert "no-such-command" in record.getMessage()


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("on_conflict", ["skip", "override", "raise"])
async def test_names_of_an_earlier_run_do_not_outlive_the_way_conflicts_are_settled(
    tmp_path: Path, on_conflict: Any, lazy: bool
) -> None:
    def configs() -> list[ServerConfig]:
        return [memory(name, Bench(echo=echo), lazy=lazy) for name in ("a-b", "a_b")]

    remembered = FileCatalogCache(tmp_path)
    async with hub_of(*configs(), catalog_cache=remembered) as hub:
        assert len(hub.registry) == 2
    hub = hub_of(*configs(), catalog_cache=remembered, on_conflict=on_conflict)
    if on_conflict == "raise":
        with pytest.raises(ToolConflictError):
            await hub.start()
        return
    async with hub:
        assert set(hub.registry) == {"mcp_a_b_echo"}
        winner, loser = ("a-b", "a_b") if on_conflict == "skip" else ("a_b", "a-b")
        assert hub.origin("mcp_a_b_echo")[0] == winner
        assert set(hub.servers[loser].left_out) == {"echo"}
        assert hub.servers[winner].left_out == {}
    async with hub_of(*configs(), catalog_cache=remembered) as hub:
        assert len(hub.registry) == 2


async def test_a_pattern_that_no_tool_matches_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(read_file=echo, write_file=echo)
    config = memory("calc", bench, allow=("raed_file", "write_*"), deny=("zzz",))
    async with hub_of(config) as hub:
        assert set(hub.registry) == {"mcp_calc_write_file"}
        first, second = hub.servers["calc"].warnings
        assert "'raed_file' in its `allow`. Did you mean 'read_file'?" in first
        assert "'zzz' in its `deny`." in second
        assert caplog.text.count("pattern_unused") == 2
        await hub.server("calc").refresh()
        assert caplog.text.count("pattern_unused") == 2
        bench.tools["raed_file"] = bench.tools["zzz"] = echo
        await hub.server("calc").refresh()
        assert hub.servers["calc"].warnings == ()


@pytest.mark.parametrize("annotations", [[1], 5, "yes", {"title": 5}])
async def test_nonsense_annotations_are_no_reason_to_do_without_a_tool(annotations: Any) -> None:
    definition = {"name": "go", "inputSchema": {"type": "object"}, "annotations": annotations}
    tool = tool_of(definition, "go", ServerConfig(name="a", transport="stdio", command="x"))
    assert (tool.name, tool.annotations.title) == ("go", None)


async def test_what_happens_can_be_read_from_the_lines_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="pegboard")
    async with hub_of(memory("calc", Bench(echo=echo))):
        assert "server_ready: 'calc', tools: 1" in caplog.messages
