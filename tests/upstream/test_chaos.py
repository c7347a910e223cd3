"""What users suffer from elsewhere, done to us on purpose."""

import os
import signal

import anyio
import anyio.abc
import pytest

from pegboard import (
    ConnectionLostError,
    Hub,
    ServerConfig,
    ServerState,
    ServerTimeoutError,
    ServerUnavailableError,
    ToolTimeoutError,
)
from tests.upstream.board_servers import hub_of, limits, script, until
from tests.upstream.http_servers import build_server, serving, serving_raw


async def pid_of(hub: Hub, server: str = "light") -> int:
    return int((await hub.call(f"mcp_{server}_pid")).text())


async def test_killing_the_process_in_mid_call_ends_the_call_and_the_next_one_works() -> None:
    async with hub_of(script("light")) as hub:
        pid = await pid_of(hub)
        failures: list[ConnectionLostError] = []

        async def call() -> None:
            try:
                await hub.call("mcp_light_slow", {"seconds": 30})
            except ConnectionLostError as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(call)
            await until(lambda: hub.server("light").connection.in_flight == 3)
            os.kill(pid, signal.SIGKILL)
        assert [error.sent for error in failures] == [True, True, True]
        assert await pid_of(hub) != pid


async def test_a_frozen_process_hangs_neither_the_call_nor_the_goodbye() -> None:
    config = script("light", timeouts=limits(call=1))
    with anyio.fail_after(15):
        async with hub_of(config) as hub:
            pid = await pid_of(hub)
            os.kill(pid, signal.SIGSTOP)
            with pytest.raises(ToolTimeoutError):
                await hub.call("mcp_light_echo", {"text": "are you there?"})
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("command", "args"),
    [("cat", ()), ("sleep", ("1000",)), ("yes", ("no JSON",)), ("false", ())],
    ids=["echoes_everything", "silent", "garbage", "ends_at_once"],
)
async def test_what_is_no_server_is_a_clear_error_within_the_limit(
    command: str, args: tuple[str, ...]
) -> None:
    config = ServerConfig(
        name="odd", transport="stdio", command=command, args=args, timeouts=limits(connect=0.5)
    )
    with anyio.fail_after(15):
        async with hub_of(config) as hub:
            status = hub.servers["odd"]
            # The background may already be trying again.
            assert status.state in (ServerState.DOWN, ServerState.STARTING)
            assert status.last_error
            with pytest.raises(ServerUnavailableError) as caught:
                await hub.server("odd").start()
            assert not caught.value.sent


@pytest.mark.timeout(60)
async def test_a_line_of_fifty_megabytes_arrives_whole() -> None:
    async with hub_of(script("light")) as hub:
        result = await hub.call("mcp_light_big", {"n": 50_000_000})
        assert len(result.text()) == 50_000_000


@pytest.mark.timeout(60)
async def test_a_hundred_servers_of_which_ten_crash_and_ten_are_silent() -> None:
    def config(number: int) -> ServerConfig:
        name = f"s{number}"
        if number % 10 == 3:
            return ServerConfig(name=name, transport="stdio", command="false")
        if number % 10 == 7:
            limit = limits(connect=3)
            return ServerConfig(
                name=name, transport="stdio", command="sleep", args=("1000",), timeouts=limit
            )
        return script(name)

    with anyio.fail_after(55):
        async with hub_of(*[config(number) for number in range(100)]) as hub:
            states = [status.state for status in hub.servers.values()]
            assert states.count(ServerState.READY) == 80
            assert len(hub.registry) == 80 * 9
            for number in (0, 42, 99):
                result = await hub.call(f"mcp_s{number}_echo", {"text": "here"})
                assert result.text() == "here"


async def test_a_server_that_comes_back_on_the_same_port_is_found_again() -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        port = int(origin.rpartition(":")[2])
        url = f"{origin}/mcp"
        hub = hub_of(ServerConfig(name="web", transport="streamable_http", url=url))
        await hub.start()
        assert (await hub.call("mcp_web_echo", {"text": "one"})).text() == "one"
    with pytest.raises(ServerUnavailableError):
        await hub.call("mcp_web_echo", {"text": "two"})
    assert hub.servers["web"].state in (ServerState.DOWN, ServerState.STARTING)
    async with serving(build_server().streamable_http_app(), port=port):
        # It pauses for longer the more often it has tried meanwhile.
        await until(lambda: hub.servers["web"].state == ServerState.READY, seconds=15)
        assert (await hub.call("mcp_web_echo", {"text": "three"})).text() == "three"
        await hub.close()


async def test_a_forgotten_session_is_opened_again_without_anybody_noticing() -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        port = int(origin.rpartition(":")[2])
        config = ServerConfig(
            name="web", transport="streamable_http", url=f"{origin}/mcp", protocol="legacy"
        )
        hub = hub_of(config)
        await hub.start()
        assert (await hub.call("mcp_web_echo", {"text": "one"})).text() == "one"
    async with serving(build_server().streamable_http_app(), port=port):
        assert (await hub.call("mcp_web_echo", {"text": "two"})).text() == "two"
        assert hub.servers["web"].starts == 2
        await hub.close()


async def test_a_half_open_connection_ends_at_the_limit() -> None:
    async def swallow(stream: anyio.abc.SocketStream) -> None:
        while True:
            await stream.receive()

    async with serving_raw(swallow) as origin:
        config = ServerConfig(
            name="deaf",
            transport="streamable_http",
            url=f"{origin}/mcp",
            timeouts=limits(connect=0.3),
        )
        async with hub_of(config) as hub:
            with pytest.raises(ServerTimeoutError):
                await hub.server("deaf").start()
