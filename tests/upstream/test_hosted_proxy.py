"""A hosted server behind the proxy of its configuration: refusals, and a proxy that dies."""

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from pegboard import ConnectionLostError, Hub, ServerUnavailableError
from tests.upstream.board_servers import hub_of, until
from tests.upstream.hosted import (
    Host,
    HostedServer,
    Proxy,
    call,
    config_of,
    listening,
    saying,
    whole,
)

OK = saying(whole)


@asynccontextmanager
async def behind(
    host: Host, proxy: Proxy, user: str = ""
) -> AsyncGenerator[tuple[Hub, HostedServer]]:
    async with listening(host.server(OK)) as server:
        url = proxy.url.replace("://", f"://{user}") if user else proxy.url
        async with hub_of(config_of(server, proxy=url, bearer_token="of-the-server")) as hub:
            with anyio.fail_after(20):
                yield hub, server


async def unreached(hub: Hub) -> str:
    """The next call fails, and was not sent."""
    with pytest.raises(ServerUnavailableError) as caught:
        await call(hub)
    assert not caught.value.sent
    return str(caught.value)


async def test_calls_go_through_the_proxy_of_the_server(host: Host) -> None:
    async with Proxy().listening() as proxy, behind(host, proxy) as (hub, server):
        assert [await call(hub), await call(hub)] == ["done", "done"]
        assert proxy.heads
        place = f"127.0.0.1:{server.port}"
        if host.is_secure:
            assert {it.split()[0] for it in proxy.heads} == {"CONNECT"}
            assert {it.split()[1] for it in proxy.heads} == {place}
            assert not [it for it in proxy.heads if "of-the-server" in it]
        else:
            assert {it.split()[1] for it in proxy.heads} == {f"http://{place}/mcp"}


async def test_a_server_without_a_proxy_of_its_own_is_reached_directly(host: Host) -> None:
    async with (
        Proxy().listening() as proxy,
        listening(host.server(OK)) as server,
        listening(host.server(OK)) as other,
        hub_of(config_of(server, proxy=proxy.url), config_of(other, "other")) as hub,
    ):
        assert (await hub.call("mcp_other_go")).text() == "done"
        assert await call(hub) == "done"
        assert not [it for it in proxy.heads if f":{other.port}" in it.partition("\r\n")[0]]


async def test_the_password_of_the_proxy_reaches_the_proxy_only(host: Host) -> None:
    async with (
        Proxy().listening() as proxy,
        behind(host, proxy, "me:p%40ss-word@") as (hub, server),
    ):
        assert await call(hub) == "done"
        sent = b64encode(b"me:p@ss-word").decode()
        assert all(f"Basic {sent}" in it for it in proxy.heads)
        # A plain request passes through our proxy as it is.
        if host.is_secure:
            assert not [it for it in server.heads if sent in it]


async def test_a_proxy_that_dies_is_named_and_works_when_it_is_back(host: Host) -> None:
    proxy = Proxy()
    async with anyio.create_task_group() as group:
        first = await group.start(_run, proxy)
        async with behind(host, proxy) as (hub, server):
            assert await call(hub) == "done"
            first.cancel()
            await until(lambda: not server.open_connections)
            assert f"127.0.0.1:{proxy.port}" in await unreached(hub)
            assert len(server.calls) == 1
            await group.start(_run, proxy)
            await _until_it_works(hub)
            assert len(server.calls) == 2
        group.cancel_scope.cancel()


async def _run(proxy: Proxy, *, task_status: anyio.abc.TaskStatus[anyio.CancelScope]) -> None:
    with anyio.CancelScope() as scope:
        async with proxy.listening():
            task_status.started(scope)
            await anyio.sleep_forever()


async def _until_it_works(hub: Hub) -> None:
    with anyio.fail_after(10):
        while True:
            try:
                assert await call(hub) == "done"
            except ServerUnavailableError:
                await anyio.sleep(0.05)
            else:
                return


async def test_a_proxy_that_dies_during_a_call_loses_that_call(host: Host) -> None:
    proxy, is_read = Proxy(), anyio.Event()

    async def say(*_: object) -> None:
        is_read.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        scope = await group.start(_run, proxy)
        async with behind(host, proxy) as (hub, server):
            server.say = say

            async def kill() -> None:
                await is_read.wait()
                scope.cancel()

            group.start_soon(kill)
            with pytest.raises(ConnectionLostError) as caught:
                await call(hub)
            assert caught.value.sent
            assert len(server.calls) == 1
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "status", ["407 Proxy Authentication Required", "403 Forbidden", "502 Bad Gateway"]
)
async def test_a_proxy_that_refuses_is_named_with_its_status(
    secure_host: Host, status: str
) -> None:
    async with Proxy().listening() as proxy, behind(secure_host, proxy) as (hub, server):
        assert await call(hub) == "done"
        proxy.refusal = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
        await server.close_connections()
        await until(lambda: not proxy.tunnels)
        message = await unreached(hub)
        assert status.partition(" ")[0] in message
        assert "proxy" in message.lower()
        assert len(server.calls) == 1
        proxy.refusal = b""
        await _until_it_works(hub)


async def test_the_password_of_the_proxy_is_in_no_message(secure_host: Host) -> None:
    refusal = b"HTTP/1.1 407 me:p%40ss-word is wrong\r\nContent-Length: 0\r\n\r\n"
    async with (
        Proxy(refusal).listening() as proxy,
        behind(secure_host, proxy, "me:p%40ss-word@") as (hub, _),
    ):
        message = await unreached(hub)
        assert "ss-word" not in message
        assert "ss-word" not in str(hub.servers["it"].last_error)
