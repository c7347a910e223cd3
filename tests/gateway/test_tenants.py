from pathlib import Path

import anyio
import pytest

from pegboard import Hub
from pegboard.gateway import Gateway, GatewayOptions, OpenTenant, RpcError
from pegboard.model.principal import ALL_SCOPES, Principal
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import Stall, bench, hub
from tests.gateway.test_shelf import LONG, handle_in


def of(tenant: str) -> Principal:
    """Somebody who may do everything, within a tenant; the same name in all of them."""
    return Principal(tenant=tenant, subject="somebody", scopes=ALL_SCOPES)


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
                await Caller(gateway, principal=of("nobody")).names()
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
    async with hub() as it, Gateway(it, options, open_tenant=others(opened)) as gateway:
        stays = Caller(gateway, "legacy", principal=of("t1"))
        gateway.connected(stays.client, stays.wire)
        await stays.names()
        for name in ("t2", "t3", "t4"):
            await Caller(gateway, principal=of(name)).names()
        closed = [await _is_closed(hub) for hub in opened]
        assert closed == [False, True, True, False]
        leaves = Caller(gateway, "legacy", principal=of("t4"), session="s2")
        gateway.connected(leaves.client, leaves.wire)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RpcError):
            await Caller(gateway, principal=of("t5")).names()
        gateway.disconnected("s2")
        await anyio.wait_all_tasks_blocked()
        await Caller(gateway, principal=of("t5")).names()


async def test_a_hub_that_cannot_be_opened_is_an_error_of_that_tenant_only(tmp_path: Path) -> None:
    def broken(_: str) -> Hub:
        return Hub(tmp_path / "nothing.json")

    async with hub() as it, Gateway(it, open_tenant=broken) as gateway:
        with pytest.raises(RpcError):
            await Caller(gateway, principal=of("t1")).names()
        assert await Caller(gateway).names()


async def _is_closed(hub: Hub) -> bool:
    return hub.servers["calc"].state == "closed"
