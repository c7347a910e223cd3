"""Where a login may lead: a server names addresses, and must not choose any that it likes."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import pytest
from anyio.abc import SocketStream

from pegboard import ServerAuthenticationError, ServerConfig, UntrustedAddressError
from pegboard.config import OAuthConfig, Timeouts
from pegboard.upstream.http.login import LARGEST_ANSWER, LoginAddresses, is_internal
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import answer, read_request

JSON = {"content_type": "application/json"}
ROBOT: dict[str, Any] = {
    "flow": "client_credentials",
    "client_id": "robot",
    "client_secret": "the-secret-of-it",
}


@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


class Place:
    """Answers each path as it is told, on one address of this machine, and counts connections."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.origin = ""
        self.paths: dict[str, bytes] = {}
        self.connections = 0
        self.seen: list[str] = []

    async def handle(self, stream: SocketStream) -> None:
        self.connections += 1
        async with stream:
            try:
                while True:
                    head, _ = await read_request(stream)
                    path = head.split(b" ")[1].decode()
                    self.seen.append(path)
                    await stream.send(self.paths.get(path, answer("404 Not Found")))
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    def offers(self, path: str, **content: Any) -> None:
        self.paths[path] = answer("200 OK", json.dumps(content).encode(), **JSON)

    def is_login_of(self, origin: str, **fields: Any) -> None:
        """Be the authorization server of an issuer."""
        metadata = {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            **fields,
        }
        self.offers("/.well-known/oauth-authorization-server", **metadata)
        self.offers("/token", access_token="t-12345678", token_type="bearer", expires_in=3600)


@asynccontextmanager
async def place(host: str) -> AsyncGenerator[Place]:
    it = Place(host)
    listener = await anyio.create_tcp_listener(local_host=host)
    it.origin = f"http://{host}:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, it.handle)
        yield it
        group.cancel_scope.cancel()


@asynccontextmanager
async def server_and_victim() -> AsyncGenerator[tuple[Place, Place]]:
    """A server that wants a login, and a program that listens only for this machine."""
    async with place("127.0.0.1") as server, place("127.0.0.2") as victim:
        leads_to(server, f"{server.origin}/meta")
        with anyio.fail_after(20):
            yield server, victim


def leads_to(server: Place, metadata: str) -> None:
    challenge = f'Bearer resource_metadata="{metadata}"'
    server.paths["/mcp"] = answer("401 Unauthorized", www_authenticate=challenge)


def resource(server: Place, issuer: str) -> dict[str, Any]:
    return {"resource": f"{server.origin}/mcp", "authorization_servers": [issuer]}


def config_of(server: Place, **oauth: Any) -> ServerConfig:
    return ServerConfig(
        name="it",
        transport="streamable_http",
        url=f"{server.origin}/mcp",
        oauth=OAuthConfig(**{**ROBOT, **oauth}),
        timeouts=Timeouts(connect=10, call=10),
    )


async def refusal(server: Place, **oauth: Any) -> ServerAuthenticationError:
    async with hub_of(config_of(server, **oauth)) as hub:
        with pytest.raises(ServerAuthenticationError) as caught:
            await hub.server("it").start()
    return caught.value


async def test_metadata_of_a_resource_is_not_fetched_from_another_internal_address() -> None:
    async with server_and_victim() as (server, victim):
        leads_to(server, f"{victim.origin}/admin/restart")
        error = await refusal(server)
        assert victim.connections == 0
    assert isinstance(error, UntrustedAddressError)
    assert error.host == "127.0.0.2"
    assert "`oauth.trusted_hosts`" in str(error)


async def test_metadata_of_an_authorization_server_is_not_fetched_from_there_either() -> None:
    async with server_and_victim() as (server, victim):
        server.offers("/meta", **resource(server, victim.origin))
        assert isinstance(await refusal(server), UntrustedAddressError)
        assert victim.connections == 0


@pytest.mark.parametrize(
    ("endpoint", "oauth"),
    [
        ("token_endpoint", {}),
        ("registration_endpoint", {"flow": "authorization_code", "client_id": None}),
    ],
)
async def test_no_endpoint_of_an_authorization_server_may_be_there(
    endpoint: str, oauth: dict[str, Any]
) -> None:
    async with server_and_victim() as (server, victim):
        server.offers("/meta", **resource(server, server.origin))
        server.is_login_of(server.origin, **{endpoint: f"{victim.origin}/token"})
        assert isinstance(await refusal(server, **oauth), UntrustedAddressError)
        assert victim.connections == 0


