"""MCP over WebSocket: the same contract as the other transports."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from pegboard.errors import ConfigError, UpstreamError
from pegboard.upstream.websocket import websocket_channel
from tests.upstream.board_servers import hub_of
from tests.upstream.http_clients import call, connected, failure_in, refusal_of
from tests.upstream.http_servers import Gate, build_server, config_for, cutting_proxy

pytest.importorskip("websockets", reason="needs the extra pegboard[websocket]")

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol


@asynccontextmanager
async def websocket_server(
    gate: Gate | None = None, *, respond: Callable[..., Response | None] | None = None
) -> AsyncGenerator[tuple[str, Server]]:
    """Run an MCP server behind a WebSocket; gives its address."""
    server: Any = build_server(gate)._lowlevel_server  # pyright: ignore[reportPrivateUsage]

    async def handle(connection: ServerConnection) -> None:
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()

        async def send() -> None:
            async for message in from_server:
                await connection.send(
                    message.message.model_dump_json(by_alias=True, exclude_unset=True)
                )

        async with to_server, incoming, outgoing, from_server, anyio.create_task_group() as group:
            group.start_soon(send)
            options = server.create_initialization_options()
            group.start_soon(server.run, incoming, outgoing, options)
            async for text in connection:
                message = jsonrpc_message_adapter.validate_json(text, by_name=False)
                await to_server.send(SessionMessage(message))
            group.cancel_scope.cancel()

    async with serve(
        handle,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol("mcp")],
        process_request=respond,
        max_size=None,
    ) as running:
        port = next(iter(running.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}", running


@pytest.mark.covers("R-SAGE-24", "R-SAGE-26")
async def test_tools_are_called_over_a_websocket_at_the_same_time() -> None:
    gate = Gate()
    results: list[Any] = []
    async with (
        websocket_server(gate) as (url, _),
        connected(config_for(url, "websocket")) as session,
    ):

        async def wait() -> None:
            results.append(await call(session, "wait"))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await gate.until_waiting(3)
            assert await call(session, "echo", text="grüß Gott 🙂") == "grüß Gott 🙂"
            gate.released.set()
    assert results == ["done"] * 3


async def test_a_result_of_three_megabytes_passes() -> None:
    async with (
        websocket_server() as (url, _),
        connected(config_for(url, "websocket")) as session,
    ):
        assert await call(session, "large", size=3_000_000) == "x" * 3_000_000


@pytest.mark.parametrize("closes", [True, False])
async def test_a_connection_that_ends_is_reported_once_and_its_calls_fail(closes: bool) -> None:
    gate = Gate()
    lost: list[str] = []
    async with websocket_server(gate) as (url, server):
        origin = url.replace("ws:", "http:")
        async with cutting_proxy(origin, b"\0never\0") as proxy, anyio.create_task_group() as group:
            failed = anyio.Event()

            async def wait() -> None:
                config = config_for(proxy.replace("http:", "ws:"), "websocket")
                async with connected(config, on_lost=lost.append) as session:
                    assert (await failure_in(call(session, "wait"))).kind == "lost"
                    failed.set()

            group.start_soon(wait)
            await gate.until_waiting(1)
            for connection in server.connections:
                if closes:
                    await connection.close()
                else:
                    connection.transport.abort()
            with anyio.fail_after(5):
                await failed.wait()
    assert len(lost) == 1


async def test_closing_the_transport_ourselves_is_no_loss() -> None:
    lost: list[str] = []
    async with (
        websocket_server() as (url, _),
        connected(config_for(url, "websocket"), on_lost=lost.append),
    ):
        pass
    assert lost == []


async def test_the_headers_and_the_token_of_the_server_are_sent() -> None:
    seen: list[tuple[str | None, str | None]] = []

    def respond(connection: ServerConnection, request: Request) -> None:
        seen.append((request.headers.get("X-Tenant"), request.headers.get("Authorization")))

    async with websocket_server(respond=respond) as (url, _):
        config = config_for(
            url, "websocket", headers={"X-Tenant": "a"}, bearer_token="very-secret-token"
        )
        async with connected(config):
            pass
    assert seen == [("a", "Bearer very-secret-token")]


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "unauthorized"), (429, "busy"), (500, "http_error")]
)
async def test_a_refused_handshake_is_told_apart(status: int, kind: str) -> None:
    def respond(connection: ServerConnection, request: Request) -> Response:
        return connection.respond(status, "no\n")

    async with websocket_server(respond=respond) as (url, _):
        failure = await refusal_of(config_for(url, "websocket"))
    assert (failure.kind, failure.status) == (kind, status)


async def test_a_redirect_is_not_followed() -> None:
    def respond(connection: ServerConnection, request: Request) -> Response:
        response = connection.respond(307, "")
        response.headers["Location"] = "ws://127.0.0.1:1/"
        return response

    async with websocket_server(respond=respond) as (url, _):
        failure = await refusal_of(config_for(url, "websocket"))
    assert failure.status == 307


async def test_a_server_that_cannot_be_reached_was_not_sent_anything() -> None:
    assert (await refusal_of(config_for("ws://127.0.0.1:1/", "websocket"))).kind == "not_sent"


async def test_the_error_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets", None)
    with pytest.raises(ConfigError, match=r"pegboard\[websocket\]"):
        async with websocket_channel(
            config_for("ws://127.0.0.1:1/", "websocket"),
            receive=lambda message: None,
            on_lost=lambda reason: None,
        ):
            raise AssertionError


async def test_a_request_that_cannot_be_written_leaves_the_session_alone() -> None:
    async with websocket_server() as (url, _), hub_of(config_for(url, "websocket")) as hub:
        with anyio.fail_after(5), pytest.raises(UpstreamError, match="was not sent"):
            await hub.server("remote").request("resources/read", {"uri": "half a pair: \ud83d"})
        assert (await hub.call("mcp_remote_echo", {"text": "hi"})).text() == "hi"
        assert hub.servers["remote"].starts == 1
