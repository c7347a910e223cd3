"""Logins through a hub, as a person or a program would do them."""

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from pegboard import ServerAuthenticationError, ServerConfig, ServerState
from pegboard.config import OAuthConfig
from tests.upstream.board_servers import hub_of
from tests.upstream.http_servers import build_server, serving
from tests.upstream.oauth_servers import (
    Accounts,
    MachineAccounts,
    browse,
    machine_server,
    protected_server,
)


@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


def protected(url: str, oauth: OAuthConfig) -> ServerConfig:
    return ServerConfig(name="web", transport="streamable_http", url=url, oauth=oauth)


async def test_a_person_logs_in_once_and_stays_so_between_runs() -> None:
    accounts = Accounts()
    shown: list[str] = []
    async with protected_server(accounts) as url, anyio.create_task_group() as group:

        def show(server: str, address: str) -> None:
            shown.append(server)
            group.start_soon(anyio.to_thread.run_sync, browse, address)

        config = protected(url, OAuthConfig(scopes=("use",)))
        for _ in range(2):
            async with hub_of(config, on_login=show) as hub:
                result = await hub.call("mcp_web_echo", {"text": "let in"})
                assert result.text() == "let in"
    assert (shown, accounts.logins) == (["web"], 1)


async def test_without_a_browser_the_status_says_where_to_log_in() -> None:
    async with protected_server(Accounts()) as url, hub_of(protected(url, OAuthConfig())) as hub:
        status = hub.servers["web"]
        assert status.state == ServerState.DOWN
        assert "http://127.0.0.1" in str(status.last_error)
        with pytest.raises(ServerAuthenticationError):
            await hub.server("web").start()


async def test_a_program_logs_in_with_its_own_secret() -> None:
    accounts = MachineAccounts()
    oauth = OAuthConfig(
        flow="client_credentials", client_id="robot", client_secret="s3cret-s3cret", scopes=("use",)
    )
    async with machine_server(accounts) as url, hub_of(protected(url, oauth)) as hub:
        assert (await hub.call("mcp_web_echo", {"text": "beep"})).text() == "beep"
        assert "s3cret" not in repr(hub.servers) + repr(protected(url, oauth))


@pytest.mark.parametrize("right", [True, False])
async def test_a_bearer_token_is_all_some_servers_want(right: bool) -> None:
    app = build_server().streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != b"Bearer open-sesame":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"go away"})
            return
        await app(scope, receive, send)

    async with serving(guarded) as origin:
        config = ServerConfig(
            name="web",
            transport="streamable_http",
            url=f"{origin}/mcp",
            bearer_token="open-sesame" if right else "open-barley",
        )
        async with hub_of(config) as hub:
            if right:
                assert (await hub.call("mcp_web_echo", {"text": "hi"})).text() == "hi"
                return
            with pytest.raises(ServerAuthenticationError, match="bearer_token") as caught:
                await hub.server("web").start()
            assert "barley" not in str(caught.value) + repr(
                msgspec.structs.asdict(hub.servers["web"])
            )


async def test_a_token_is_not_sent_to_another_server_that_takes_the_name() -> None:
    accounts = MachineAccounts()
    oauth = OAuthConfig(
        flow="client_credentials", client_id="robot", client_secret="s3cret-s3cret", scopes=("use",)
    )
    shown: list[str] = []
    app: Any = build_server().streamable_http_app()

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        shown.extend(
            value.decode() for name, value in scope.get("headers", ()) if name == b"authorization"
        )
        await app(scope, receive, send)

    async with (
        machine_server(accounts) as url,
        serving(listening) as origin,
        hub_of(protected(url, oauth)) as hub,
    ):
        assert (await hub.call("mcp_web_echo", {"text": "mine"})).text() == "mine"
        hub._source = [protected(f"{origin}/mcp", oauth)]  # pyright: ignore[reportPrivateUsage]
        await hub.reload()
        assert (await hub.call("mcp_web_echo", {"text": "other"})).text() == "other"
    assert (len(accounts.tokens), shown) == (1, [])
