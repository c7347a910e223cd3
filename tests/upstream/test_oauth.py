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
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from pegboard.config.servers import OAuthConfig, Protocol, ServerConfig
from pegboard.errors import (
    ConfigError,
    PegboardError,
    ServerAuthenticationError,
)
from pegboard.upstream.oauth.provider import oauth_provider, open_in_browser
from pegboard.upstream.oauth.token_storage import FileTokenStorage, Login
from pegboard.upstream.standalone import StandaloneClient
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import config_for, read_request, serving_raw
from tests.upstream.oauth_servers import (
    Accounts,
    ForeignStorage,
    MachineAccounts,
    browse,
    free_port,
    machine_server,
    metadata_of,
    protected_server,
)


@pytest.fixture(autouse=True)
def browser(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], bool]], None]:
    """Have a browser whose person agrees to everything, or another one."""

    def replace(opened: Callable[[str], bool]) -> None:
        monkeypatch.setattr("webbrowser.open", opened)

    monkeypatch.setenv("DISPLAY", ":0")
    replace(browse)
    return replace


Browser = Callable[[Callable[[str], bool]], None]


def login_config(
    url: str, *, login_timeout: float = 5, protocol: Protocol = "legacy", **oauth: Any
) -> ServerConfig:
    settings = OAuthConfig(login_timeout=login_timeout, **oauth)
    return config_for(url, oauth=settings, protocol=protocol)


@asynccontextmanager
async def logged_in(config: ServerConfig, storage: Any) -> AsyncGenerator[StandaloneClient]:
    client = StandaloneClient(config, token_storage=storage)
    try:
        await client.connect()
        yield client
    finally:
        await client.close()


async def refusal_of(config: ServerConfig, storage: Any) -> str:
    """Why connecting fails for want of a login."""
    with anyio.fail_after(10), pytest.raises(ServerAuthenticationError) as caught:
        async with logged_in(config, storage):
            raise AssertionError("The server let us in.")
    return str(caught.value)


async def echo(client: StandaloneClient) -> None:
    result = await client.call_tool("echo", {"text": "hello"})
    assert result["structuredContent"] == {"result": "hello"}


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
@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_a_person_logs_in_once_with_a_browser(path: Path, protocol: Protocol) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url, protocol=protocol)
        for _ in range(2):
            async with logged_in(config, FileTokenStorage(path)) as client:
                await echo(client)
    assert (accounts.logins, len(accounts.clients)) == (1, 1)
    [registered] = accounts.clients.values()
    assert str((registered.redirect_uris or [])[0]).startswith("http://127.0.0.1:")


async def test_a_program_can_show_the_address_of_the_login_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    accounts = Accounts()
    addresses: list[str] = []
    async with protected_server(accounts) as url, anyio.create_task_group() as group:

        def show(_: str, address: str) -> None:
            addresses.append(address)
            group.start_soon(anyio.to_thread.run_sync, browse, address)

        async with hub_of(login_config(url), on_login=show) as hub:
            result = await hub.call("mcp_remote_echo", {"text": "hello"})
            assert result.text() == "hello"
    assert len(addresses) == 1
    assert "code_challenge_method=S256" in addresses[0]


async def test_a_person_logs_in_to_a_server_with_server_sent_events(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts, path="/sse") as url:
        config = config_for(url, "sse", oauth=OAuthConfig())
        async with logged_in(config, FileTokenStorage(path)) as client:
            await echo(client)
            accounts.access_tokens.clear()
            await echo(client)
            assert client.is_connected
    assert (accounts.logins, accounts.renewals) == (1, 1)


async def test_a_login_that_is_given_up_can_be_begun_again(path: Path, browser: Browser) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        with anyio.CancelScope() as scope:

            def give_up(_: str) -> bool:
                anyio.from_thread.run_sync(scope.cancel)
                return True

            browser(give_up)
            async with logged_in(config, FileTokenStorage(path)):
                raise AssertionError
        browser(browse)
        async with logged_in(config, FileTokenStorage(path)) as client:
            await echo(client)
    assert (accounts.logins, len(accounts.clients)) == (1, 1)


