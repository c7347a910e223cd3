"""Certificates and handshakes of a hosted server that go wrong while a hub uses it."""

import os
import ssl
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from pegboard import ConfigError, Hub, ServerUnavailableError
from pegboard.config import Timeouts, TlsConfig
from pegboard.upstream.standalone import StandaloneClient
from tests import tls as tls_servers
from tests.tls import Authority, self_signed, server_context
from tests.upstream.board_servers import hub_of, until
from tests.upstream.hosted import (
    Host,
    HostedServer,
    call,
    config_of,
    listening,
    saying,
    whole,
)
from tests.upstream.http_servers import serving_raw

OK = saying(whole)


async def unavailable(hub: Hub, name: str = "mcp_it_go") -> ServerUnavailableError:
    """The next call fails, and was not sent."""
    with pytest.raises(ServerUnavailableError) as caught:
        await hub.call(name)
    assert not caught.value.sent
    return caught.value


async def refusal(config: Any) -> Exception:
    """Why a client cannot connect, or cannot use its connection."""
    client = StandaloneClient(config)
    try:
        with pytest.raises((ServerUnavailableError, ConfigError)) as caught:
            await client.connect()
            await client.list_tools()
    finally:
        await client.close()
    return caught.value


@pytest.mark.parametrize(
    ("days", "cause"), [((-9, -1), "has expired"), ((1, 9), "is not valid yet")]
)
async def test_a_certificate_that_goes_bad_is_named_and_a_new_one_works_without_a_restart(
    secure_host: Host, days: tuple[int, int], cause: str
) -> None:
    async with secure_host.hub(OK) as (hub, server):
        assert await call(hub) == "done"
        server.context = server_context(secure_host.authority.sign(days=days))
        await server.close_connections()
        message = str(await unavailable(hub))
        assert "127.0.0.1" in message
        assert cause in message
        assert len(server.calls) == 1
        server.context = server_context(secure_host.authority.sign())

        async def works() -> None:
            with anyio.fail_after(10):
                while True:
                    try:
                        return await _done(hub)
                    except ServerUnavailableError:
                        await anyio.sleep(0.05)

        await works()
        assert len(server.calls) == 2


async def _done(hub: Hub) -> None:
    assert await call(hub) == "done"


async def test_a_connection_that_is_open_outlives_its_certificate(secure_host: Host) -> None:
    async with secure_host.hub(OK) as (hub, server):
        assert await call(hub) == "done"
        server.context = server_context(secure_host.authority.sign(days=(-9, -1)))
        assert await call(hub) == "done"


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("self-signed", "self-signed certificate"),
        ("unknown", "unknown CA"),
        ("other host", "certificate for another host name"),
        ("expired", "has expired"),
    ],
)
async def test_a_certificate_that_is_not_accepted_is_named_with_its_host(
    authority: Authority, tmp_path: Path, kind: str, cause: str
) -> None:
    certificate = {
        "self-signed": lambda: self_signed(tmp_path),
        "unknown": lambda: Authority(tmp_path, "unknown").sign(),
        "other host": lambda: authority.sign("127.0.0.2"),
        "expired": lambda: authority.sign(days=(-9, -1)),
    }[kind]()
    async with listening(HostedServer(OK, server_context(certificate))) as server:
        error = await refusal(config_of(server))
        assert isinstance(error, ServerUnavailableError)
        assert "127.0.0.1" in str(error)
        assert cause in str(error)
        assert server.heads == []


async def test_a_handshake_that_hangs_ends_in_time_and_delays_no_other_server(
    host: Host,
) -> None:
    short = Timeouts(connect=1.5, list=10, call=10)
    async with (
        listening(host.server(OK)) as server,
        listening(host.server(OK)) as other,
        hub_of(config_of(server, timeouts=short), config_of(other, "other")) as hub,
    ):
        assert await call(hub) == "done"
        if not host.is_secure:
            # Without TLS there is no handshake: the connection is open, and the call is sent.
            return
        server.hangs = True
        await server.close_connections()
        before, is_over = server.connections, False

        async def hang() -> None:
            nonlocal is_over
            message = str(await unavailable(hub))
            assert "127.0.0.1" in message
            is_over = True

        async with anyio.create_task_group() as group:
            group.start_soon(hang)
            await until(lambda: server.connections > before)
            for _ in range(3):
                assert (await hub.call("mcp_other_go")).text() == "done"
            assert not is_over
        assert len(server.calls) == 1
        assert len(other.calls) == 3


