"""What clients see of a gateway while one of its servers is still starting."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pegboard import Hub, ServerConfig
from pegboard.gateway import Face, Gateway, GatewayOptions, RpcError
from pegboard.model.principal import LOCAL, Principal
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import bench, hub
from tests.upstream.late_servers import LateBench

LATE = "1 server is still starting: late; try again in a moment."


def echo(arguments: dict[str, Any]) -> str:
    return str(arguments.get("text"))


@asynccontextmanager
async def half_up(late: LateBench, **options: Any) -> AsyncGenerator[tuple[Hub, Gateway]]:
    """Give a gateway of two servers, of which one is up."""
    it = hub(late.config("late", tags=("tardy",)), bench("calc", add=echo))
    async with Gateway(it, GatewayOptions(**options)) as gateway:
        try:
            await it.start(wait=False)
            with anyio.fail_after(5):
                await it.started(["calc"])
            yield it, gateway
        finally:
            await it.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time in which lists wait is over."""
    monkeypatch.setattr("pegboard.gateway.catalog.startup_wait.PATIENCE", 0.0)


async def test_tools_that_are_there_and_the_gateways_own_list_do_not_wait() -> None:
    async with half_up(LateBench(sow=echo)) as (_, gateway):
        with anyio.fail_after(2):
            assert "search_tools" in await Caller(gateway).names()
            called = await Caller(gateway).call("call_tool", name="mcp_calc_add")
            assert not called["isError"]
            found = await Caller(gateway).call("search_tools", query="add")
            assert "mcp_calc_add" in text_of(found)
            await Caller(gateway, face=FULL).call("mcp_calc_add", text="hi")


@pytest.mark.parametrize("pinned", [(), ("*_sow",)])
async def test_right_after_the_start_a_list_waits_until_it_is_whole(pinned: tuple[str]) -> None:
    late = LateBench(sow=echo)
    face = Face() if pinned else FULL
    names: list[str] = []
    async with half_up(late, pinned=pinned) as (_, gateway), anyio.create_task_group() as group:

        async def ask() -> None:
            names.extend(await Caller(gateway, face=face).names())

        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert names == []
        late.let.set()
    assert "mcp_late_sow" in names


async def test_right_after_the_start_a_search_that_finds_nothing_waits_for_who_may_have_it() -> (
    None
):
    late = LateBench(sow=echo)
    found: list[Any] = []
    async with half_up(late) as (_, gateway), anyio.create_task_group() as group:

        async def ask() -> None:
            found.append(await Caller(gateway).call("search_tools", query="sow"))

        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        late.let.set()
    assert found[0]["structuredContent"]["method"] == "hybrid"
    assert "mcp_late_sow" in text_of(found[0])


async def test_a_server_that_fails_in_the_end_is_named_to_who_waited_for_it() -> None:
    it = hub(ServerConfig(name="late", transport="stdio", command="no-such-server"))
    async with Gateway(it) as gateway:
        await it.start(wait=False)
        with anyio.fail_after(10):
            said = text_of(await Caller(gateway).call("call_tool", name="mcp_late_sow"))
        assert "Server 'late' is configured but not running: the command " in said
        await it.close()