async def test_only_the_configured_scopes_are_asked_for(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url, scopes=("use", "more"))
        async with logged_in(config, FileTokenStorage(path)) as session:
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
        async with logged_in(config, FileTokenStorage(path)) as session:
            await echo(session)
    assert list(accounts.clients) == ["ours"]


async def test_a_token_that_has_ended_is_renewed_after_a_restart(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        async with logged_in(config, FileTokenStorage(path)) as session:
            await echo(session)
        accounts.access_tokens.clear()
        keep(path, {**kept(path), "expires_at": 1.0})
        async with logged_in(config, FileTokenStorage(path)) as session:
            await echo(session)
    assert (accounts.logins, accounts.renewals) == (1, 1)


async def test_a_token_that_the_server_refuses_is_renewed_in_mid_session(path: Path) -> None:
    accounts = Accounts()
    async with protected_server(accounts) as url:
        config = login_config(url)
        async with logged_in(config, FileTokenStorage(path)) as session:
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
        async with (
            logged_in(config, FileTokenStorage(path)) as ours,
            logged_in(config, FileTokenStorage(path)) as theirs,
        ):
            accounts.access_tokens.clear()
            await echo(theirs)
            await echo(ours)
    assert (accounts.logins, accounts.renewals) == (1, 1)


async def test_a_login_that_cannot_be_renewed_is_asked_for_in_words(path: Path) -> None:
    accounts = Accounts()
    async with (
        protected_server(accounts) as url,
        logged_in(login_config(url), FileTokenStorage(path)) as client,
    ):
        await echo(client)
        accounts.access_tokens.clear()
        accounts.refresh_tokens.clear()

        async def call() -> None:
            with pytest.raises(ServerAuthenticationError, match=r"has expired. Try again"):
                await echo(client)

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(call)
        assert accounts.logins == 1
        assert "tokens" not in kept(path)
        await echo(client)
    assert accounts.logins == 2


async def test_any_token_storage_of_the_sdk_will_do() -> None:
    accounts, storage = Accounts(), ForeignStorage()
    async with protected_server(accounts) as url:
        config = login_config(url)
        async with logged_in(config, storage) as client:
            accounts.access_tokens.clear()
            await echo(client)
            assert (accounts.logins, accounts.renewals) == (1, 1)
        accounts.access_tokens.clear()
        async with logged_in(config, storage) as client:
            await echo(client)
            assert (accounts.logins, accounts.renewals) == (1, 2)
            accounts.access_tokens.clear()
            accounts.refresh_tokens.clear()
            with pytest.raises(ServerAuthenticationError, match="has expired"):
                await echo(client)
            await echo(client)
    assert accounts.logins == 2


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b'{"tokens": {"a": 1}}'])
async def test_a_damaged_token_file_asks_for_a_new_login(path: Path, content: bytes) -> None:
    accounts = Accounts()
    damage(path, content)
    async with protected_server(accounts) as url:
        config = login_config(url)
        async with logged_in(config, FileTokenStorage(path)) as session:
            await echo(session)
    assert accounts.logins == 1
    assert kept(path)["tokens"]["access_token"].startswith("access-")


def no_browser(url: str) -> bool:
    return False


def broken_browser(url: str) -> bool:
    raise OSError("no such program")


@pytest.mark.parametrize("opened", [no_browser, broken_browser])
async def test_without_a_browser_the_error_says_what_to_do(
    path: Path, browser: Browser, opened: Callable[[str], bool]
) -> None:
    browser(opened)
    async with protected_server(Accounts()) as url:
        words = await refusal_of(login_config(url), FileTokenStorage(path))
    assert "needs a browser" in words
    assert "`on_login`" in words
    assert "/authorize?response_type=code" in words


def test_a_machine_without_a_screen_has_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not open_in_browser("http://127.0.0.1/")


async def test_a_login_that_takes_too_long_ends_in_words(path: Path, browser: Browser) -> None:
    browser(bool)
    async with protected_server(Accounts()) as url:
        words = await refusal_of(login_config(url, login_timeout=0.1), FileTokenStorage(path))
    assert "took longer than 0.1 s" in words