async def test_a_redirect_to_an_internal_address_is_not_followed() -> None:
    async with server_and_victim() as (server, victim):
        away = answer("302 Found", location=f"{victim.origin}/")
        for path in ("/meta", "/.well-known/oauth-authorization-server"):
            server.paths[path] = away
        await refusal(server)
        assert "/meta" in server.seen
        assert victim.connections == 0


async def test_a_name_that_resolves_to_an_internal_address_is_refused_at_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve = socket.getaddrinfo

    def rebinding(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != "login.example":
            return resolve(host, port, *args, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    async with server_and_victim() as (server, victim):
        port = victim.origin.rpartition(":")[2]
        server.offers("/meta", **resource(server, f"https://login.example:{port}"))
        error = await refusal(server)
        assert victim.connections == 0
    assert isinstance(error, UntrustedAddressError)
    assert error.host == "login.example"
    assert "127.0.0.2" in str(error)


async def test_a_trusted_host_may_be_anywhere() -> None:
    async with server_and_victim() as (server, login):
        server.offers("/meta", **resource(server, login.origin))
        login.is_login_of(login.origin)
        # The token is refused, too; what counts is that it was obtained.
        await refusal(server, trusted_hosts=("127.0.0.2",))
        assert "/token" in login.seen


@pytest.mark.parametrize(
    "reply",
    [
        answer("200 OK", b"{" + b" " * LARGEST_ANSWER + b"}", **JSON),
        answer("200 OK", b"\x1f\x8b", content_encoding="gzip", **JSON),
    ],
    ids=["large", "compressed"],
)
async def test_an_answer_that_is_too_large_or_compressed_ends_the_login(reply: bytes) -> None:
    async with server_and_victim() as (server, _):
        server.paths["/meta"] = reply
        async with hub_of(config_of(server)) as hub:
            with pytest.raises(ConnectionError, match=r"larger|compressed"):
                await hub.server("it").start()


@pytest.mark.parametrize(
    ("own", "url", "is_allowed"),
    [
        ("https://mcp.example/mcp", "https://mcp.example/meta", True),
        ("https://mcp.example/mcp", "https://login.example/meta", True),
        ("https://mcp.example/mcp", "http://mcp.example/meta", False),
        ("https://mcp.example/mcp", "http://login.example/meta", False),
        ("https://mcp.example/mcp", "https://localhost/meta", False),
        ("https://mcp.example/mcp", "https://169.254.169.254/latest", False),
        ("https://mcp.example/mcp", "https://[::1]/", False),
        ("https://mcp.example/mcp", "https://8.8.8.8/", True),
        ("http://localhost:1/mcp", "http://127.0.0.1:2/meta", True),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.3:1/meta", False),
        ("http://10.0.0.1/mcp", "http://10.0.0.1:99/meta", True),
        ("http://10.0.0.1/mcp", "https://10.0.0.2/meta", False),
        ("https://mcp.example/mcp", "http://SSO.corp/meta", True),
    ],
)
def test_an_address_is_judged_by_what_is_written_in_it(
    own: str, url: str, is_allowed: bool
) -> None:
    oauth = OAuthConfig(trusted_hosts=("sso.corp",))
    config = ServerConfig(name="it", transport="streamable_http", url=own, oauth=oauth)
    if is_allowed:
        LoginAddresses(config).check(httpx2.URL(url))
    else:
        with pytest.raises(UntrustedAddressError):
            LoginAddresses(config).check(httpx2.URL(url))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("192.168.1.1", True),
        ("169.254.169.254", True),
        ("100.64.0.1", True),
        ("0.0.0.0", True),
        ("224.0.0.1", True),
        ("::1", True),
        ("fe80::1%eth0", True),
        ("fd00::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:8.8.8.8", False),
        ("64:ff9b::7f00:1", True),
        ("2002:7f00:1::", True),
        ("8.8.8.8", False),
        ("2606:4700::1111", False),
        ("example.com", False),
    ],
)
def test_an_internal_address_is_known_in_every_spelling(address: str, expected: bool) -> None:
    assert is_internal(address) is expected
