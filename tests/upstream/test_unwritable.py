"""What cannot be written as JSON fails alone, and a transport that fails is a loss."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from mcp.shared.memory import create_client_server_memory_streams

from pegboard import ProtocolError, ServerConfig, ServerState, UpstreamError
from pegboard.config.servers import Transport
from tests.upstream.board_servers import Bench, hub_of, script, until
from tests.upstream.http_clients import app_of
from tests.upstream.http_servers import Gate, config_for, serving
from tests.upstream.talkative import script as talkative_script
from tests.upstream.talkative import talkative

HALF = "half a pair: \ud83d"


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["sse", "streamable_http"])
async def test_a_request_that_cannot_be_written_leaves_the_calls_of_others_alone(
    transport: Transport, protocol: str
) -> None:
    gate = Gate()
    app, path = app_of(transport, gate)
    texts: list[str] = []
    async with (
        serving(app) as origin,
        hub_of(config_for(origin + path, transport, protocol=protocol)) as hub,
        anyio.create_task_group() as group,
    ):

        async def other() -> None:
            texts.append((await hub.call("mcp_remote_wait")).text())

        group.start_soon(other)
        await gate.until_waiting(1)
        with anyio.fail_after(5), pytest.raises(UpstreamError, match="was not sent") as caught:
            await hub.server("remote").request("resources/read", {"uri": HALF})
        assert not caught.value.sent
        gate.released.set()
        with anyio.fail_after(5):
            await until(lambda: texts)
        assert texts == ["done"]
        assert (hub.servers["remote"].state, hub.servers["remote"].starts) == ("ready", 1)


async def test_a_process_is_not_sent_what_cannot_be_written() -> None:
    async with hub_of(script("calc")) as hub:
        with anyio.fail_after(5), pytest.raises(UpstreamError, match="was not sent") as caught:
            await hub.server("calc").request("resources/read", {"uri": HALF})
        assert not caught.value.sent
        assert (hub.servers["calc"].state, hub.servers["calc"].starts) == ("ready", 1)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_address_that_cannot_be_written_is_not_subscribed_to(era: str) -> None:
    async with talkative("http", era) as (hub, server):
        with anyio.fail_after(5), pytest.raises(UpstreamError, match="half of a character"):
            await hub.server("talk").subscribe(HALF)
        assert (hub.servers["talk"].state, hub.servers["talk"].starts) == ("ready", 1)
        assert not server.subscribed


async def test_an_answer_that_cannot_be_written_is_an_error_for_the_server_that_asked() -> None:
    async def answer(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "accept", "content": {"city": HALF}}

    async with hub_of(talkative_script(protocol="legacy"), elicitation=answer) as hub:
        with anyio.fail_after(10), pytest.raises(ProtocolError, match="not a valid ElicitResult"):
            await hub.call("mcp_talk_ask")
        assert (hub.servers["talk"].state, hub.servers["talk"].starts) == ("ready", 1)


class Breaking:
    """A transport to a server of this process, of which one task fails when told to."""

    def __init__(self, bench: Bench) -> None:
        self._server = bench.server
        self.breaks = anyio.Event()

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[Any]:
        async with (
            create_client_server_memory_streams() as (client, server),
            anyio.create_task_group() as group,
        ):
            options = self._server.create_initialization_options()
            group.start_soon(partial(self._server.run, *server, options))
            group.start_soon(self._break)
            yield client
            group.cancel_scope.cancel()

    async def _break(self) -> None:
        await self.breaks.wait()
        self.breaks = anyio.Event()
        raise ValueError("A task of the transport failed.")

    async def __aenter__(self) -> Any:
        self._opened = self._open()
        return await self._opened.__aenter__()

    async def __aexit__(self, *error: Any) -> Any:
        return await self._opened.__aexit__(*error)


async def test_a_transport_that_fails_is_a_loss_and_the_server_is_connected_again() -> None:
    transport = Breaking(Bench(one=lambda _: "1"))
    config = ServerConfig(name="calc", transport="memory", server=transport, protocol="legacy")
    async with hub_of(config) as hub:
        assert (await hub.call("mcp_calc_one")).text() == "1"
        transport.breaks.set()
        await until(lambda: hub.servers["calc"].state != ServerState.READY)
        assert hub.servers["calc"].state == ServerState.DOWN
        assert hub.servers["calc"].last_error == "The connection broke."
        await until(lambda: hub.servers["calc"].state == ServerState.READY, seconds=10)
        assert (await hub.call("mcp_calc_one")).text() == "1"