async def test_a_refused_login_ends_in_words(path: Path) -> None:
    accounts = Accounts()
    accounts.refuses = True
    async with protected_server(accounts) as url:
        config = login_config(url)
        words = await refusal_of(config, FileTokenStorage(path))
    assert "was refused: access_denied" in words


async def test_a_port_that_is_taken_ends_in_words(path: Path) -> None:
    async def handle(stream: SocketStream) -> None:
        await anyio.sleep_forever()

    accounts = Accounts()
    async with serving_raw(handle) as taken, protected_server(accounts) as url:
        config = login_config(url, redirect_port=int(taken.rpartition(":")[2]))
        words = await refusal_of(config, FileTokenStorage(path))
    assert "`redirect_port`" in words


async def test_strangers_at_the_door_do_not_disturb_a_login(path: Path, browser: Browser) -> None:
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
        browser(browse_among_strangers)
        async with logged_in(config, FileTokenStorage(path)) as session:
            await echo(session)


async def test_calls_do_not_wait_for_each_other_behind_a_login(path: Path) -> None:
    config, storage = login_config("https://a.example/mcp"), FileTokenStorage(path)
    tokens = OAuthToken(access_token="good", expires_in=3600)
    await storage.set_login(Login().with_tokens(tokens))
    auth = oauth_provider(config, storage=storage)
    requests = [httpx2.Request("POST", "https://a.example/mcp") for _ in range(5)]
    flows = [auth.async_auth_flow(request) for request in requests]
    with anyio.fail_after(5):
        assert [await anext(flow) for flow in flows] == requests
    assert {request.headers["authorization"] for request in requests} == {"Bearer good"}
    for flow in flows:
        with pytest.raises(StopAsyncIteration):
            await flow.asend(httpx2.Response(202))


async def test_an_authorization_server_that_never_answers_is_given_up(path: Path) -> None:
    async def handle(stream: SocketStream) -> None:
        head, _ = await read_request(stream)
        if head.startswith(b"POST /mcp"):
            await stream.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
        await anyio.sleep_forever()

    async with serving_raw(handle) as origin:
        config = config_for(origin + "/mcp", seconds=0.3, oauth=OAuthConfig())
        with anyio.fail_after(10), pytest.raises(PegboardError):
            async with logged_in(config, FileTokenStorage(path)):
                raise AssertionError("The server let us in.")


async def test_a_renewal_that_fails_for_now_does_not_forget_the_login(path: Path) -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n")

    storage = FileTokenStorage(path)
    async with serving_raw(handle) as origin:
        login = Login(
            client=OAuthClientInformationFull(client_id="c"),
            authorization_server=metadata_of(origin),
        )
        tokens = OAuthToken(access_token="a", refresh_token="r", expires_in=-5)
        await storage.set_login(login.with_tokens(tokens))
        before = kept(path)
        words = await refusal_of(login_config(origin), storage)
    assert "Try again later" in words
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
        async with logged_in(config, FileTokenStorage(path)) as session:
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
    async with (
        machine_server(first) as url,
        logged_in(login_config(url, **oauth), FileTokenStorage(path)) as client,
    ):
        await echo(client)
    async with machine_server(second) as url:
        words = await refusal_of(login_config(url, **oauth), FileTokenStorage(path))
    assert "belongs to another authorization server" in words
    assert second.requests == []


def test_a_program_without_credentials_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="client_secret"):
        oauth_provider(login_config("http://127.0.0.1", flow="client_credentials", client_id="x"))


async def test_no_secret_is_shown(path: Path) -> None:
    config = login_config("http://127.0.0.1", client_id="x", client_secret="our-own-secret")
    storage = FileTokenStorage(path)
    login = Login().with_tokens(OAuthToken(access_token="very-secret"))
    await storage.set_login(login)
    auth = oauth_provider(config, storage=storage)
    shown = f"{auth!r} {storage!r} {config!r} {vars(storage)} {login!r} {login}"
    assert "very-secret" not in shown
    assert "our-own-secret" not in shown
