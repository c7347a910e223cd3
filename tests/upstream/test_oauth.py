"""Logins by OAuth: with a browser, for programs, renewed, survived, and failing in words."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from anyio.abc import SocketStream
from mcp import Client, MCPError
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from pegboard.config.servers import OAuthConfig, ServerConfig
from pegboard.errors import ConfigError
from pegboard.upstream.errors.failures import Failure, failure_of
from pegboard.upstream.http.client import HttpPool, http_transport, sse_transport
from pegboard.upstream.oauth.provider import oauth_provider, open_in_browser
from pegboard.upstream.oauth.token_storage import FileTokenStorage
from tests.upstream.http_servers import Gate, config_for, read_request, serving_raw
from tests.upstream.oauth_servers import (
    Accounts,
    MachineAccounts,
    browse,
    free_port,
    machine_server,
    protected_server,
)


def login_config(url: str, *, login_timeout: float = 5, **oauth: Any) -> ServerConfig:
    return config_for(url, oauth=OAuthConfig(login_timeout=login_timeout, **oauth))


@asynccontextmanager
async def logged_in(
    config: ServerConfig, auth: httpx2.Auth, *, mode: str = "legacy"
) -> AsyncGenerator[Client]:
    async with (
        HttpPool() as pool,
        Client(http_transport(config, pool, auth=auth), mode=mode) as session,
    ):
        yield session


async def failure_to(config: ServerConfig, auth: httpx2.Auth) -> Failure:
    """Why connecting fails."""
    with anyio.fail_after(10):
        try:
            async with logged_in(config, auth):
                pass
        except (MCPError, ExceptionGroup) as caught:
            error: Exception = caught
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            assert isinstance(error, MCPError), error
            failure = failure_of(error.error)
            assert failure is not None
            return failure
    raise AssertionError("The server let us in.")


async def echo(session: Client) -> None:
    result = await session.call_tool("echo", {"text": "hello"})
    assert result.structured_content == {"result": "hello"}


def kept(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def keep(path: Path, login: dict[str, Any]) -> None:
    path.write_text(json.dumps(login), "utf-8")


def damage(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens" / "remote.json"


@pytest.mark.covers("X-LITE-5")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_person_logs_in_once_with_a_browser(path: Path, mode: str) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        for _ in range(2):
            auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
            async with logged_in(config, auth, mode=mode) as session:
                await echo(session)
    assert (accounts.logins, len(accounts.clients)) == (1, 1)
    [client] = accounts.clients.values()
    assert str((client.redirect_uris or [])[0]).startswith("http://127.0.0.1:")


async def test_a_program_can_show_the_address_of_the_login_itself(path: Path) -> None:
    accounts = Accounts()
    addresses: list[str] = []
    async with protected_server(accounts) as url, anyio.create_task_group() as group:

        def show(address: str) -> None:
            addresses.append(address)
            group.start_soon(anyio.to_thread.run_sync, browse, address)

        config = login_config(url)
        auth = oauth_provider(config, storage=FileTokenStorage(path), on_login=show)
        async with logged_in(config, auth) as session:
            await echo(session)
    assert len(addresses) == 1
    assert "code_challenge_method=S256" in addresses[0]


async def test_a_person_logs_in_to_a_server_with_server_sent_events(path: Path) -> None:
    accounts = Accounts()
    lost: list[str] = []
    async with protected_server(accounts, path="/sse") as url, HttpPool() as pool:
        config = config_for(url, "sse", oauth=OAuthConfig())
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        transport = sse_transport(config, pool, on_lost=lost.append, auth=auth)
        async with Client(transport, mode="legacy") as session:
            await echo(session)
            accounts.access_tokens.clear()
            await echo(session)
    assert (accounts.logins, accounts.renewals, lost) == (1, 1, [])


async def test_a_login_that_is_given_up_can_be_begun_again(path: Path) -> None:
    accounts = Accounts()
    asked = anyio.Event()
    async with protected_server(accounts) as url, anyio.create_task_group() as group:

        def show(address: str) -> None:
            if asked.is_set():
                group.start_soon(anyio.to_thread.run_sync, browse, address)
            asked.set()

        config = login_config(url)
        auth = oauth_provider(config, storage=FileTokenStorage(path), on_login=show)

        async def give_up(scope: anyio.CancelScope) -> None:
            await asked.wait()
            scope.cancel()

        with anyio.CancelScope() as scope:
            group.start_soon(give_up, scope)
            async with logged_in(config, auth):
                raise AssertionError
        async with logged_in(config, auth) as session:
            await echo(session)
    assert accounts.logins == 1


async def test_only_the_configured_scopes_are_asked_for(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url, scopes=("use", "more"))
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        async with logged_in(config, auth) as session:
            await echo(session)
    assert accounts.asked_scopes == [["use", "more"]]


async def test_a_client_that_is_registered_already_is_not_registered_again(path: Path) -> None:
    accounts = Accounts()
    port = free_port()
    accounts.clients["ours"] = OAuthClientInformationFull.model_validate(
        {
            "client_id": "ours",
            "client_secret": "our-own-secret",
            "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
            "scope": "use",
            "token_endpoint_auth_method": "client_secret_basic",
        }
    )
    async with protected_server(accounts) as url:
        config = login_config(
            url, client_id="ours", client_secret="our-own-secret", redirect_port=port
        )
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        async with logged_in(config, auth) as session:
            await echo(session)
    assert list(accounts.clients) == ["ours"]


async def test_a_token_that_has_ended_is_renewed_after_a_restart(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        async with logged_in(config, auth) as session:
            await echo(session)
        accounts.access_tokens.clear()
        keep(path, {**kept(path), "expires_at": 1.0})
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        async with logged_in(config, auth) as session:
            await echo(session)
    assert (accounts.logins, accounts.renewals) == (1, 1)


async def test_a_token_that_the_server_refuses_is_renewed_in_mid_session(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        async with logged_in(config, auth) as session:
            await echo(session)
            accounts.access_tokens.clear()
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(echo, session)
    assert (accounts.logins, accounts.renewals) == (1, 1)


async def test_what_another_process_has_renewed_is_used(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        ours, theirs = (
            oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
            for _ in range(2)
        )
        async with logged_in(config, ours) as our_session, logged_in(config, theirs) as session:
            accounts.access_tokens.clear()
            await echo(session)
            await echo(our_session)
    assert (accounts.logins, accounts.renewals) == (1, 1)


async def test_a_login_that_cannot_be_renewed_is_asked_for_in_words(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        async with logged_in(config, auth) as session:
            await echo(session)
            accounts.access_tokens.clear()
            accounts.refresh_tokens.clear()
            words: list[str] = []

            async def call() -> None:
                with pytest.raises(MCPError) as caught:
                    await echo(session)
                failure = failure_of(caught.value.error)
                assert failure is not None
                assert failure.kind == "unauthorized"
                words.append(failure.message)

            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(call)
            assert len(words) == 5
            for each in words:
                assert "The login for server 'remote' has expired. Try again" in each
            assert accounts.logins == 1
        assert "tokens" not in kept(path)
        async with logged_in(config, auth) as session:
            await echo(session)
    assert accounts.logins == 2


class ForeignStorage:
    """The SDK's protocol and no more."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def test_any_token_storage_of_the_sdk_will_do() -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        auth = oauth_provider(config, storage=ForeignStorage(), open_browser=browse)
        async with logged_in(config, auth) as session:
            accounts.access_tokens.clear()
            await echo(session)
            assert (accounts.logins, accounts.renewals) == (1, 1)
            accounts.access_tokens.clear()
            accounts.refresh_tokens.clear()
            with pytest.raises(MCPError, match="has expired"):
                await echo(session)
        async with logged_in(config, auth) as session:
            await echo(session)
    assert accounts.logins == 2


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b'{"tokens": {"a": 1}}'])
async def test_a_damaged_token_file_asks_for_a_new_login(path: Path, content: bytes) -> None:
    accounts = Accounts()
    damage(path, content)
    async with protected_server(accounts) as url:
        config = login_config(url)
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        async with logged_in(config, auth) as session:
            await echo(session)
    assert accounts.logins == 1
    assert kept(path)["tokens"]["access_token"].startswith("access-")


