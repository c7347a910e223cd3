"""How servers, reloads and hubs end, from any task, however they are interrupted."""

import asyncio  # noqa: TID251 - native cancellation and loops that end are the matter
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest

from pegboard import (
    ConnectionLostError,
    Hub,
    NotConnectedError,
    Registry,
    ServerConfig,
    ServerState,
    ServerUnavailableError,
)
from pegboard.upstream.server_requests import Questions
from pegboard.upstream.standalone import StandaloneClient
from tests.upstream.board_servers import Bench, hub_of, limits, memory, script, until


async def reload(hub: Hub, *configs: ServerConfig) -> None:
    hub._source = configs  # pyright: ignore[reportPrivateUsage]
    await hub.reload()


class RequestRouting(Bench):
    """A server whose only tool asks a question, and gives the answer's action."""

    def __init__(self) -> None:
        super().__init__(go=lambda _: self._ask())

    async def _ask(self) -> str:
        assert self.context is not None
        asked: Any = self.context.session
        return (await asked.elicit_form("Well?", {"type": "object", "properties": {}})).action


class Person:
    """A person who is waited for in a thread; other work must not wait too."""

    def __init__(self) -> None:
        self._decided = threading.Event()
        self._waited_in_vain = False

    async def decides(self) -> None:
        await anyio.to_thread.run_sync(self._wait)

    def _wait(self) -> None:
        self._waited_in_vain = not self._decided.wait(10)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._decided.set()
        assert not self._waited_in_vain


async def test_closing_a_hub_ends_what_is_waiting_in_a_thread_for_a_person() -> None:
    asked, person = anyio.Event(), Person()

    async def ask_person(server: str, params: Mapping[str, Any]) -> None:
        asked.set()
        await person.decides()

    hub = hub_of(memory("calc", RequestRouting(), protocol="legacy"), elicitation=ask_person)
    await hub.start()
    async with anyio.create_task_group() as group:
        group.start_soon(lost, hub)
        await asked.wait()
        with person:
            await hub.close()


@pytest.mark.parametrize("way", ["group", "task"])
async def test_a_callback_may_close_its_hub_from_a_task_that_it_starts(way: str) -> None:
    went_on = anyio.Event()

    async def close(server: str, params: Mapping[str, Any]) -> None:
        if way == "group":
            async with anyio.create_task_group() as group:
                group.start_soon(hub.close)
        else:
            await asyncio.create_task(hub.close())
        went_on.set()

    hub = hub_of(memory("calc", RequestRouting(), protocol="legacy"), elicitation=close)
    await hub.start()
    with anyio.fail_after(5):
        await lost(hub)
        await went_on.wait()
        await hub.close()
    assert len(hub.registry) == 0


async def test_a_callback_may_reload_its_hub_without_the_server_that_asks() -> None:
    async def remove(server: str, params: Mapping[str, Any]) -> None:
        await reload(hub, memory("other", Bench(one=lambda _: "1")))

    hub = hub_of(memory("calc", RequestRouting(), protocol="legacy"), elicitation=remove)
    with anyio.fail_after(5):
        async with hub:
            await lost(hub)
            await until(lambda: set(hub.registry) == {"mcp_other_one"})


async def test_a_task_that_outlives_its_callback_waits_until_the_hub_is_closed() -> None:
    answered = anyio.Event()
    closing: list[asyncio.Task[None]] = []

    async def close_later() -> None:
        await answered.wait()
        await hub.close()
        assert hub.servers["calc"].state == ServerState.CLOSED

    async def ask(server: str, params: Mapping[str, Any]) -> None:
        closing.append(asyncio.create_task(close_later()))

    hub = hub_of(memory("calc", RequestRouting(), protocol="legacy"), elicitation=ask)
    await hub.start()
    assert (await hub.call("mcp_calc_go")).text() == "decline"
    answered.set()
    with anyio.fail_after(5):
        await closing[0]


