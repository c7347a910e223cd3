from typing import Any

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from pegboard import Hub
from pegboard.gateway import Face, Gateway, GatewayOptions, RpcError
from pegboard.model import Tool
from pegboard.model.principal import Principal
from pegboard.upstream import NoCatalogCache
from tests.gateway.clients import FULL, Caller
from tests.gateway.servers import Stall, hub
from tests.upstream.board_servers import until

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
META = {"io.modelcontextprotocol/subscriptionId": 7}


def listening(caller: Caller, **wanted: Any) -> Any:
    async def listen() -> None:
        await caller.send("subscriptions/listen", notifications=wanted)

    return listen


async def test_a_listener_is_told_of_what_it_asked_for_and_nothing_else() -> None:
    stall = Stall()
    async with hub(stall.config("a")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL)
        async with anyio.create_task_group() as group:
            group.start_soon(listening(caller, toolsListChanged=True, promptsListChanged=False))
            first = await caller.wire.next(ACKNOWLEDGED)
            assert first == {"notifications": {"toolsListChanged": True}, "_meta": META}
            await stall.change()
            # From a thread, as registrations come.
            await anyio.to_thread.run_sync(it.registry.register, Tool(name="late"))
            assert await caller.wire.next(TOOLS) == {"_meta": META}
            assert caller.wire.sent == []
            group.cancel_scope.cancel()


async def test_sessions_of_the_handshake_era_are_told_without_asking() -> None:
    async with hub() as it, Gateway(it) as gateway:
        full, search = Caller(gateway, "legacy", face=FULL), Caller(gateway, "legacy", session="2")
        for caller in (full, search):
            gateway.connected(caller.client, caller.wire)
        await anyio.wait_all_tasks_blocked()
        it.registry.register(Tool(name="late"))
        assert await full.wire.next(TOOLS) == {}
        await anyio.wait_all_tasks_blocked()
        # What the search surface lists has not changed.
        assert search.wire.sent == []
        gateway.disconnected("s1")
        await anyio.wait_all_tasks_blocked()
        it.registry.unregister("late")
        await anyio.wait_all_tasks_blocked()
        assert full.wire.sent == []
        gateway.disconnected("unknown")


async def test_a_client_is_not_told_of_tools_that_it_may_not_see() -> None:
    reader = Principal(subject="s", scopes=frozenset({"read"}), tools=("mine_*",))
    async with hub() as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy", face=FULL, principal=reader)
        gateway.connected(caller.client, caller.wire)
        await anyio.wait_all_tasks_blocked()
        it.registry.register(Tool(name="yours"))
        await anyio.wait_all_tasks_blocked()
        assert caller.wire.sent == []
        it.registry.register(Tool(name="mine_too"))
        await caller.wire.next(TOOLS)


async def test_pinned_tools_change_the_search_surface() -> None:
    async with hub() as it, Gateway(it, GatewayOptions(pinned=("hot_*",))) as gateway:
        caller = Caller(gateway, "legacy")
        gateway.connected(caller.client, caller.wire)
        await anyio.wait_all_tasks_blocked()
        it.registry.register(Tool(name="hot_one"))
        await caller.wire.next(TOOLS)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_resource_is_watched_for_a_client_of_either_era(protocol: str) -> None:
    stall = Stall()
    async with hub(stall.config("a", protocol=protocol)) as it, Gateway(it) as gateway:
        modern, legacy = Caller(gateway), Caller(gateway, "legacy")
        gateway.connected(legacy.client, legacy.wire)
        await anyio.wait_all_tasks_blocked()
        uri = "a+note://one"
        async with anyio.create_task_group() as group:
            wanted = [uri, "a+note://one", "unknown+x://y", 5]
            group.start_soon(listening(modern, resourceSubscriptions=wanted))
            granted = await modern.wire.next(ACKNOWLEDGED)
            assert granted["notifications"] == {"resourceSubscriptions": [uri]}
            assert await legacy.send("resources/subscribe", uri=uri) == {}
            if protocol == "auto":
                await stall.update("note://one")
                updated = "notifications/resources/updated"
                assert await modern.wire.next(updated) == {"uri": uri, "_meta": META}
                assert await legacy.wire.next(updated) == {"uri": uri}
            else:
                assert stall.subscribed == ["note://one"]
            await legacy.send("resources/unsubscribe", uri=uri)
            await legacy.send("resources/unsubscribe", uri=uri)
            group.cancel_scope.cancel()
        await until(lambda: stall.subscribed == [], "no client watches")
        with pytest.raises(RpcError):
            await legacy.send("resources/subscribe", uri="unknown+x://y")


async def test_a_client_that_subscribes_again_is_told_by_a_server_that_was_away() -> None:
    stall, uri = Stall(), "a+note://one"
    servers = [stall.config("a")]
    async with Hub(servers, catalog_cache=NoCatalogCache()) as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy")
        gateway.connected(caller.client, caller.wire)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            await caller.send("resources/subscribe", uri=uri)
            away = servers.pop()
            await it.reload()
            servers.append(away)
            await it.reload()
            await caller.send("resources/subscribe", uri=uri)
            await stall.update("note://one")
            assert await caller.wire.next("notifications/resources/updated") == {"uri": uri}


async def test_a_slow_client_is_told_once_of_what_happened_often() -> None:
    async with hub() as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy", face=FULL)
        gateway.connected(caller.client, caller.wire)
        await anyio.wait_all_tasks_blocked()
        for number in range(100):
            it.registry.register(Tool(name=f"tool{number}"))
        await caller.wire.next(TOOLS)
        await anyio.wait_all_tasks_blocked()
        assert len(caller.wire.sent) <= 1


