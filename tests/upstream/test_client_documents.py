"""OAuth client ID metadata documents: a client that no authorization server has to register."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.auth import OAuthClientInformationFull

from pegboard.config import load_servers
from pegboard.config.servers import OAuthConfig, ServerConfig
from pegboard.errors import ConfigError
from pegboard.upstream.oauth.provider import oauth_provider
from pegboard.upstream.oauth.token_storage import FileTokenStorage
from pegboard.upstream.standalone import StandaloneClient
from tests.upstream.http_servers import config_for
from tests.upstream.oauth_servers import Accounts, browse, free_port, protected_server

DOCUMENT = "https://client.example.com/pegboard/client.json"


class DocumentAccounts(Accounts):
    """An authorization server that reads the documents of clients, unless it is told not to."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.reads_documents = True
        self.documents = {
            DOCUMENT: {
                "client_id": DOCUMENT,
                "client_name": "Pegboard",
                "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
                "token_endpoint_auth_method": "none",
                "scope": "use",
            }
        }
        self.asked: list[str] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        self.asked.append(client_id)
        document = self.documents.get(client_id) if self.reads_documents else None
        if document is not None:
            return OAuthClientInformationFull.model_validate(document)
        return await super().get_client(client_id)

    def announce(self, app: Any) -> Any:
        """Return the app with what this server supports in its metadata."""

        async def announcing(scope: Any, receive: Any, send: Any) -> None:
            path = scope.get("path", "")
            if not path.startswith("/.well-known/oauth-authorization-server"):
                await app(scope, receive, send)
                return
            start: dict[str, Any] = {}

            async def send_more(message: Any) -> None:
                if message["type"] == "http.response.start":
                    start.update(message)
                    return
                metadata = json.loads(message["body"])
                metadata["client_id_metadata_document_supported"] = self.reads_documents
                body = json.dumps(metadata).encode()
                kept = [it for it in start["headers"] if it[0] != b"content-length"]
                length = (b"content-length", str(len(body)).encode())
                await send({**start, "headers": [*kept, length]})
                await send({**message, "body": body})

            await app(scope, receive, send_more)

        return announcing


@pytest.fixture(autouse=True)
def browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a browser whose person agrees to everything."""
    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setenv("DISPLAY", ":0")


def config_of(url: str, port: int, **oauth: Any) -> ServerConfig:
    given: dict[str, Any] = {
        "client_metadata_url": DOCUMENT,
        "redirect_port": port,
        "login_timeout": 5,
    }
    return config_for(url, oauth=OAuthConfig(**{**given, **oauth}), protocol="legacy")


async def uses(config: ServerConfig, path: Path) -> None:
    client = StandaloneClient(config, token_storage=FileTokenStorage(path))
    try:
        with anyio.fail_after(10):
            await client.connect()
            result = await client.call_tool("echo", {"text": "hello"})
        assert result["structuredContent"] == {"result": "hello"}
    finally:
        await client.close()


def login_in(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


@asynccontextmanager
async def server() -> AsyncGenerator[tuple[DocumentAccounts, str, int]]:
    port = free_port()
    accounts = DocumentAccounts(port)
    async with protected_server(accounts, around=accounts.announce) as url:
        yield accounts, url, port


async def test_the_address_of_the_document_is_the_client_and_nothing_is_registered(
    tmp_path: Path,
) -> None:
    path = tmp_path / "login.json"
    async with server() as (accounts, url, port):
        config = config_of(url, port)
        await uses(config, path)
        await uses(config, path)
        assert (accounts.logins, accounts.clients, set(accounts.asked)) == (1, {}, {DOCUMENT})
        assert login_in(path)["client"]["client_id"] == DOCUMENT

        # The login is renewed with the same client.
        accounts.access_tokens.clear()
        await uses(config, path)
    assert (accounts.logins, accounts.renewals, accounts.clients) == (1, 1, {})


async def test_where_documents_are_not_read_the_client_is_registered(tmp_path: Path) -> None:
    path = tmp_path / "login.json"
    async with server() as (accounts, url, port):
        accounts.reads_documents = False
        await uses(config_of(url, port), path)
        (registered,) = accounts.clients
        assert (accounts.logins, DOCUMENT in accounts.asked) == (1, False)
        assert login_in(path)["client"]["client_id"] == registered


async def test_the_client_follows_what_the_authorization_server_supports(tmp_path: Path) -> None:
    path = tmp_path / "login.json"
    async with server() as (accounts, url, port):
        for reads, registered in ((True, 0), (False, 1), (True, 1)):
            accounts.reads_documents = reads
            # A person has to log in again.
            accounts.access_tokens.clear()
            accounts.refresh_tokens.clear()
            if path.exists():
                path.write_text(json.dumps({**login_in(path), "tokens": None}), "utf-8")
            await uses(config_of(url, port), path)
            assert len(accounts.clients) == registered
            assert (login_in(path)["client"]["client_id"] == DOCUMENT) is reads
    assert accounts.logins == 3


async def test_without_the_setting_a_client_is_registered_as_before(tmp_path: Path) -> None:
    async with server() as (accounts, url, port):
        await uses(config_of(url, port, client_metadata_url=None), tmp_path / "login.json")
    assert len(accounts.clients) == 1


@pytest.mark.parametrize(
    "address", ["http://example.com/client.json", "https://example.com", "client.json", "https:///"]
)
def test_an_address_that_is_none_is_refused_in_words(address: str) -> None:
    config = config_of("https://tools.example.com/mcp", 0, client_metadata_url=address)
    with pytest.raises(ConfigError, match="client_metadata_url"):
        oauth_provider(config)


def test_the_setting_is_read_from_the_file() -> None:
    entry = {"url": "https://x.test/mcp", "oauth": {"clientMetadataUrl": DOCUMENT}}
    read = load_servers({"mcpServers": {"remote": entry}})
    (config,) = read.servers
    assert config.oauth == OAuthConfig(client_metadata_url=DOCUMENT)
    assert not read.problems

    entry = {"url": "https://x.test/mcp", "oauth": {"clientMetadataUrl": DOCUMENT, "clientId": "a"}}
    (problem,) = load_servers({"mcpServers": {"remote": entry}}).problems
    assert "client_metadata_url" in problem.message
