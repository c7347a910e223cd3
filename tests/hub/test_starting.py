"""A hub that is open before its servers are."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from pegboard import (
    Hub,
    NotConnectedError,
    ServerUnavailableError,
    ToolConflictError,
    ToolNotFoundError,
)
from pegboard.upstream import FileCatalogCache, NoCatalogCache
from tests.upstream.board_servers import Bench, hub_of, memory
from tests.upstream.late_servers import STUCK, LateBench, light


def echo(arguments: dict[str, Any]) -> str:
    return str(arguments.get("text"))


def write(path: Path, **servers: Any) -> None:
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")


async def test_one_server_that_hangs_keeps_nobody_from_the_tools_of_the_others() -> None:
    late = LateBench(two=echo)
    hub = hub_of(late.config("late"), memory("calc", Bench(one=echo)))
    try:
        await hub.start(wait=False)
        with anyio.fail_after(5):
            await hub.started(["calc"])
        assert (await hub.call("mcp_calc_one", {"text": "hi"})).text() == "hi"
        assert hub.starting == ["late"]
        with pytest.raises(ServerUnavailableError, match="is still starting: "):
            await hub.call("mcp_late_two")
        late.let.set()
        with anyio.fail_after(5):
            await hub.started()
        assert hub.starting == []
        assert (await hub.call("mcp_late_two", {"text": "ho"})).text() == "ho"
    finally:
        await hub.close()


async def test_whoever_enters_it_waits_for_all_and_finds_them_in_the_order_of_the_file() -> None:
    late = LateBench(one=echo)
    hub = hub_of(late.config("late"), memory("calc", Bench(two=echo)))
    async with anyio.create_task_group() as group:
        group.start_soon(hub.start)
        with anyio.fail_after(5):
            await late.asked.wait()
            await anyio.wait_all_tasks_blocked()
        assert len(hub.registry) == 0
        late.let.set()
    assert list(hub.registry) == ["mcp_late_one", "mcp_calc_two"]
    await hub.close()


async def test_who_starts_it_again_and_waits_does_wait() -> None:
    late = LateBench(one=echo)
    hub = hub_of(late.config("late"))
    await hub.start(wait=False)
    async with anyio.create_task_group() as group:
        group.start_soon(hub.start)
        await anyio.wait_all_tasks_blocked()
        assert hub.starting == ["late"]
        late.let.set()
    assert list(hub.registry) == ["mcp_late_one"]
    await hub.close()


async def test_speed_does_not_decide_about_names_although_nobody_waits() -> None:
    slow = LateBench(c=echo)
    hub = hub_of(slow.config("a-b"), memory("a_b", Bench(c=echo)), memory("other", Bench(c=echo)))
    await hub.start(wait=False)
    with anyio.fail_after(5):
        await hub.started(["other"])
    await anyio.wait_all_tasks_blocked()
    assert list(hub.registry) == ["mcp_other_c"]
    slow.let.set()
    with anyio.fail_after(5):
        await hub.started()
    assert hub.origin("mcp_a_b_c") == ("a-b", "c")
    assert len(hub.registry) == 3
    await hub.close()


async def test_for_long_nobody_waits_for_a_server_that_might_want_the_same_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pegboard.upstream.startup_queue.PATIENCE", 0.01)
    stuck = LateBench(add=echo)
    hub = hub_of(stuck.config("stuck", prefix=""), memory("calc", Bench(add=echo), prefix=""))
    await hub.start(wait=False)
    with anyio.fail_after(5):
        await hub.started(["calc"])
    assert hub.origin("add") == ("calc", "add")
    stuck.let.set()
    with anyio.fail_after(5):
        await hub.started()
    assert hub.origin("add") == ("calc", "add")
    await hub.close()


async def test_a_naming_that_fails_keeps_no_server_from_starting() -> None:
    def naming(server: str, tool: str) -> str:
        raise RuntimeError

    hub = hub_of(memory("a", Bench(c=echo)), memory("b", Bench(c=echo)), naming=naming)
    await hub.start(wait=False)
    with anyio.fail_after(5):
        await hub.started()
    assert {it.state for it in hub.servers.values()} == {"ready"}
    await hub.close()


async def test_what_is_remembered_is_there_at_once(tmp_path: Path) -> None:
    late = LateBench(one=echo)
    late.let.set()
    async with hub_of(late.config("late"), catalog_cache=FileCatalogCache(tmp_path)):
        pass
    late.let = anyio.Event()
    hub = hub_of(late.config("late"), catalog_cache=FileCatalogCache(tmp_path))
    await hub.start(wait=False)
    assert list(hub.registry) == ["mcp_late_one"]
    assert hub.starting == []
    await hub.close()


async def test_after_the_limit_nobody_is_waited_for() -> None:
    hub = hub_of(LateBench().config("late"))
    await hub.start(wait=False)
    with anyio.fail_after(5):
        await hub.started(until=0)
    assert hub.starting == ["late"]
    assert hub.starting_for("mcp_late_one") == ["late"]
    assert hub.starting_for("mcp_other_one") == []
    await hub.close()
    assert hub.starting == []


async def test_a_hub_that_is_closed_meanwhile_says_so_to_who_waits() -> None:
    late = LateBench()
    hub = hub_of(late.config("late"))

    async def start() -> None:
        with pytest.raises(NotConnectedError):
            await hub.start()

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        with anyio.fail_after(5):
            await late.asked.wait()
            await hub.close()


async def test_conflicts_are_raised_for_who_waits_only() -> None:
    configs = [memory(name, Bench(c=echo)) for name in ("a-b", "a_b")]
    with pytest.raises(ToolConflictError):
        await hub_of(*configs, on_conflict="raise").start()
    hub = hub_of(*configs, on_conflict="raise")
    await hub.start(wait=False)
    await hub.started()
    assert hub.origin("mcp_a_b_c") == ("a-b", "c")
    await hub.close()


async def test_a_reload_behind_a_new_server_that_hangs_is_not_held_up(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    write(file, a=light())
    async with Hub.open(file, catalog_cache=NoCatalogCache()) as hub:
        with anyio.fail_after(20):
            write(file, a=light(), stuck=STUCK)
            await hub.reload(wait=False)
            write(file, stuck=STUCK, b=light())
            await hub.reload(wait=False)
            await hub.started(["b"])
        assert list(hub.servers) == ["stuck", "b"]
        assert (await hub.call("mcp_b_echo", {"text": "new"})).text() == "new"
        assert hub.starting == ["stuck"]
        with pytest.raises(ToolNotFoundError):
            await hub.call("mcp_a_echo")