def no_browser(url: str) -> bool:
    return False


def broken_browser(url: str) -> bool:
    raise OSError("no such program")


@pytest.mark.parametrize("browser", [no_browser, broken_browser])
async def test_without_a_browser_the_error_says_what_to_do(
    path: Path, browser: Callable[[str], bool]
) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browser)
        failure = await failure_to(config, auth)
    assert failure.kind == "unauthorized"
    assert "needs a browser" in failure.message
    assert "`on_login`" in failure.message
    assert "/authorize?response_type=code" in failure.message


def test_a_machine_without_a_screen_has_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not open_in_browser("http://127.0.0.1/")


async def test_a_login_that_takes_too_long_ends_in_words(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url, login_timeout=0.1)
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=bool)
        failure = await failure_to(config, auth)
    assert failure.kind == "unauthorized"
    assert "took longer than 0.1 s" in failure.message


async def test_a_refused_login_ends_in_words(path: Path) -> None:
    accounts = Accounts()
    accounts.refuses = True
    async with protected_server(accounts) as url:
        config = login_config(url)
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        failure = await failure_to(config, auth)
    assert "was refused: access_denied" in failure.message


async def test_a_port_that_is_taken_ends_in_words(path: Path) -> None:
    async def handle(stream: SocketStream) -> None:
        await anyio.sleep_forever()

    accounts = Accounts()
    async with serving_raw(handle) as taken, protected_server(accounts) as url:
        config = login_config(url, redirect_port=int(taken.rpartition(":")[2]))
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        failure = await failure_to(config, auth)
    assert "`redirect_port`" in failure.message


