"""Logins that a server wants in the middle of a call."""

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pegboard import Hub, ServerAuthenticationError, ServerConfig, ServerState
from pegboard.config import OAuthConfig, Timeouts
from pegboard.config.servers import Protocol
from tests.upstream.board_servers import hub_of
from tests.upstream.oauth_servers import Accounts, browse, protected_server

Show = Callable[[str, str], object]


@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def hub_with(url: str, show: Show, *, seconds: float, protocol: Protocol = "auto") -> Hub:
    config = ServerConfig(
        name="web",
        transport="streamable_http",
        url=url,
        protocol=protocol,
        oauth=OAuthConfig(login_timeout=10),
        timeouts=Timeouts(call=seconds),
    )
    return hub_of(config, on_login=show)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_calls_do_not_wait_for_ever_for_a_person_who_may_log_in_later(
    protocol: Protocol,
) -> None:
    accounts = Accounts()
    shown: list[str] = []
    async with protected_server(accounts, only_for="tools/call") as url:
        show: Show = lambda _, address: shown.append(address)  # noqa: E731
        async with hub_with(url, show, seconds=2, protocol=protocol) as hub:

            async def call_in_vain() -> None:
                with pytest.raises(ServerAuthenticationError, match="Log in there"):
                    await hub.call("mcp_web_echo", {"text": "hello"})

            async with anyio.create_task_group() as calls:
                for _ in range(3):
                    calls.start_soon(call_in_vain)
            assert hub.servers["web"].state == ServerState.READY
            await anyio.to_thread.run_sync(browse, shown[0])
            assert (await hub.call("mcp_web_echo", {"text": "hello"})).text() == "hello"
    assert (len(shown), accounts.logins) == (1, 1)


async def test_calls_whose_person_logs_in_at_once_share_one_login_and_are_answered() -> None:
    accounts = Accounts()
    shown: list[str] = []
    async with (
        protected_server(accounts, only_for="tools/call") as url,
        anyio.create_task_group() as group,
    ):

        def show(_: str, address: str) -> None:
            shown.append(address)
            group.start_soon(anyio.to_thread.run_sync, browse, address)

        async with hub_with(url, show, seconds=20) as hub:

            async def call(text: str) -> None:
                assert (await hub.call("mcp_web_echo", {"text": text})).text() == text

            async with anyio.create_task_group() as calls:
                for number in range(5):
                    calls.start_soon(call, str(number))
    assert (len(shown), accounts.logins) == (1, 1)


async def test_a_login_that_is_refused_in_mid_call_fails_the_call_and_can_be_begun_again() -> None:
    accounts = Accounts()
    accounts.refuses = True
    async with (
        protected_server(accounts, only_for="tools/call") as url,
        anyio.create_task_group() as group,
    ):

        def show(_: str, address: str) -> None:
            group.start_soon(anyio.to_thread.run_sync, browse, address)

        async with hub_with(url, show, seconds=20) as hub:
            with pytest.raises(ServerAuthenticationError, match="refused"):
                await hub.call("mcp_web_echo", {"text": "hello"})
            accounts.refuses = False
            assert (await hub.call("mcp_web_echo", {"text": "hello"})).text() == "hello"
    assert accounts.logins == 2


async def test_a_login_that_ended_in_mid_session_is_made_again_by_the_call_after_next() -> None:
    accounts = Accounts()
    shown: list[str] = []
    async with protected_server(accounts) as url, anyio.create_task_group() as group:

        def show(_: str, address: str) -> None:
            shown.append(address)
            if len(shown) == 1:
                group.start_soon(anyio.to_thread.run_sync, browse, address)

        async with hub_with(url, show, seconds=2) as hub:
            assert (await hub.call("mcp_web_echo", {"text": "in"})).text() == "in"
            accounts.access_tokens.clear()
            accounts.refresh_tokens.clear()
            for words in ("has expired", "Log in there"):
                with pytest.raises(ServerAuthenticationError, match=words):
                    await hub.call("mcp_web_echo", {"text": "out"})
            await anyio.to_thread.run_sync(browse, shown[1])
            assert (await hub.call("mcp_web_echo", {"text": "again"})).text() == "again"
    assert (len(shown), accounts.logins) == (2, 2)


async def test_a_hub_is_closed_although_somebody_is_to_log_in() -> None:
    async with protected_server(Accounts(), only_for="tools/call") as url:
        with anyio.fail_after(8):
            async with hub_with(url, lambda *_: None, seconds=2) as hub:
                with pytest.raises(ServerAuthenticationError, match="Log in there"):
                    await hub.call("mcp_web_echo", {"text": "hello"})