async def test_a_callback_may_close_the_only_client_it_is_called_by() -> None:
    async def close(server: str, params: Mapping[str, Any]) -> None:
        await client.close()

    config = memory("calc", RequestRouting(), protocol="legacy")
    client = StandaloneClient(config, questions=Questions(elicitation=close))
    await client.connect()
    with anyio.fail_after(5):
        with pytest.raises(ConnectionLostError):
            await client.call_tool("go")
        await client.close()
    assert not client.is_connected


async def test_a_server_that_is_stopped_while_it_connects_is_not_started_again(
    tmp_path: Path,
) -> None:
    started = tmp_path / "started"
    stubborn = ServerConfig(
        name="stubborn",
        transport="stdio",
        command="/bin/sh",
        # Ending it takes longer than it may take to connect.
        args=("-c", f"trap '' TERM; echo x >> {started}; while :; do sleep 1; done"),
        timeouts=limits(connect=2.5),
    )
    hub = hub_of(stubborn)
    async with anyio.create_task_group() as group:
        group.start_soon(hub.start)
        await until(started.exists)
        await hub.server("stubborn").stop()
        status = hub.servers["stubborn"]
        assert (status.state, status.last_error) == (ServerState.CLOSED, None)
    await hub.close()
    assert started.read_text("utf-8") == "x\n"


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("way", ["stop", "reload", "close"])
async def test_a_call_that_may_be_repeated_does_not_restart_a_server_that_we_ended(
    way: str, protocol: str
) -> None:
    bench = Bench(slow=never)
    config = memory("calc", bench, idempotent=("slow",), protocol=protocol)
    async with hub_of(config) as hub:
        async with anyio.create_task_group() as group:
            group.start_soon(lost, hub, "mcp_calc_slow")
            await until(lambda: bench.calls)
            match way:
                case "stop":
                    await hub.server("calc").stop()
                case "reload":
                    await reload(hub)
                case _:
                    await hub.close()
        assert (bench.calls, bench.lists) == (["slow"], 1)
        with anyio.fail_after(5):
            await bench.cancelled.wait()


async def test_a_tool_may_close_the_hub_that_runs_it_in_this_process() -> None:
    async def close(_: Mapping[str, Any]) -> str:
        await hub.close()
        return "closed"

    hub = hub_of(memory("calc", Bench(go=close), protocol="2026-07-28"))
    await hub.start()
    with anyio.fail_after(5), suppress(ConnectionLostError):
        await hub.call("mcp_calc_go")
    assert len(hub.registry) == 0


async def test_a_request_that_was_not_sent_does_not_restart_a_server_that_we_stopped() -> None:
    bench = Bench(one=lambda _: "1")
    async with hub_of(memory("calc", bench)) as hub:
        connection: Any = hub.server("calc").connection
        session = connection._session

        async def stopped_meanwhile(*_: Any, **__: Any) -> None:
            await connection.close()
            raise ServerUnavailableError("It was not reached.", server="calc")

        session.request = stopped_meanwhile
        with pytest.raises(ServerUnavailableError):
            await hub.call("mcp_calc_one")
        status = hub.servers["calc"]
        assert (status.state, status.starts) == (ServerState.CLOSED, 1)


@pytest.mark.parametrize("way", ["waits", "closes"])
async def test_whoever_is_told_of_progress_holds_up_no_closing(way: str) -> None:
    told, person = anyio.Event(), Person()

    async def note(*_: object) -> None:
        told.set()
        if way == "closes":
            await hub.close()
        else:
            await person.decides()

    async def progress() -> None:
        # It is answered at once, or not any more.
        with suppress(ConnectionLostError):
            await hub.call("mcp_light_progress", {"n": 1}, on_progress=note)

    async def slow() -> None:
        with pytest.raises(ConnectionLostError):
            await hub.call("mcp_light_slow", {"seconds": 30})

    hub = hub_of(script("light"))
    await hub.start()
    async with anyio.create_task_group() as group:
        group.start_soon(slow)
        group.start_soon(progress)
        await told.wait()
        with person:
            await hub.close()