async def test_strangers_at_the_door_do_not_disturb_a_login(path: Path) -> None:
    accounts = Accounts()

    def browse_among_strangers(url: str) -> bool:
        redirect = httpx2.URL(url).params["redirect_uri"]
        with httpx2.Client(trust_env=False) as stranger:
            for target in (
                redirect,
                f"{redirect}?state=guess&code=evil",
                redirect.replace("/callback", "/favicon.ico"),
            ):
                assert stranger.get(target).status_code == 400
            assert stranger.post(f"{redirect}?state=x").status_code == 400
        return browse(url)

    async with protected_server(accounts) as url:
        config = login_config(url)
        auth = oauth_provider(
            config, storage=FileTokenStorage(path), open_browser=browse_among_strangers
        )
        async with logged_in(config, auth) as session:
            await echo(session)


async def test_calls_do_not_wait_for_each_other_behind_a_login() -> None:
    gate = Gate()
    tokens = OAuthToken(access_token="good", expires_in=3600)

    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        await gate.pass_through()
        await stream.send(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")

    storage = ForeignStorage()
    await storage.set_tokens(tokens)
    async with serving_raw(handle) as origin, HttpPool() as pool:
        config = login_config(origin)
        client = pool.client_for(config, oauth_provider(config, storage=storage))
        async with anyio.create_task_group() as group:
            group.start_soon(client.post, origin)
            await gate.until_waiting(1)
            for _ in range(4):
                group.start_soon(client.post, origin)
            await gate.until_waiting(5)
            gate.released.set()


async def test_an_authorization_server_that_never_answers_is_given_up(path: Path) -> None:
    async def handle(stream: SocketStream) -> None:
        head, _ = await read_request(stream)
        if head.startswith(b"POST /mcp"):
            await stream.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
        await anyio.sleep_forever()

    async with serving_raw(handle) as origin:
        config = config_for(origin + "/mcp", seconds=0.3, oauth=OAuthConfig())
        auth = oauth_provider(config, storage=FileTokenStorage(path), open_browser=browse)
        failure = await failure_to(config, auth)
    assert failure.kind == "not_sent"


async def test_a_renewal_that_fails_for_now_does_not_forget_the_login(path: Path) -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n")

    storage = FileTokenStorage(path)
    await storage.set_tokens(OAuthToken(access_token="a", refresh_token="r", expires_in=-5))
    await storage.set_client_info(OAuthClientInformationFull(client_id="c"))
    before = kept(path)
    async with serving_raw(handle) as origin:
        config = login_config(origin)
        failure = await failure_to(config, oauth_provider(config, storage=storage))
    assert failure.kind == "unauthorized"
    assert "Try again later" in failure.message
    assert kept(path) == before


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_program_logs_in_by_its_own_credentials(path: Path, method: str) -> None:
    accounts = MachineAccounts()
    accounts.methods = [method]
    async with machine_server(accounts) as url:
        config = login_config(
            url,
            flow="client_credentials",
            client_id="robot",
            client_secret="a-robots-secret",
            scopes=("use",),
        )
        auth = oauth_provider(config, storage=FileTokenStorage(path))
        async with logged_in(config, auth) as session:
            await echo(session)
            accounts.tokens.clear()
            await echo(session)
    for form, header in accounts.requests:
        assert (form["grant_type"], form["scope"]) == ("client_credentials", "use")
        assert header.startswith("Basic ") == (method == "client_secret_basic")
        assert ("client_secret" in form) == (method == "client_secret_post")
    assert len(accounts.requests) == 2


async def test_credentials_are_only_sent_to_the_authorization_server_they_were_first_used_with(
    path: Path,
) -> None:
    first, second = MachineAccounts(), MachineAccounts()
    oauth: dict[str, Any] = {
        "flow": "client_credentials",
        "client_id": "robot",
        "client_secret": "robots-secret",
    }
    async with machine_server(first) as url:
        config = login_config(url, **oauth)
        auth = oauth_provider(config, storage=FileTokenStorage(path))
        async with logged_in(config, auth) as session:
            await echo(session)
    async with machine_server(second) as url:
        config = login_config(url, **oauth)
        failure = await failure_to(config, oauth_provider(config, storage=FileTokenStorage(path)))
    assert failure.kind == "unauthorized"
    assert second.requests == []


def test_a_program_without_credentials_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="client_secret"):
        oauth_provider(login_config("http://127.0.0.1", flow="client_credentials", client_id="x"))


async def test_no_secret_is_shown(path: Path) -> None:
    config = login_config("http://127.0.0.1", client_id="x", client_secret="our-own-secret")
    storage = FileTokenStorage(path)
    await storage.set_tokens(OAuthToken(access_token="very-secret"))
    auth = oauth_provider(config, storage=storage)
    shown = repr(auth) + repr(storage) + repr(config) + str(vars(storage))
    assert "very-secret" not in shown
    assert "our-own-secret" not in shown