async def test_a_client_does_not_wait_for_a_server_that_it_may_not_see() -> None:
    async with half_up(LateBench(sow=echo)) as (_, gateway):
        with anyio.fail_after(2):
            caller = Caller(gateway, face=Face(surface="full", group="calc"))
            assert await caller.names() == ["mcp_calc_add"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_later_a_list_is_what_there_is_and_clients_hear_when_there_is_more(era: Any) -> None:
    late = LateBench(sow=echo)
    async with half_up(late) as (_, gateway), anyio.create_task_group() as group:
        caller = Caller(gateway, era, face=FULL)
        if era == "legacy":
            gateway.connected(caller.client, caller.wire)
        else:
            wanted = {"toolsListChanged": True}
            group.start_soon(lambda: caller.send("subscriptions/listen", notifications=wanted))
        await anyio.wait_all_tasks_blocked()
        assert await caller.names() == ["mcp_calc_add"]
        late.let.set()
        await caller.wire.next("notifications/tools/list_changed")
        assert await caller.names() == ["mcp_calc_add", "mcp_late_sow"]
        group.cancel_scope.cancel()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("way", ["call_tool", "tools/call", "get_tool_definition"])
async def test_a_tool_of_a_server_that_is_starting_is_waited_for(way: str) -> None:
    late = LateBench(sow=echo)
    results: list[Any] = []
    async with half_up(late) as (_, gateway), anyio.create_task_group() as group:

        async def ask() -> None:
            match way:
                case "call_tool":
                    result = await Caller(gateway).call(way, name="mcp_late_sow")
                case "get_tool_definition":
                    result = await Caller(gateway).call(way, tool_name="mcp_late_sow")
                case _:
                    result = await Caller(gateway, face=FULL).call("mcp_late_sow")
            results.append(result)

        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert results == []
        late.let.set()
    (result,) = results
    assert not result.get("isError")


@pytest.mark.usefixtures("impatient")
async def test_who_finds_nothing_is_told_that_more_may_come() -> None:
    late = LateBench(sow=echo)
    async with half_up(late) as (it, gateway):
        caller = Caller(gateway)
        answers = [
            await caller.call("search_tools", query="sow", search_method="regex"),
            await caller.call("call_tool", name="sow"),
            await caller.call("get_tool_definition", tool_name="sow"),
            await caller.call("list_tools_by_category", category="late"),
        ]
        assert all(text_of(response).endswith(LATE) for response in answers)
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, face=FULL).call("sow")
        assert caught.value.message.endswith(LATE)
        late.let.set()
        await it.started()
        assert LATE not in text_of(await caller.call("call_tool", name="sow"))


@pytest.mark.usefixtures("impatient")
@pytest.mark.covers("R-REG-39")
async def test_a_client_does_not_hear_of_a_server_that_it_may_not_see() -> None:
    late = LateBench(sow=echo)
    only_add = Principal(subject="ann", scopes=frozenset({"call"}), tools=("*_add",))
    only_calc = Principal(subject="ann", scopes=frozenset({"call"}), servers=("calc",))
    async with half_up(late) as (_, gateway):
        with anyio.fail_after(5):
            for caller in (
                Caller(gateway, principal=only_calc),
                Caller(gateway, principal=only_add),
                Caller(gateway, face=Face(group="calc")),
            ):
                said = await caller.call("call_tool", name="mcp_late_sow")
                assert "starting" not in text_of(said)
                said = await caller.call("search_tools", query="sow", search_method="regex")
                assert "starting" not in text_of(said)
            tagged = Caller(gateway, face=Face(group="tardy"))
            said = await tagged.call("call_tool", name="sow")
            assert LATE in text_of(said)


@pytest.mark.usefixtures("impatient")
async def test_of_many_servers_a_few_are_named() -> None:
    it = hub(*(LateBench().config(f"late{number}") for number in range(7)))
    async with Gateway(it) as gateway:
        await it.start(wait=False)
        said = text_of(await Caller(gateway).call("call_tool", name="sow"))
        assert "7 servers are still starting: late0, late1, late2, late3, late4, …;" in said
        await it.close()


@pytest.mark.usefixtures("impatient")
async def test_a_key_for_some_tools_is_not_told_which_other_servers_are_starting() -> None:
    some = Principal(subject="s", scopes=frozenset({"call"}), tools=("mcp_calc_*",))
    async with half_up(LateBench(sow=echo)) as (_, gateway):
        for principal, is_told in ((some, False), (LOCAL, True)):
            caller = Caller(gateway, principal=principal)
            nothing = await caller.call("search_tools", query="xyzzy")
            assert (LATE in text_of(nothing)) == is_told


@pytest.mark.parametrize("name", ["mcp_late_sow", "mcp_late_reap"])
async def test_a_call_that_waits_for_a_server_does_not_hold_up_closing(name: str) -> None:
    late, answers = LateBench(sow=echo), list[Any]()
    async with half_up(late) as (_, gateway), anyio.create_task_group() as group:

        async def ask() -> None:
            answers.append(await Caller(gateway).call("call_tool", name=name))

        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        with anyio.fail_after(10):
            await gateway.drain(0.01)
        (response,) = answers
        assert response["isError"]


async def test_a_call_that_waits_for_a_server_is_finished_when_the_gateway_ends() -> None:
    late, answers = LateBench(sow=echo), list[Any]()
    async with half_up(late) as (_, gateway), anyio.create_task_group() as group:

        async def ask() -> None:
            answers.append(await Caller(gateway).call("call_tool", name="mcp_late_sow"))

        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(gateway.drain, 60)
        await anyio.wait_all_tasks_blocked()
        assert (answers, gateway.busy) == ([], 1)
        late.let.set()
    (response,) = answers
    assert not response.get("isError")