async def test_a_handshake_that_the_server_ends_is_named(authority: Authority) -> None:
    async def hang_up(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()

    async with serving_raw(hang_up) as origin:
        server = HostedServer(OK, server_context(authority.sign()))
        server.port = int(origin.rpartition(":")[2])
        error = await refusal(config_of(server))
    assert isinstance(error, ServerUnavailableError)
    assert "closed the connection during the TLS handshake" in str(error)


async def test_a_port_that_speaks_plain_http_is_named(authority: Authority) -> None:
    with tls_servers.listening(None, b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        server = HostedServer(OK, server_context(authority.sign()))
        server.port = port
        error = await refusal(config_of(server))
    assert isinstance(error, ServerUnavailableError)
    assert "does not speak TLS" in str(error)


async def test_a_server_that_requires_a_client_certificate_is_named(authority: Authority) -> None:
    context = server_context(authority.sign(), client_ca=authority.ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with tls_servers.listening(context) as port:
        server = HostedServer(OK, context)
        server.port = port
        error = await refusal(config_of(server))
    assert isinstance(error, ServerUnavailableError)
    assert "client certificate" in str(error)


async def test_a_private_ca_is_trusted_for_its_server_only(tmp_path: Path) -> None:
    private = Authority(tmp_path, "private")
    async with (
        listening(HostedServer(OK, server_context(private.sign()))) as server,
        listening(HostedServer(OK, server_context(private.sign()))) as other,
        hub_of(config_of(server, tls=TlsConfig(ca=str(private.ca)))) as hub,
    ):
        assert await call(hub) == "done"
        assert "unknown CA" in str(await refusal(config_of(other)))


async def test_a_private_ca_of_one_server_does_not_vouch_for_another_in_the_same_hub(
    tmp_path: Path,
) -> None:
    private = Authority(tmp_path, "private")
    async with (
        listening(HostedServer(OK, server_context(private.sign()))) as server,
        listening(HostedServer(OK, server_context(private.sign()))) as other,
        hub_of(
            config_of(server, tls=TlsConfig(ca=str(private.ca))),
            config_of(other, "other"),
        ) as hub,
    ):
        assert await call(hub) == "done"
        assert "unknown CA" in str(hub.servers["other"].last_error)
        assert other.heads == []


async def test_a_client_certificate_is_shown(authority: Authority) -> None:
    context = server_context(authority.sign(), client_ca=authority.ca)
    shown = TlsConfig(
        client_cert=str(authority.sign(password=b"hunter2!")), client_key_password="hunter2!"
    )
    async with (
        listening(HostedServer(OK, context)) as server,
        hub_of(config_of(server, tls=shown)) as hub,
    ):
        assert await call(hub) == "done"


async def test_a_client_certificate_is_shown_to_its_own_server_only(authority: Authority) -> None:
    optional = server_context(authority.sign(), client_ca=authority.ca)
    optional.verify_mode = ssl.CERT_OPTIONAL
    async with (
        listening(HostedServer(OK, optional)) as server,
        listening(HostedServer(OK, optional)) as other,
        hub_of(
            config_of(server, tls=TlsConfig(client_cert=str(authority.sign()))),
            config_of(other, "other"),
        ) as hub,
    ):
        assert await call(hub) == "done"
        assert (await hub.call("mcp_other_go")).text() == "done"
        assert all(server.client_certificates)
        assert not any(other.client_certificates)


async def test_a_file_of_tls_that_cannot_be_used_is_named(
    authority: Authority, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.pem")
    async with listening(HostedServer(OK, server_context(authority.sign()))) as server:
        error = await refusal(config_of(server, tls=TlsConfig(ca=missing)))
        assert f"`tls.ca` names a file that does not exist: {missing}" in str(error)
        assert server.heads == []


@pytest.mark.parametrize("is_folder", [False, True])
async def test_an_authority_that_is_replaced_in_its_file_is_trusted_by_the_next_connection(
    tmp_path: Path, is_folder: bool
) -> None:
    before, after = Authority(tmp_path, "before"), Authority(tmp_path, "after")
    folder = tmp_path / "trusted"
    folder.mkdir()
    ca = folder / "ca.pem"
    ca.write_bytes(before.ca.read_bytes())
    tls = TlsConfig(ca=str(folder if is_folder else ca))
    async with (
        listening(HostedServer(OK, server_context(before.sign()))) as server,
        hub_of(config_of(server, tls=tls)) as hub,
    ):
        assert await call(hub) == "done"
        server.context = server_context(after.sign())
        replace(ca, after.ca)
        await server.close_connections()
        await until(lambda: not server.open_connections)
        assert await call(hub) == "done"
        assert len(server.calls) == 2


async def test_a_client_certificate_that_is_replaced_in_its_file_is_shown_by_the_next_connection(
    authority: Authority, tmp_path: Path
) -> None:
    before, after = Authority(tmp_path, "before"), Authority(tmp_path, "after")
    shown = tmp_path / "shown.pem"
    shown.write_bytes(before.sign().read_bytes())
    context = server_context(authority.sign(), client_ca=before.ca)
    async with (
        listening(HostedServer(OK, context)) as server,
        hub_of(config_of(server, tls=TlsConfig(client_cert=str(shown)))) as hub,
    ):
        assert await call(hub) == "done"
        server.context = server_context(authority.sign(), client_ca=after.ca)
        replace(shown, after.sign())
        await server.close_connections()
        await until(lambda: not server.open_connections)
        assert await call(hub) == "done"
        assert len(server.calls) == 2


def replace(path: Path, by: Path) -> None:
    """Write a file anew, a second later for all who look at its time."""
    then = path.stat().st_mtime
    path.write_bytes(by.read_bytes())
    os.utime(path, (then + 1, then + 1))