async def test_draining_ends_requests_to_listen_with_their_result() -> None:
    async with hub() as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        results: list[dict[str, Any]] = []

        async def listen() -> None:
            results.append(await caller.send("subscriptions/listen", notifications={}))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await caller.wire.next(ACKNOWLEDGED)
                await gateway.drain(5)
        assert results[0]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
        assert results[0]["resultType"] == "complete"


async def test_so_many_may_listen_and_no_more() -> None:
    async with hub() as it, Gateway(it, GatewayOptions(listeners=1)) as gateway:
        caller = Caller(gateway)
        async with anyio.create_task_group() as group:
            group.start_soon(listening(caller))
            await caller.wire.next(ACKNOWLEDGED)
            with pytest.raises(RpcError):
                await caller.send("subscriptions/listen", notifications={})
            group.cancel_scope.cancel()
        for nonsense in (None, 5, []):
            with pytest.raises(RpcError) as caught:
                await caller.send("subscriptions/listen", notifications=nonsense)
            assert caught.value.code == -32602


async def test_an_address_of_one_server_hears_of_that_server_only() -> None:
    one, other = Stall(), Stall()
    async with hub(one.config("a"), other.config("b")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy", face=Face(group="a"))
        gateway.connected(caller.client, caller.wire)
        await anyio.wait_all_tasks_blocked()
        await other.change()
        await one.change()
        await caller.wire.next("notifications/prompts/list_changed")
        await anyio.wait_all_tasks_blocked()
        assert len(caller.wire.sent) <= 1


async def test_a_client_cannot_speak_for_the_session_of_another() -> None:
    stall = Stall()
    async with hub(stall.config("a", protocol="legacy")) as it, Gateway(it) as gateway:
        owner = Caller(gateway, "legacy")
        gateway.connected(owner.client, owner.wire)
        await anyio.wait_all_tasks_blocked()
        thief = Principal(subject="thief", scopes=frozenset({"call"}))
        await Caller(gateway, "legacy", principal=thief).send(
            "resources/subscribe", uri="a+note://one"
        )
        assert stall.subscribed == []


async def test_a_session_that_comes_up_twice_is_told_once() -> None:
    async with hub() as it, Gateway(it) as gateway:
        first, second = (Caller(gateway, "legacy", face=FULL) for _ in range(2))
        for caller in (first, second):
            gateway.connected(caller.client, caller.wire)
        await anyio.wait_all_tasks_blocked()
        it.registry.register(Tool(name="late"))
        await second.wire.next(TOOLS)
        assert first.wire.sent == []


async def test_one_caller_leaves_room_for_others_to_listen() -> None:
    async with hub() as it, Gateway(it, GatewayOptions(listeners=4)) as gateway:
        greedy = Caller(gateway, principal=Principal(subject="g", scopes=frozenset({"read"})))
        other = Caller(gateway, principal=Principal(subject="o", scopes=frozenset({"read"})))
        async with anyio.create_task_group() as group:
            for caller in (greedy, greedy, other):
                group.start_soon(listening(caller))
                await caller.wire.next(ACKNOWLEDGED)
            with pytest.raises(RpcError) as caught:
                await greedy.send("subscriptions/listen", notifications={})
            said = {"code": "limit_reached", "setting": "gateway.listeners", "retryAfter": 30.0}
            assert (caught.value.code, caught.value.data) == (-32011, said)
            group.cancel_scope.cancel()
        async with anyio.create_task_group() as group:
            group.start_soon(listening(greedy))
            await greedy.wire.next(ACKNOWLEDGED)
            group.cancel_scope.cancel()


@pytest.mark.parametrize("pattern", ["mcp_mine_*", "mine+note://*"])
async def test_a_limited_client_hears_only_of_servers_that_have_its_things(
    pattern: str,
) -> None:
    mine, secret = Stall(), Stall()
    limited = Principal(subject="s", scopes=frozenset({"read"}), tools=(pattern,))
    async with hub(mine.config("mine"), secret.config("secret")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy", principal=limited)
        other = Caller(gateway, "legacy", session="s2")
        for one in (caller, other):
            gateway.connected(one.client, one.wire)
            await one.send("resources/list")
        await anyio.wait_all_tasks_blocked()
        await secret.change()
        await other.wire.next(PROMPTS)
        await anyio.wait_all_tasks_blocked()
        assert caller.wire.sent == []
        await mine.change()
        assert await caller.wire.next(PROMPTS) == {}


async def test_what_one_client_watches_has_limits_in_either_era() -> None:
    stall = Stall()
    async with hub(stall.config("a", protocol="legacy")) as it, Gateway(it) as gateway:
        modern, legacy = Caller(gateway), Caller(gateway, "legacy")
        gateway.connected(legacy.client, legacy.wire)
        await anyio.wait_all_tasks_blocked()
        long = [f"a+note://{number}{'x' * 60_000}" for number in range(2)]
        for uris in (long, [f"a+note://{number}" for number in range(1001)]):
            with pytest.raises(RpcError, match="1000 resources") as caught:
                await modern.send(
                    "subscriptions/listen", notifications={"resourceSubscriptions": uris}
                )
            assert caught.value.code == -32602
        await legacy.send("resources/subscribe", uri=long[0])
        with pytest.raises(RpcError, match="100000 characters"):
            await legacy.send("resources/subscribe", uri=long[1])
        assert len(stall.subscribed) == 1


async def test_a_request_to_listen_has_an_id_that_can_be_kept() -> None:
    async with hub() as it, Gateway(it) as gateway:
        exchange = Caller(gateway).exchange("subscriptions/listen", notifications={})
        with pytest.raises(RpcError, match="1000 characters"):
            await gateway.respond(replace(exchange, id="x" * 1001))
