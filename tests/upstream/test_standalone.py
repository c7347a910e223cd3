import asyncio  # noqa: TID251 - a second event loop is the matter

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from pegboard import ConnectionLostError, NotConnectedError, ServerState, ToolTimeoutError
from pegboard.upstream.standalone import StandaloneClient
from tests.compat.excelmanus_servers import linux_only
from tests.upstream.board_servers import Bench, limits, memory, script, text_of
from tests.upstream.processes import alive, all_ended, new_marker, shell, until


async def test_connect_list_call_close_in_any_order_any_number_of_times() -> None:
    client = StandaloneClient(script("light"))
    assert not client.is_connected
    await client.close()
    with pytest.raises(NotConnectedError, match="connect"):
        await client.call_tool("echo", {"text": "hi"})
    for _ in range(2):
        await client.connect()
        await client.connect()
        assert client.is_connected
        assert len(await client.list_tools()) == 9
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"
        await client.close()
        await client.close()
        assert not client.is_connected


async def test_a_lost_server_is_noticed_and_stays_lost_until_somebody_connects() -> None:
    client = StandaloneClient(script("light"))
    await client.connect()
    with pytest.raises(ConnectionLostError):
        await client.call_tool("crash", {})
    assert not client.is_connected
    assert client.state == ServerState.DOWN
    with pytest.raises(NotConnectedError, match="exited with code 1"):
        await client.call_tool("echo", {"text": "hi"})
    assert text_of(await client.call_tool("echo", {"text": "hi"}, reconnect=True)) == "hi"
    await client.close()


async def test_a_call_has_a_limit() -> None:
    bench = Bench(slow=lambda _: anyio.sleep_forever())  # pyright: ignore[reportArgumentType]
    client = StandaloneClient(memory("calc", bench, timeouts=limits(call=0.05)))
    await client.connect()
    with pytest.raises(ToolTimeoutError):
        await client.call_tool("slow")
    await client.close()


async def test_it_is_used_from_another_loop() -> None:
    client = StandaloneClient(memory("calc", Bench(one=lambda _: "1")))
    await client.connect()

    def in_a_thread() -> str:
        return text_of(asyncio.run(client.call_tool("one")))

    assert await anyio.to_thread.run_sync(in_a_thread) == "1"
    await client.close()


def test_after_its_event_loop_is_gone_it_connects_again() -> None:
    client = StandaloneClient(memory("calc", Bench(one=lambda _: "1")))
    asyncio.run(client.connect())
    assert not client.is_connected

    async def again() -> str:
        await client.connect()
        try:
            return text_of(await client.call_tool("one"))
        finally:
            await client.close()

    assert asyncio.run(again()) == "1"


@linux_only
async def test_a_cancelled_connect_ends_the_server() -> None:
    client = StandaloneClient(shell("cat > /dev/null", marker=(marker := new_marker())))
    async with anyio.create_task_group() as group:
        group.start_soon(client.connect)
        await until(lambda: bool(alive(marker)))
        group.cancel_scope.cancel()
    assert (client.state, client.is_connected) == (ServerState.COLD, False)
    await all_ended(marker)


@linux_only
async def test_a_connect_that_is_cancelled_on_another_loop_ends_the_server_too() -> None:
    client = StandaloneClient(shell("cat > /dev/null", marker=(marker := new_marker())))

    async def give_up() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.connect)
            await until(lambda: len(alive(marker)) > 0)
            group.cancel_scope.cancel()

    # Its loop is this one.
    await client._owner_loop.open()  # pyright: ignore[reportPrivateUsage]
    await anyio.to_thread.run_sync(asyncio.run, give_up())
    await all_ended(marker)
    await until(lambda: client.state == ServerState.COLD)


async def test_a_cancelled_connect_leaves_the_connection_to_the_others() -> None:
    client = StandaloneClient(script("light"))
    impatient = anyio.CancelScope()

    async def give_up() -> None:
        with impatient:
            await client.connect()

    async with anyio.create_task_group() as group:
        group.start_soon(give_up)
        group.start_soon(client.connect)
        while client.state == ServerState.COLD:
            await anyio.lowlevel.checkpoint()
        impatient.cancel()
    assert impatient.cancelled_caught
    assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"
    with anyio.CancelScope() as impatient:
        impatient.cancel()
        await client.connect()
    assert client.is_connected
    await client.close()


async def test_a_connect_that_is_cancelled_at_its_very_end_is_cancelled_or_not() -> None:
    client = StandaloneClient(memory("calc", Bench(one=lambda _: "1")))
    scope = anyio.CancelScope()

    async def give_up() -> None:
        with scope:
            await client.connect()

    async with anyio.create_task_group() as group:
        group.start_soon(give_up)
        while not client.is_connected:
            await anyio.lowlevel.checkpoint()
        scope.cancel()
    assert client.is_connected is not scope.cancelled_caught
    await client.close()
