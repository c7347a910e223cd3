"""Watching many resources at once leaves the others their turns."""

from collections import Counter
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp.shared.uri_template import UriTemplate
from msgspec.structs import replace

from pegboard.gateway import Gateway, GatewayOptions, RpcError
from pegboard.gateway.request import ClientRequest
from pegboard.model.principal import Principal
from tests.gateway.clients import Caller
from tests.gateway.servers import Stall, hub
from tests.gateway.test_notifications import ACKNOWLEDGED

UNKNOWN = [f"unknown://{number}" for number in range(50)]


async def test_others_have_turns_while_a_client_asks_to_watch_many() -> None:
    async with hub(Stall().config("a")) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        for kind in ("resources/list", "resources/templates/list"):
            await caller.send(kind)
        turn, told_at = 0, dict[str, int]()

        async def take_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await anyio.lowlevel.checkpoint()

        def tell(uri: str, _: BaseException | None) -> None:
            told_at[uri] = turn

        wanted = {"resourceSubscriptions": ["a+note://one", *UNKNOWN]}
        exchange = caller.exchange("subscriptions/listen", notifications=wanted)
        async with anyio.create_task_group() as group:
            group.start_soon(take_turns)
            group.start_soon(gateway.respond, replace(exchange, on_watched=tell))
            granted = await caller.wire.next(ACKNOWLEDGED)
            assert granted["notifications"] == {"resourceSubscriptions": ["a+note://one"]}
            group.cancel_scope.cancel()
    # A few are looked at in one turn, and no more.
    assert max(Counter(told_at[uri] for uri in UNKNOWN).values()) <= 4


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_more_resources_are_watched_than_are_asked_for_at_once(protocol: str) -> None:
    stall = Stall()
    async with hub(stall.config("a", protocol=protocol)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        wanted = [f"a+note://{number}" for number in range(50)]
        exchange = caller.exchange(
            "subscriptions/listen", notifications={"resourceSubscriptions": wanted}
        )
        async with anyio.create_task_group() as group:
            group.start_soon(gateway.respond, exchange)
            granted = await caller.wire.next(ACKNOWLEDGED)
            assert sorted(granted["notifications"]["resourceSubscriptions"]) == sorted(wanted)
            group.cancel_scope.cancel()


async def test_one_caller_watches_only_a_part_of_what_all_may_watch() -> None:
    stall = Stall()
    options = GatewayOptions(watched_resources=20)
    async with hub(stall.config("a")) as it, Gateway(it, options) as gateway:
        ann, bob = (
            Caller(gateway, principal=Principal(subject=name, scopes=frozenset({"call"})))
            for name in ("ann", "bob")
        )

        def watching(caller: Caller, numbers: range) -> ClientRequest:
            wanted = {"resourceSubscriptions": [f"a+note://{it}" for it in numbers]}
            return caller.exchange("subscriptions/listen", notifications=wanted)

        async with anyio.create_task_group() as group:
            group.start_soon(gateway.respond, watching(ann, range(10)))
            await ann.wire.next(ACKNOWLEDGED)
            with pytest.raises(RpcError) as caught:
                await gateway.respond(watching(ann, range(10)))
            setting = {"code": "limit_reached", "setting": "gateway.watched_resources"}
            assert caught.value.data == {**setting, "retryAfter": 30.0}
            group.start_soon(gateway.respond, watching(bob, range(5)))
            await bob.wire.next(ACKNOWLEDGED)
            assert gateway.limits()[2].used == 15
            group.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert gateway.limits()[2].used == 0


async def test_a_template_is_parsed_once_for_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, parsed = UriTemplate.parse, list[str]()

    def parse_and_note(template: str, **options: Any) -> UriTemplate:
        parsed.append(template)
        return parse(template, **options)

    monkeypatch.setattr(UriTemplate, "parse", parse_and_note)
    stall = Stall()
    stall.templates = ["note://{name}", "file:///{path}", "broken://{"]
    async with hub(stall.config("a")) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        async with anyio.create_task_group() as group:
            wanted = {"resourceSubscriptions": [*UNKNOWN, "file:///x"]}
            exchange = caller.exchange("subscriptions/listen", notifications=wanted)
            group.start_soon(gateway.respond, exchange)
            granted = await caller.wire.next(ACKNOWLEDGED)
            assert granted["notifications"] == {"resourceSubscriptions": ["file:///x"]}
            group.cancel_scope.cancel()
        assert parsed == stall.templates
        stall.templates = ["late://{name}"]
        await stall.change()
        await anyio.wait_all_tasks_blocked()
        await caller.send("resources/list")
        stall.resources["late://x"] = "not listed"
        read = await caller.send("resources/read", uri="late://x")
        assert read["contents"] == [{"uri": "a+late://x", "text": "not listed"}]
