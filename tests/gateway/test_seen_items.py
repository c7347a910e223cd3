"""A server that lists very many items does not hold up other requests."""

from collections.abc import Awaitable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from pegboard.gateway import Face, Gateway, RpcError
from pegboard.model.principal import Principal
from pegboard.upstream import PromptsChanged
from tests.gateway.clients import Caller
from tests.gateway.servers import Stall, hub
from tests.gateway.test_notifications import ACKNOWLEDGED

MANY = 5000
KINDS = ("prompts/list", "resources/list", "resources/templates/list")


async def turns_during(work: Awaitable[Any]) -> int:
    """How often another task runs while this is done."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await anyio.lowlevel.checkpoint()
        await work
        group.cancel_scope.cancel()
    return turns


def long_lists() -> Stall:
    stall = Stall()
    stall.prompts = [f"p{it}" for it in range(MANY)]
    stall.resources = {f"note://{it}": "x" for it in range(MANY)}
    stall.templates = [f"note{it}://{{name}}" for it in range(MANY)]
    return stall


def caller_of(gateway: Gateway, subject: str, **grant: Any) -> Caller:
    principal = Principal(subject=subject, scopes=frozenset({"read", "call"}), **grant)
    return Caller(gateway, principal=principal)


@pytest.mark.parametrize("kind", KINDS)
async def test_others_have_turns_while_a_long_list_is_collected_once(kind: str) -> None:
    async with hub(long_lists().config("a")) as it, Gateway(it) as gateway:
        first = caller_of(gateway, "first")
        whole = await first.send(kind)
        other = caller_of(gateway, "other")
        # The list of the server is known, so the turns are those of the collection.
        assert await turns_during(other.send(kind)) >= MANY / 250
        assert await turns_during(other.send(kind)) < 10
        assert (await other.send(kind)) == whole


async def test_others_have_turns_while_a_resource_is_looked_for() -> None:
    async with hub(long_lists().config("a")) as it, Gateway(it) as gateway:
        caller = caller_of(gateway, "first")
        for kind in KINDS:
            await caller.send(kind)
        for _ in ("parsed", "matched"):
            read = caller.send("resources/read", uri="unknown://x")

            async def refused(read: Awaitable[Any] = read) -> None:
                with pytest.raises(RpcError):
                    await read

            assert await turns_during(refused()) >= MANY / 250


async def test_a_client_sees_only_its_own_part_of_what_another_has_listed() -> None:
    one, other = Stall(), Stall()
    async with hub(one.config("a"), other.config("b")) as it, Gateway(it) as gateway:
        both, limited = caller_of(gateway, "x"), caller_of(gateway, "x", servers=("b",))
        at_a = Caller(gateway, principal=both.client.principal, face=Face(group="a"))
        for _ in range(2):
            for caller, names in (
                (both, ["mcp_a_greet", "mcp_b_greet"]),
                (limited, ["mcp_b_greet"]),
                (at_a, ["mcp_a_greet"]),
            ):
                listed = await caller.send("prompts/list")
                assert [it["name"] for it in listed["prompts"]] == names


async def test_a_changed_list_is_collected_anew() -> None:
    stall = Stall()
    async with hub(stall.config("a")) as it, Gateway(it) as gateway:
        caller = caller_of(gateway, "x")
        await caller.send("prompts/list")
        stall.prompts = ["other"]
        changed = anyio.Event()
        it.on_change(lambda event: changed.set() if isinstance(event, PromptsChanged) else None)
        await stall.change()
        with anyio.fail_after(10):
            await changed.wait()
        listed = await caller.send("prompts/list")
        assert [it["name"] for it in listed["prompts"]] == ["mcp_a_other"]


async def test_others_have_turns_while_it_is_found_out_whom_a_change_concerns() -> None:
    stall = long_lists()
    async with hub(stall.config("a")) as it, Gateway(it) as gateway:
        limited = Principal(subject="x", scopes=frozenset({"read"}), tools=("*note4999*",))
        caller = Caller(gateway, principal=limited)
        for kind in KINDS:
            await caller.send(kind)
        wanted = {"resourcesListChanged": True}
        async with anyio.create_task_group() as group:
            listening = caller.exchange("subscriptions/listen", notifications=wanted)
            group.start_soon(gateway.respond, listening)
            await caller.wire.next(ACKNOWLEDGED)

            async def told() -> None:
                await stall.change()
                await caller.wire.next("notifications/resources/list_changed")

            assert await turns_during(told()) >= MANY / 250
            group.cancel_scope.cancel()
