import threading
from collections.abc import Iterable
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from pegboard import Hub, NotConnectedError
from pegboard.gateway import Gateway, GatewayOptions, OpenTenant, RpcError
from pegboard.model.principal import ALL_SCOPES, Principal
from pegboard.upstream import NoCatalogCache
from pegboard.upstream.catalog.cache import CachedCatalog
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import Stall, bench, hub
from tests.gateway.test_result_cache import LONG, handle_in


def of(tenant: str) -> Principal:
    """A caller with every scope in its tenant, with the same subject in all tenants."""
    return Principal(tenant=tenant, subject="admin", scopes=ALL_SCOPES)


def others(opened: list[Hub] | None = None) -> OpenTenant:
    def open_tenant(name: str) -> Hub | None:
        if not name.startswith("t"):
            return None
        made = hub(bench("calc", big=lambda _: LONG), Stall().config("desk", protocol="legacy"))
        if opened is not None:
            opened.append(made)
        return made

    return open_tenant


@pytest.mark.covers("R-REG-39")
async def test_each_tenant_has_a_catalogue_of_its_own() -> None:
    async with hub(bench("first", echo=str)) as it, Gateway(it, open_tenant=others()) as gateway:
        first = Caller(gateway, face=FULL)
        one, two = (Caller(gateway, face=FULL, principal=of(name)) for name in ("t1", "t2"))
        assert await first.names() == ["mcp_first_echo"]
        search = Caller(gateway, principal=of("t1"))
        await search.call("register_tool", name="mine", description="Mine.")
        assert await one.names() == ["mcp_calc_big", "mcp_desk_ask", "mine"]
        assert await two.names() == ["mcp_calc_big", "mcp_desk_ask"]
        assert await first.names() == ["mcp_first_echo"]


@pytest.mark.covers("R-REG-39")
async def test_no_handle_or_state_of_one_tenant_is_good_in_another() -> None:
    async with hub() as it, Gateway(it, open_tenant=others()) as gateway:
        one, two = (Caller(gateway, principal=of(name), elicitation={}) for name in ("t1", "t2"))
        handle = handle_in(await one.call("call_tool", name="mcp_calc_big"))
        assert (await two.call("read_result", handle=handle))["isError"]
        asked = await one.call("call_tool", name="mcp_desk_ask")
        params = {
            "name": "call_tool",
            "arguments": {"name": "mcp_desk_ask"},
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "decline"} for key in asked["inputRequests"]},
        }
        with pytest.raises(RpcError):
            await two.send("tools/call", **params)
        assert text_of(await one.send("tools/call", **params)) == "decline:None"


async def test_a_tenant_that_there_is_not_is_refused() -> None:
    async with hub() as it:
        async with Gateway(it, open_tenant=others()) as gateway:
            with pytest.raises(RpcError):
                await Caller(gateway, principal=of("unknown")).names()
        async with Gateway(it) as gateway:
            with pytest.raises(RpcError):
                await Caller(gateway, principal=of("t1")).names()


async def test_a_tenant_is_opened_once_however_many_ask_at_once() -> None:
    opened: list[Hub] = []
    async with hub() as it, Gateway(it, open_tenant=others(opened)) as gateway:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(Caller(gateway, principal=of("t1")).names)
        assert len(opened) == 1
        assert opened[0].servers
    assert await _is_closed(opened[0])


async def test_idle_tenants_make_room_and_busy_ones_stay() -> None:
    opened: list[Hub] = []
    options = GatewayOptions(open_tenants=2)
    async with (
        hub() as it,
        Gateway(it, options, open_tenant=others(opened)) as gateway,
        anyio.create_task_group() as group,
    ):

        async def listen(caller: Caller) -> None:
            await caller.send("subscriptions/listen", notifications={})

        stays = Caller(gateway, principal=of("t1"))
        group.start_soon(listen, stays)
        await stays.wire.next("notifications/subscriptions/acknowledged")
        for name in ("t2", "t3", "t4"):
            await Caller(gateway, principal=of(name)).names()
        closed = [await _is_closed(hub) for hub in opened]
        assert closed == [False, True, True, False]
        asks = Caller(gateway, principal=of("t4"), elicitation={})
        asked = await asks.call("call_tool", name="mcp_desk_ask")
        with pytest.raises(RpcError, match="busy"):
            await Caller(gateway, principal=of("t5")).names()
        await asks.send(
            "tools/call",
            name="call_tool",
            arguments={"name": "mcp_desk_ask"},
            requestState=asked["requestState"],
            inputResponses={key: {"action": "decline"} for key in asked["inputRequests"]},
        )
        await Caller(gateway, principal=of("t5")).names()
        group.cancel_scope.cancel()


async def test_a_session_that_waits_for_nothing_gives_way_and_hears_of_changes_again() -> None:
    opened: list[Hub] = []
    options = GatewayOptions(open_tenants=1)
    async with hub() as it, Gateway(it, options, open_tenant=others(opened)) as gateway:
        session = Caller(gateway, "legacy", face=FULL, principal=of("t1"))
        gateway.connected(session.client, session.wire)
        await anyio.wait_all_tasks_blocked()
        await Caller(gateway, principal=of("t2")).names()
        assert await _is_closed(opened[0])
        await session.names()
        session.wire.sent.clear()
        search = Caller(gateway, principal=of("t1"))
        await search.call("register_tool", name="mine", description="Mine.")
        await session.wire.next("notifications/tools/list_changed")


