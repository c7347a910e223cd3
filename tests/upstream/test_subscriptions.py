"""Subscriptions to resources, and what servers tell of besides their tools."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from pegboard import Hub, ProtocolError, ServerConfig, ServerTimeoutError
from pegboard.upstream import (
    FileCatalogCache,
    ResourcesChanged,
    ResourceUpdated,
    ServerDown,
    ServerEvent,
    ServerUp,
)
from tests.upstream.board_servers import limits, until
from tests.upstream.servers.talkative_server import Talkative
from tests.upstream.talkative import ERAS, call, talkative

EVERYWHERE = pytest.mark.parametrize(
    ("transport", "era"),
    [("memory", "legacy"), ("memory", "modern"), ("http", "legacy"), ("http", "modern")],
)
UPDATED = ResourceUpdated("talk", "note://a")


@EVERYWHERE
async def test_an_updated_resource_is_told_for_as_long_as_somebody_wants_to_know(
    transport: str, era: str
) -> None:
    async with talkative(transport, era) as (hub, server):
        events: list[ServerEvent] = []
        stop = hub.on_change(events.append)
        remote = hub.server("talk")
        with anyio.fail_after(5):
            await remote.subscribe("note://a")
            await remote.subscribe("note://a")
            await remote.subscribe("note://b")
            await remote.unsubscribe("note://a")
            await server.update("note://a")
            await until(lambda: UPDATED in events)
            await remote.unsubscribe("note://a")
            await remote.unsubscribe("note://never")
            if era == "legacy":
                assert +server.subscribed == {"note://b": 1}
            await server.update("note://b")
            await until(lambda: ResourceUpdated("talk", "note://b") in events)
            stop()
            stop()
            count = len(events)
            await server.update("note://b")
            await call(hub, "pid")
            assert len(events) == count


@EVERYWHERE
async def test_a_subscription_outlives_the_connection(transport: str, era: str) -> None:
    async with talkative(transport, era) as (hub, server):
        events: list[ServerEvent] = []
        hub.on_change(events.append)
        remote = hub.server("talk")
        await remote.subscribe("note://a")
        await remote.stop()
        server.contexts.clear()
        assert events.count(ServerDown("talk")) == 1
        events.clear()
        await remote.start()
        # The subscriber has to read it again: changes in between were not reported.
        await until(lambda: UPDATED in events)
        assert events[0] == ServerUp("talk")
        events.clear()

        async def updated() -> None:
            while UPDATED not in events:
                await server.update("note://a")
                await anyio.sleep(0.01)

        with anyio.fail_after(5):
            await updated()


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_subscription_outlives_a_change_of_the_entry(
    tmp_path: Path, era: str, lazy: bool
) -> None:
    talk = Talkative()
    fields: Any = {"name": "talk", "protocol": ERAS[era], "lazy": lazy}
    servers = [ServerConfig(transport="memory", server=talk.server, **fields)]
    async with Hub(servers, catalog_cache=FileCatalogCache(tmp_path)) as hub:
        await hub.server("talk").subscribe("note://a")
        events: list[ServerEvent] = []
        hub.on_change(events.append)
        talk.contexts.clear()
        servers[:] = [msgspec.structs.replace(servers[0], timeouts=limits(call=50))]
        with anyio.fail_after(5):
            await hub.reload()
            # The subscriber has to read it again: changes in between were not reported.
            await until(lambda: UPDATED in events)
            events.clear()
            while UPDATED not in events:
                await talk.update("note://a")
                await anyio.sleep(0.01)
            await hub.server("talk").unsubscribe("note://a")
        assert hub.server("talk").watched.uris == frozenset()


async def test_a_subscription_that_the_server_refuses_is_an_error() -> None:
    async with talkative("memory", "legacy") as (hub, server):
        with pytest.raises(ProtocolError):
            await hub.server("talk").subscribe("note://none")
        await hub.server("talk").subscribe("note://a")
        assert +server.subscribed == {"note://a": 1}


async def test_a_modern_server_that_tells_of_nothing_says_so() -> None:
    async with talkative("memory", "modern") as (hub, server):
        bare: Any = server.server
        del bare._request_handlers["subscriptions/listen"]
        with anyio.fail_after(5), pytest.raises(ProtocolError, match="note://a"):
            await hub.server("talk").subscribe("note://a")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_changed_resources_are_told(era: str) -> None:
    async with talkative("http", era) as (hub, server):
        events: list[ServerEvent] = []
        hub.on_change(events.append)
        await hub.server("talk").subscribe("note://a")

        async def changed() -> None:
            while ResourcesChanged("talk") not in events:
                await server.change_resources()
                await anyio.sleep(0.01)

        with anyio.fail_after(5):
            await changed()


async def test_a_subscriber_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: ServerEvent) -> None:
        raise ValueError("Oops.")

    async with talkative("memory", "modern") as (hub, _):
        events: list[ServerEvent] = []
        hub.on_change(fail)
        hub.on_change(events.append)
        await hub.server("talk").stop()
        assert events == [ServerDown("talk")]
        assert "subscriber_failed" in caplog.text


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_a_subscription_that_nobody_waited_for_is_taken_back(transport: str) -> None:
    async with talkative(transport, "legacy") as (hub, server):
        remote = hub.server("talk")
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(remote.subscribe, "note://slow")
                await until(lambda: server.subscribed["note://slow"] == 1)
                group.cancel_scope.cancel()
            assert server.subscribed["note://slow"] == 0
            assert remote.watched.uris == frozenset()


async def test_a_subscription_that_is_answered_too_late_is_taken_back() -> None:
    async with talkative("memory", "legacy", timeouts=limits(call=0.05)) as (hub, server):
        remote = hub.server("talk")
        with anyio.fail_after(5), pytest.raises(ServerTimeoutError):
            await remote.subscribe("note://slow")
        assert server.subscribed == {"note://slow": 0}
        assert remote.watched.uris == frozenset()


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_an_address_that_is_not_answered_for_keeps_nobody_from_another(
    transport: str,
) -> None:
    async with talkative(transport, "legacy") as (hub, server):
        remote = hub.server("talk")
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                for _ in range(2):
                    group.start_soon(remote.subscribe, "note://slow")
                await until(lambda: server.subscribed["note://slow"] == 1)
                await remote.subscribe("note://a")
                await remote.subscribe("note://b")
                await remote.unsubscribe("note://b")
                assert +server.subscribed == {"note://slow": 1, "note://a": 1}
                server.go_on.set()
            # Who wanted the same waited for the answer, and did not ask again.
            assert +server.subscribed == {"note://slow": 1, "note://a": 1}
            await remote.unsubscribe("note://slow")
            assert server.subscribed["note://slow"] == 1
            await remote.unsubscribe("note://slow")
            assert server.subscribed["note://slow"] == 0
