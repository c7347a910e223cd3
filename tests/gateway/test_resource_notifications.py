"""Watching many resources at once leaves the others their turns."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp.shared.uri_template import UriTemplate
from msgspec.structs import replace

from pegboard.gateway import Gateway
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
    assert len({told_at[uri] for uri in UNKNOWN}) == len(UNKNOWN)


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
