from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pegboard import (
    ConfigError,
    ProtocolError,
    ServerConfig,
    ServerState,
    ServerUnavailableError,
)
from pegboard.upstream.session.session import open_session
from tests.upstream.board_servers import hub_of, limits, text_of
from tests.upstream.http_servers import build_server, serving


def stateless(url: str, **fields: Any) -> ServerConfig:
    return ServerConfig(name="web", transport="streamable_http", url=url, stateless=True, **fields)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_stateless_calls_work_in_both_eras(protocol: Any) -> None:
    async with (
        serving(build_server().streamable_http_app()) as origin,
        hub_of(stateless(f"{origin}/mcp", protocol=protocol)) as hub,
    ):
        for text in ("one", "two"):
            result = await hub.call("mcp_web_echo", {"text": text})
            assert result.text() == text
        status = hub.servers["web"]
        assert (status.state, status.starts) == (ServerState.READY, 1)
        server = hub.server("web")
        assert next(it["name"] for it in await server.list_all("tools/list")) == "echo"


async def test_each_call_to_a_server_that_keeps_sessions_has_one_of_its_own() -> None:
    sessions: list[str | None] = []
    app: Any = build_server().streamable_http_app()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            headers = dict(scope["headers"])
            sessions.append(headers.get(b"mcp-session-id", b"").decode() or None)
        await app(scope, receive, send)

    async with (
        serving(noting) as origin,
        hub_of(stateless(f"{origin}/mcp", protocol="legacy")) as hub,
    ):
        before = set(sessions)
        await hub.call("mcp_web_echo", {"text": "one"})
        await hub.call("mcp_web_echo", {"text": "two"})
    assert len(set(sessions) - before) == 2


@pytest.mark.covers("X-AS-9")
@pytest.mark.parametrize("kind", [True, False], ids=["stateless", "stateful"])
async def test_headers_are_swapped_without_connecting_again(kind: bool) -> None:
    seen: list[bytes | None] = []
    app: Any = build_server().streamable_http_app()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"x-tenant"))
        await app(scope, receive, send)

    async with serving(noting) as origin:
        config = ServerConfig(
            name="web", transport="streamable_http", url=f"{origin}/mcp", stateless=kind
        )
        async with hub_of(config) as hub:
            hub.server("web").set_headers({"X-Tenant": "one"})
            await hub.call("mcp_web_echo", {"text": "hi"})
            hub.server("web").set_headers({"X-Tenant": "two"})
            await hub.call("mcp_web_echo", {"text": "hi"})
            with pytest.raises(ConfigError, match="Mcp-Session-Id"):
                hub.server("web").set_headers({"Mcp-Session-Id": "mine"})
            assert hub.servers["web"].starts == 1
    assert seen[0] is None
    assert {b"one", b"two"} <= set(seen)


@pytest.mark.covers("X-AS-9")
@pytest.mark.parametrize("kind", [True, False], ids=["stateless", "stateful"])
@pytest.mark.parametrize("name", ["Bad Header", "Mcp-Session-Id"])
async def test_headers_are_checked_before_the_server_is_connected(kind: bool, name: str) -> None:
    config = ServerConfig(
        name="web",
        transport="streamable_http",
        url="http://127.0.0.1:9/mcp",
        stateless=kind,
        lazy=True,
    )
    async with hub_of(config) as hub:
        with pytest.raises(ConfigError, match=name):
            hub.server("web").set_headers({name: "v"})


async def test_what_a_server_answered_counts_even_if_its_session_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go = anyio.Event()

    @asynccontextmanager
    async def slow_to_end(*args: Any, **options: Any) -> AsyncGenerator[Any]:
        async with open_session(*args, **options) as session:
            yield session
            await let_go.wait()

    monkeypatch.setattr("pegboard.upstream.session.session.open_session", slow_to_end)
    async with serving(build_server().streamable_http_app()) as origin:
        config = stateless(f"{origin}/mcp", protocol="legacy", timeouts=limits(connect=1))
        async with hub_of(config) as hub:
            server = hub.server("web")
            params = {"name": "echo", "arguments": {"text": "hi"}}
            assert text_of(await server.request("tools/call", params)) == "hi"
            with pytest.raises(ProtocolError):
                await server.request("no/such/method")
            let_go.set()


@pytest.mark.parametrize("breaks", [1, 2])
async def test_a_greeting_that_the_server_hung_up_on_is_sent_again(breaks: int) -> None:
    app: Any = build_server().streamable_http_app()
    left = 0

    async def hanging_up(scope: Any, receive: Any, send: Any) -> None:
        nonlocal left
        is_greeting = scope["type"] == "http" and scope["method"] == "POST"
        if is_greeting and left and b"mcp-session-id" not in dict(scope["headers"]):
            left -= 1
            # An answer that begins and never ends: the server closes the connection in its midst.
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise ConnectionResetError
        await app(scope, receive, send)

    async with (
        serving(hanging_up) as origin,
        hub_of(stateless(f"{origin}/mcp", protocol="legacy")) as hub,
    ):
        await hub.call("mcp_web_echo", {"text": "one"})
        left = breaks
        if breaks == 1:
            assert (await hub.call("mcp_web_echo", {"text": "two"})).text() == "two"
        else:
            with pytest.raises(ServerUnavailableError, match="before it was ready") as caught:
                await hub.call("mcp_web_echo", {"text": "two"})
            assert not caught.value.sent
        assert left == 0


async def test_an_address_where_nobody_is_is_a_clear_error() -> None:
    async with hub_of(stateless("http://127.0.0.1:9/mcp", lazy=True)) as hub:
        with pytest.raises(ServerUnavailableError, match="web"):
            await hub.server("web").start()
        assert hub.servers["web"].last_error


def test_only_http_can_be_stateless() -> None:
    with pytest.raises(ConfigError, match="stateless"):
        ServerConfig(name="a", transport="stdio", command="run", stateless=True)