async def test_an_idle_tenant_with_results_closes_last_and_else_the_longest_idle_closes_first() -> (
    None
):
    opened: list[Hub] = []
    options = GatewayOptions(open_tenants=3)
    async with hub() as it, Gateway(it, options, open_tenant=others(opened)) as gateway:
        reads = Caller(gateway, principal=of("t1"))
        handle = handle_in(await reads.call("call_tool", name="mcp_calc_big"))
        for name in ("t2", "t3", "t2", "t4", "t5"):
            await Caller(gateway, principal=of(name)).names()
        assert [await _is_closed(hub) for hub in opened] == [False, True, True, False, False]
        assert "isError" not in await reads.call("read_result", handle=handle)


async def test_a_hub_that_cannot_be_opened_is_an_error_of_that_tenant_only(tmp_path: Path) -> None:
    def broken(_: str) -> Hub:
        return Hub(tmp_path / "nothing.json")

    async with hub() as it, Gateway(it, open_tenant=broken) as gateway:
        with pytest.raises(RpcError):
            await Caller(gateway, principal=of("t1")).names()
        assert await Caller(gateway).names()


class HeldMemory(NoCatalogCache):
    """Remembers nothing, and that not before it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.asked = threading.Event()

    def load(self, keys: Iterable[str]) -> dict[str, CachedCatalog]:
        self.asked.set()
        self.let.wait(20)
        return {}


async def test_a_tenant_that_cannot_be_opened_yet_holds_up_no_other() -> None:
    held = HeldMemory()

    def open_tenant(name: str) -> Hub:
        return hub(bench("calc", add=str), catalog_cache=held if name == "t1" else NoCatalogCache())

    async with (
        hub() as it,
        Gateway(it, open_tenant=open_tenant) as gateway,
        anyio.create_task_group() as group,
    ):
        group.start_soon(Caller(gateway, principal=of("t1")).names)
        try:
            await anyio.to_thread.run_sync(held.asked.wait, 5)
            with anyio.fail_after(5):
                two = Caller(gateway, face=FULL, principal=of("t2"))
                assert await two.names() == ["mcp_calc_add"]
        finally:
            held.let.set()


async def test_a_tenant_is_opened_although_who_asked_first_has_left() -> None:
    held, opened = HeldMemory(), list[Hub]()

    def open_tenant(_: str) -> Hub:
        opened.append(hub(bench("calc", add=str), catalog_cache=held))
        return opened[-1]

    async with hub() as it, Gateway(it, open_tenant=open_tenant) as gateway:
        caller = Caller(gateway, face=FULL, principal=of("t1"))
        async with anyio.create_task_group() as group:
            group.start_soon(caller.names)
            await anyio.to_thread.run_sync(held.asked.wait, 5)
            group.cancel_scope.cancel()
        held.let.set()
        with anyio.fail_after(5):
            assert await caller.names() == ["mcp_calc_add"]
        assert len(opened) == 1


async def test_a_gateway_that_ends_while_a_tenant_is_being_opened_leaves_it_closed() -> None:
    held, opened = HeldMemory(), list[Hub]()

    def open_tenant(_: str) -> Hub:
        opened.append(hub(bench("calc", add=str), catalog_cache=held))
        return opened[-1]

    async with hub() as it:
        async with Gateway(it, open_tenant=open_tenant) as gateway:
            async with anyio.create_task_group() as group:
                group.start_soon(Caller(gateway, principal=of("t1")).names)
                await anyio.to_thread.run_sync(held.asked.wait, 5)
                group.cancel_scope.cancel()
            held.let.set()
        with pytest.raises(NotConnectedError):
            await opened[0].call("mcp_calc_add")


async def test_a_tenant_that_made_room_is_opened_anew_when_it_is_closed() -> None:
    opened: list[Hub] = []
    options = GatewayOptions(open_tenants=1)
    async with hub() as it, Gateway(it, options, open_tenant=others(opened)) as gateway:
        async with anyio.create_task_group() as group:
            for name in ("t1", "t2", "t1", "t2"):
                group.start_soon(_until_served, Caller(gateway, principal=of(name)))
        begun = [it for it in opened if it.servers]
        assert len(begun) >= 2
        assert sum([not await _is_closed(it) for it in begun]) == 1


async def test_what_keeps_a_tenant_from_being_opened_is_for_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "nothing.json"
    async with hub() as it, Gateway(it, open_tenant=lambda _: Hub(path)) as gateway:
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, principal=of("t1")).names()
    assert str(tmp_path) not in caught.value.message
    assert str(path) in caplog.text


async def _until_served(caller: Caller) -> None:
    with anyio.fail_after(10):
        while True:
            try:
                await caller.names()
            except RpcError:
                await anyio.lowlevel.checkpoint()
            else:
                return


async def _is_closed(hub: Hub) -> bool:
    return hub.servers["calc"].state == "closed"


class Unclosable(Hub):
    async def close(self) -> None:
        await super().close()
        raise OSError("No space left on device")


async def test_a_tenant_that_cannot_be_closed_in_good_order_makes_room_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def open_tenant(_: str) -> Hub:
        return Unclosable([bench("calc", add=str)], catalog_cache=NoCatalogCache())

    options = GatewayOptions(open_tenants=1)
    async with hub() as it, Gateway(it, options, open_tenant=open_tenant) as gateway:
        for name in ("t1", "t2", "t3"):
            caller = Caller(gateway, face=FULL, principal=of(name))
            assert await caller.names() == ["mcp_calc_add"]
    assert "tenant_not_closed: 't1'" in caplog.text