async def test_a_server_that_was_removed_says_so_and_does_not_start() -> None:
    bench = Bench(one=lambda _: "1")
    async with hub_of(memory("calc", bench)) as hub:
        server = hub.server("calc")
        await reload(hub)
        for use in (server.start, server.refresh, lambda: server.request("ping")):
            with pytest.raises(NotConnectedError, match="removed from the configuration"):
                await use()
        assert server.status.state == ServerState.CLOSED
    assert bench.lists == 1


async def test_a_closing_goes_on_when_whoever_waits_for_it_is_cancelled() -> None:
    hub = hub_of(script("light"))
    await hub.start()
    closing = asyncio.create_task(hub.close())
    await anyio.lowlevel.checkpoint()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await until(lambda: len(hub.registry) == 0)
    assert hub.servers["light"].state == ServerState.CLOSED


async def test_a_reload_goes_on_when_whoever_waits_for_it_is_cancelled() -> None:
    bench = Bench(one=lambda _: "1")
    server: Any = bench.server
    listing = server._request_handlers["tools/list"].handler
    asked, go = anyio.Event(), anyio.Event()

    async def late(*args: Any) -> Any:
        asked.set()
        await go.wait()
        return await listing(*args)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, late)
    async with hub_of() as hub:
        async with anyio.create_task_group() as group:
            group.start_soon(reload, hub, memory("calc", bench))
            await asked.wait()
            group.cancel_scope.cancel()
        go.set()
        await until(lambda: set(hub.registry) == {"mcp_calc_one"})


async def test_a_reload_that_a_closing_overtakes_leaves_nothing_behind() -> None:
    bench = Bench(one=lambda _: "1")
    server: Any = bench.server
    asked = anyio.Event()

    async def silent(*_: Any) -> Any:
        asked.set()
        await anyio.sleep_forever()

    server.add_request_handler("tools/list", types.PaginatedRequestParams, silent)
    hub = hub_of()
    await hub.start()

    async def overtaken() -> None:
        with pytest.raises(NotConnectedError):
            await reload(hub, memory("calc", bench))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(overtaken)
            await asked.wait()
            await hub.close()
    assert len(hub.registry) == 0
    assert hub.servers["calc"].state == ServerState.CLOSED


async def test_a_server_that_leaves_while_its_long_list_is_put_up_leaves_no_tools() -> None:
    entered, go = threading.Event(), threading.Event()

    class Slow(Registry):
        def register_many(self, *args: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread() and len(self):
                entered.set()
                go.wait(5)
            return super().register_many(*args, **options)

    bench = Bench()
    bench.tools = {f"tool{number}": lambda _: "1" for number in range(300)}
    async with hub_of(memory("calc", bench), registry=Slow()) as hub:
        assert len(hub.registry) == 300
        server = hub.server("calc")
        bench.tools["another"] = lambda _: "1"

        async def remove() -> None:
            await reload(hub)
            assert len(hub.registry) == 0

        async with anyio.create_task_group() as group:
            group.start_soon(server.refresh)
            await until(entered.is_set)
            group.start_soon(remove)
            await until(lambda: not hub.servers)
            go.set()


def test_closing_after_the_loop_is_gone_takes_the_tools_off_the_board() -> None:
    hub = hub_of(memory("calc", Bench(one=lambda _: "1")))
    asyncio.run(hub.start())
    assert len(hub.registry) == 1
    asyncio.run(hub.close())
    assert len(hub.registry) == 0
    assert hub.servers["calc"].state == ServerState.CLOSED


async def never(_: Mapping[str, Any]) -> str:
    await anyio.sleep_forever()
    return "never"


async def lost(hub: Hub, tool: str = "mcp_calc_go") -> None:
    with pytest.raises(ConnectionLostError):
        await hub.call(tool)
