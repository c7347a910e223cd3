"""Servers that clients do not share: a connection for each."""

from functools import partial
from typing import Any

import anyio
import mcp_types as types
import pytest

from pegboard import ConnectionLostError, ServerConfig, ServerState, ServerUnavailableError
from pegboard.upstream.connections import per_client as client_connections
from tests.upstream.board_servers import hub_of, limits, until
from tests.upstream.http_servers import serving
from tests.upstream.processes import alive, all_ended, new_marker
from tests.upstream.servers.talkative_server import Talkative
from tests.upstream.talkative import call, lives_in, script, talkative, under_way

ROOTS = "notifications/roots/list_changed"


def connections(hub: Any) -> dict[str, Any]:
    places = hub.server("talk")._of_clients._entries
    return {client: place.connection for client, place in places.items()}


async def test_each_client_has_a_process_of_its_own() -> None:
    async with hub_of(script(protocol="legacy", sharing="per_client")) as hub:
        pids = [(await call(hub, "pid", client=it)).text() for it in ("one", "two", "one", "")]
        assert pids[0] == pids[2]
        assert len(set(pids)) == 3
        assert set(hub.registry) >= {"mcp_talk_pid"}


async def test_a_shared_server_has_one_process_for_all() -> None:
    async with hub_of(script(protocol="legacy")) as hub:
        pids = {(await call(hub, "pid", client=it)).text() for it in ("one", "two", "")}
        assert len(pids) == 1


async def test_a_question_of_an_unshared_server_is_always_its_clients() -> None:
    config = script(protocol="legacy", sharing="per_client")
    async with (
        hub_of(config, relays_questions=True) as hub,
        anyio.create_task_group() as group,
    ):
        group.start_soon(partial(call, hub, "wait", client="one"))
        await until(lambda: connections(hub)["one"].in_flight if connections(hub) else False)
        result = await call(hub, "ask", questions=lives_in("Oslo"), client="two")
        assert "Oslo" in result.text()
        group.cancel_scope.cancel()


async def test_a_client_that_left_leaves_no_process_behind() -> None:
    name, _, value = (marker := new_marker()).partition("=")
    config = script(protocol="legacy", sharing="per_client", env={name: value})
    async with hub_of(config) as hub:
        for client in ("one", "two"):
            await call(hub, "pid", client=client)
        assert len(alive(marker)) == 3
        await hub.forget_client("one")
        assert list(connections(hub)) == ["two"]
        await until(lambda: len(alive(marker)) == 2)
        await hub.forget_client("unknown")
        await hub.server("talk").stop()
        assert connections(hub) == {}
        await all_ended(marker)
        await call(hub, "pid", client="one")
    await all_ended(marker)


async def test_a_client_that_left_in_mid_call_leaves_nothing_open() -> None:
    async with talkative("memory", "legacy", sharing="per_client") as (hub, server):
        async with under_way(server, partial(_lost, hub)):
            own = connections(hub)["one"]
            await hub.forget_client("one")
        assert (own.state, connections(hub)) == (ServerState.CLOSED, {})


async def _lost(hub: Any) -> None:
    with pytest.raises(ConnectionLostError):
        await call(hub, "wait", client="one")


async def test_an_idle_clients_connection_ends_by_itself() -> None:
    timeouts = limits(idle=0.05)
    async with talkative("memory", "legacy", sharing="per_client", timeouts=timeouts) as (hub, _):
        await call(hub, "pid", client="one")
        own = connections(hub)["one"]
        await until(lambda: own.state == ServerState.COLD)
        await call(hub, "pid", client="one")
        assert (own.starts, connections(hub)["one"]) == (2, own)


async def test_the_least_recently_used_idle_connection_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_connections, "MOST_CLIENTS", 2)
    async with talkative("memory", "legacy", sharing="per_client") as (hub, server):
        for client in ("one", "two", "one", "three"):
            await call(hub, "pid", client=client)
        assert list(connections(hub)) == ["one", "three"]
        busy = [partial(call, hub, "wait", client=it) for it in ("one", "three")]
        async with under_way(server, *busy):
            with pytest.raises(ServerUnavailableError, match="2 clients at once"):
                await call(hub, "pid", client="four")
        await call(hub, "pid", client="four")
        assert set(connections(hub)) <= {"one", "three", "four"}


async def test_the_clients_of_one_caller_do_not_take_the_place_of_anothers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_connections, "MOST_CLIENTS", 4)
    async with talkative("memory", "legacy", sharing="per_client") as (hub, server):
        await call(hub, "pid", client="victim", caller="bob")
        for number in range(8):
            await call(hub, "pid", client=f"ann-{number}", caller="ann")
        assert list(connections(hub)) == ["victim", "ann-5", "ann-6", "ann-7"]
        # Also not if all clients of the one are busy: then it is refused, before all are.
        busy = [partial(call, hub, "wait", client=f"ann-{it}", caller="ann") for it in (5, 6, 7)]
        async with under_way(server, *busy):
            with pytest.raises(ServerUnavailableError):
                await call(hub, "pid", client="ann-8", caller="ann")
            assert "victim" in connections(hub)
            await call(hub, "pid", client="victim", caller="bob")


async def test_only_what_its_client_can_answer_is_offered_over_a_connection_of_its_own() -> None:
    async with talkative("memory", "legacy", sharing="per_client") as (hub, _):
        await call(hub, "pid", client="one", capabilities={"elicitation": {}})
        offered = connections(hub)["one"]._session._routing.client_capabilities
        assert set(offered) == {"elicitation", "extensions"}


async def test_a_clients_roots_are_told_over_its_own_connection() -> None:
    async with talkative("memory", "legacy", sharing="per_client") as (hub, server):
        heard = anyio.Event()

        async def hear(*_: object) -> None:
            heard.set()

        server.server.add_notification_handler(ROOTS, types.NotificationParams, hear)
        await call(hub, "pid", client="one")
        await hub.roots_changed("unknown")
        await hub.roots_changed("one")
        with anyio.fail_after(5):
            await heard.wait()


async def test_a_server_that_does_not_listen_keeps_roots_from_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app: Any = Talkative().server.streamable_http_app()
    told: list[str] = []
    listening = Talkative().server

    async def deaf(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        first = [await receive()]
        if ROOTS.encode() in first[0].get("body", b""):
            await anyio.sleep_forever()

        async def replay() -> Any:
            return first.pop() if first else await receive()

        await app(scope, replay, send)

    async def hear(*_: object) -> None:
        told.append("talk")

    listening.add_notification_handler(ROOTS, types.NotificationParams, hear)
    fields: dict[str, Any] = {"protocol": "legacy", "sharing": "per_client"}
    async with serving(deaf) as origin:
        url = f"{origin}/mcp"
        configs = [
            ServerConfig(
                name="deaf",
                transport="streamable_http",
                url=url,
                timeouts=limits(call=1),
                **fields,
            ),
            ServerConfig(name="talk", transport="memory", server=listening, **fields),
        ]
        async with hub_of(*configs, relays_questions=True) as hub:
            for config in configs:
                await call(hub, "pid", server=config.name, client="one")
            with anyio.fail_after(10):
                # The first one is on its way when the second has to wait for it.
                await hub.roots_changed("one")
                await hub.roots_changed("one")
            await until(lambda: len(told) == 2)
    assert "roots_not_told: server 'deaf'" in caplog.text
