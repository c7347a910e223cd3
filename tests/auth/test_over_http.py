"""Clients that show a key, or log in by themselves, over a real socket."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from anyio.to_thread import run_sync
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from pegboard import Hub, Tool
from pegboard.auth import ApiKeys, AuthSettings, KeyGrant, TokenIssuer, open_authenticator
from pegboard.gateway import Gateway
from pegboard.model.principal import OPERATOR
from pegboard.server import App, HttpAuthenticator, Limits, RequestPipeline
from pegboard.server.http.uvicorn_server import HttpServer, listen_on
from pegboard.storage import open_store
from pegboard.upstream import NoCatalogCache
from tests.auth.token_server import TokenServer, token_server
from tests.server.serving import modern_headers, modern_request


@pytest.fixture(scope="module")
def running() -> Iterator[TokenServer]:
    with token_server() as server:
        yield server


@asynccontextmanager
async def served(
    settings: AuthSettings, storage: Path | None = None, *, config: Any = ()
) -> AsyncGenerator[str]:
    """Give the address of a gateway with one definition in it."""
    listener = listen_on("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings = msgspec.structs.replace(settings, resource=f"{url}/mcp")
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(
            Hub.open(config or [], catalog_cache=NoCatalogCache())
        )
        hub.registry.register(Tool(name="idea", description="Not built yet."))
        authenticator = await stack.enter_async_context(
            open_authenticator(settings, storage=storage)
        )
        gateway = await stack.enter_async_context(Gateway(hub))
        app = App(
            RequestPipeline(gateway),
            authenticator=HttpAuthenticator(authenticator, settings=settings),
        )
        await stack.enter_async_context(app.open())
        server = HttpServer(app, limits=Limits(), end_within=1)
        listener.listen()
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(server.serve, [listener])
        yield url
        await app.end_streams()
        server.end()


class Nothing:
    """Remembers no token."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


async def names_seen(url: str, mode: Any, *, at: str = "/mcp", **options: Any) -> list[str]:
    """List the tools with the client of the SDK."""
    async with httpx2.AsyncClient(timeout=30, **options) as http:
        transport = streamable_http_client(f"{url}{at}", http_client=http)
        async with Client(transport, mode=mode) as client:
            return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_finds_the_issuer_and_logs_in_by_itself(
    running: TokenServer, mode: str
) -> None:
    """401, our metadata, the issuer's metadata, a token, and in: nothing but the address given."""
    async with served(AuthSettings(issuers=(TokenIssuer(issuer=running.issuer),))) as url:
        login = ClientCredentialsOAuthProvider(
            f"{url}/mcp",
            Nothing(),
            "agent",
            "agent",
            "client_secret_post",
            issuer=running.issuer,
        )
        names = await names_seen(url, mode, auth=login)
    # A client asks for all scopes that it is told of: those for finding and calling, no others.
    assert "call_tool" in names
    assert "register_tool" not in names


def make_key(path: Path, grant: KeyGrant) -> str:
    with open_store(path, tenant=OPERATOR) as store, ApiKeys(store) as keys:
        return keys.create(grant).secret


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_key_chooses_the_surface_where_the_address_does_not(
    tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "pegboard.db"
    secret = await run_sync(make_key, path, KeyGrant(surface="full"))
    headers = {"X-API-Key": secret}
    async with served(AuthSettings(keys=True), path) as url:
        assert await names_seen(url, mode, headers=headers) == ["idea"]
        assert "search_tools" in await names_seen(url, mode, at="/mcp-search", headers=headers)


@pytest.mark.covers("X-REG-7")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_shows_a_key(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "pegboard.db"

    secret = await run_sync(make_key, path, KeyGrant(scopes=("read",)))
    async with served(AuthSettings(keys=True), path) as url:
        for headers in ({"Authorization": f"Bearer {secret}"}, {"X-API-Key": secret}):
            names = await names_seen(url, mode, headers=headers)
            assert names == ["search_tools", "get_tool_definition", "list_tools_by_category"]


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "Bearer",
        "Bearer x",
        "Basic eDp5",
        "Bearer a.b.c",
        "Bearer " + "x" * 20_000,
        "Bearer \xff",
    ],
    ids=["none", "empty", "odd", "basic", "garbage", "huge", "bytes"],
)
@pytest.mark.parametrize("path", ["/mcp", "/mcp-full/idea", "/sse", "/messages", "/metrics"])
async def test_nobody_comes_in_by_any_door_without_a_credential(
    running: TokenServer, path: str, credential: str
) -> None:
    body = modern_request("tools/list")
    headers = [(name.encode(), value.encode()) for name, value in modern_headers(body).items()]
    if credential:
        headers.append((b"authorization", credential.encode("latin-1")))
    async with (
        served(AuthSettings(issuers=(TokenIssuer(issuer=running.issuer),))) as url,
        httpx2.AsyncClient(timeout=30) as http,
    ):
        for method in ("GET", "POST", "DELETE"):
            response = await http.request(method, url + path, json=body, headers=headers)
            assert response.status_code == 401
            told = response.headers["www-authenticate"]
            assert f'resource_metadata="{url}/.well-known/oauth-protected-resource/mcp"' in told
            assert "idea" not in response.text
        metadata = await http.get(f"{url}/.well-known/oauth-protected-resource/mcp")
        assert metadata.json()["authorization_servers"] == [running.issuer]


async def test_a_token_for_another_gateway_is_refused(running: TokenServer) -> None:
    body = modern_request("tools/list")
    async with (
        served(AuthSettings(issuers=(TokenIssuer(issuer=running.issuer),))) as url,
        httpx2.AsyncClient(timeout=30) as http,
    ):
        for audience, status in ((f"{url}/mcp", 200), ("https://tools.example.com/mcp", 401)):
            token = running.sign(aud=audience)
            headers = {**modern_headers(body), "authorization": f"Bearer {token}"}
            response = await http.post(f"{url}/mcp", json=body, headers=headers)
            assert response.status_code == status
