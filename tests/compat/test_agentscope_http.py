"""AgentScope's HTTP clients against real servers on loopback, over both transports."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pegboard.compat.agentscope import (
    HttpStatefulClient,
    HttpStatelessClient,
    MCPToolFunction,
    TextBlock,
    Toolkit,
    ToolResponse,
)
from pegboard.errors import (
    ConnectionLostError,
    ServerAuthenticationError,
    ServerTimeoutError,
    ServerUnavailableError,
    ToolTimeoutError,
    UpstreamError,
)
from tests.upstream.http_servers import Gate, build_server, cutting_proxy, serving, serving_raw

for late in ("httpcore2", "jsonschema"):
    # The SDK's transports and sessions import these when first used, which blocks the loop.
    import_module(late)

BOTH = pytest.mark.parametrize("transport", ["streamable_http", "sse"])
KINDS = pytest.mark.parametrize("kind", [HttpStatelessClient, HttpStatefulClient])


class Visitors:
    """Notes which sessions came, and which were ended, on the way to an app."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.came: set[bytes] = set()
        self.left: set[bytes] = set()
        self.headers: list[dict[bytes, bytes]] = []
        self.methods: list[str] = []
        self.refused = ""
        self.changed = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = dict(scope["headers"])
        self.headers.append(headers)
        if self.refused == _era(headers):
            return await PlainTextResponse("not any more", 400)(scope, receive, send)
        session = headers.get(b"mcp-session-id") or scope["query_string"]
        if session:
            self.came.add(session)

        async def noting() -> Any:
            message = await receive()
            if body := message.get("body"):
                self.methods.append(json.loads(body).get("method", ""))
            return message

        await self.app(scope, noting, send)
        if scope["method"] == "DELETE":
            self.left.add(session)
            self.changed.set()
            self.changed = anyio.Event()
        return None

    async def until_all_left(self) -> None:
        with anyio.fail_after(5):
            while self.left != self.came:
                await self.changed.wait()


def _era(headers: dict[bytes, bytes]) -> str:
    modern = headers.get(b"mcp-protocol-version") == b"2026-07-28"
    return "modern" if modern else "legacy"


@asynccontextmanager
async def server(transport: str, gate: Gate | None = None) -> AsyncGenerator[tuple[Visitors, str]]:
    built = build_server(gate)
    app = built.sse_app() if transport == "sse" else built.streamable_http_app()
    visitors = Visitors(app)
    async with serving(visitors) as origin:
        yield visitors, origin + ("/sse" if transport == "sse" else "/mcp")


async def close(client: HttpStatelessClient | HttpStatefulClient) -> None:
    if isinstance(client, HttpStatefulClient):
        await client.close()


@pytest.mark.covers("R-AS-1", "R-AS-2", "R-AS-19", "R-AS-32")
@BOTH
@KINDS
async def test_a_remote_tool_is_a_local_function(transport: Any, kind: Any) -> None:
    async with server(transport) as (visitors, url):
        client = kind("remote", transport, url, headers={"X-Team": "blue"}, timeout=10)
        tools = await client.list_tools()
        assert len(tools) == 3
        assert all(isinstance(tool, types.Tool) for tool in tools)
        echo = await client.get_callable_function("echo")
        response = await echo(text="grüß Gott 🙂")
        assert isinstance(response, ToolResponse)
        assert response.content == [TextBlock(type="text", text="grüß Gott 🙂")]
        raw = await client.get_callable_function("echo", wrap_tool_result=False)
        result = await raw(text="hi")
        assert isinstance(result, types.CallToolResult)
        assert result.structured_content == {"result": "hi"}
        with pytest.raises(ValueError, match="'echo'"):
            await client.get_callable_function("ecco")
        await close(client)
    assert {headers[b"x-team"] for headers in visitors.headers} == {b"blue"}


@pytest.mark.covers("R-AS-11", "R-AS-20")
@BOTH
async def test_a_stateless_client_opens_a_session_for_every_call(transport: Any) -> None:
    async with server(transport) as (visitors, url):
        client = HttpStatelessClient("remote", transport, url, protocol="legacy")
        echo = await client.get_callable_function("echo")
        for text in ("one", "two"):
            await echo(text=text)
        assert len(visitors.came) == 3
        if transport == "streamable_http":
            await visitors.until_all_left()


@pytest.mark.covers("R-AS-15")
@BOTH
async def test_a_stateful_client_keeps_one_session_from_its_first_use(transport: Any) -> None:
    async with server(transport) as (visitors, url):
        client = HttpStatefulClient("remote", transport, url, protocol="legacy")
        assert visitors.headers == []
        echo = await client.get_callable_function("echo")
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(lambda: echo(text="hi"))
        assert len(visitors.came) == 1
        await client.reset_session()
        await echo(text="hi")
        assert len(visitors.came) == 2
        await client.close()


@BOTH
async def test_tasks_that_use_a_stateful_client_first_share_its_session(transport: Any) -> None:
    async with server(transport) as (visitors, url):
        client = HttpStatefulClient("remote", transport, url, protocol="legacy")
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(client.list_tools)
        assert len(visitors.came) == 1
        await client.close()


@pytest.mark.covers("R-AS-12", "R-AS-31")
@BOTH
async def test_a_stateless_client_gives_out_disposable_clients(transport: Any) -> None:
    async with server(transport) as (_, url):
        remote = HttpStatelessClient("remote", transport, url)
        async with remote.get_client() as client, remote.get_client() as other:
            assert client is not other
            first, *_ = await client.list_tools()
            assert first["name"] == "echo"
            assert (await other.call_tool("echo", {"text": "a"}))["content"][0]["text"] == "a"
        assert not client.is_connected


@pytest.mark.covers("R-AS-13")
async def test_a_stateless_client_asks_for_the_list_once() -> None:
    async with server("streamable_http") as (visitors, url):
        client = HttpStatelessClient("remote", "streamable_http", url)
        assert client._tools is None  # pyright: ignore[reportPrivateUsage]
        await client.get_callable_function("echo")
        await client.get_callable_function("large")
        assert visitors.methods.count("tools/list") == 1
        tools = await client.list_tools()
        assert client._tools == tools  # pyright: ignore[reportPrivateUsage]
        assert visitors.methods.count("tools/list") == 2
        await client.get_callable_function("large")
        assert visitors.methods.count("tools/list") == 2


@pytest.mark.covers("R-AS-11")
async def test_a_stateless_client_asks_once_which_protocol_a_server_speaks() -> None:
    async with server("streamable_http") as (visitors, url):
        client = HttpStatelessClient("remote", "streamable_http", url)
        echo = await client.get_callable_function("echo")
        assert visitors.methods.count("server/discover") == 1
        visitors.methods.clear()
        for text in ("one", "two"):
            assert (await echo(text=text)).content == [TextBlock(type="text", text=text)]
        assert visitors.methods == ["tools/call"] * 2


@pytest.mark.covers("R-AS-11")
@pytest.mark.parametrize("refused", [("legacy", "modern"), ("modern", "legacy")])
async def test_a_stateless_client_asks_again_after_something_went_wrong(
    refused: tuple[str, str],
) -> None:
    async with server("streamable_http") as (visitors, url):
        visitors.refused, then = refused
        client = HttpStatelessClient("remote", "streamable_http", url)
        echo = await client.get_callable_function("echo")
        await echo(text="one")
        visitors.refused = then
        with pytest.raises(UpstreamError):
            await echo(text="two")
        assert (await echo(text="three")).content == [TextBlock(type="text", text="three")]


@pytest.mark.covers("R-AS-26", "R-AS-27", "R-AS-28")
@BOTH
@KINDS
async def test_a_toolkit_calls_remote_tools_and_forgets_them(transport: Any, kind: Any) -> None:
    async with server(transport) as (_, url):
        client = kind("remote", transport, url)
        toolkit = Toolkit()
        await toolkit.register_mcp_client(client, "basic")
        call = {"type": "tool_use", "id": "1", "name": "echo", "input": {"text": "hi"}}
        async for response in await toolkit.call_tool_function(call):
            assert response.content == [TextBlock(type="text", text="hi")]
        await toolkit.remove_mcp_servers(["remote"])
        assert toolkit.get_json_schemas() == []
        await close(client)


@pytest.mark.covers("R-AS-20")
async def test_a_cancelled_call_ends_its_session() -> None:
    gate = Gate()
    async with server("streamable_http", gate) as (visitors, url):
        client = HttpStatelessClient("remote", "streamable_http", url, protocol="legacy")
        wait = await client.get_callable_function("wait")
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await gate.until_waiting(1)
            group.cancel_scope.cancel()
        await visitors.until_all_left()


@pytest.mark.covers("R-AS-20", "R-AS-30", "R-AS-32")
@BOTH
@KINDS
async def test_a_tool_that_takes_too_long_is_a_timeout(transport: Any, kind: Any) -> None:
    gate = Gate()
    async with server(transport, gate) as (_, url):
        client = kind("remote", transport, url, sse_read_timeout=0.2)
        wait = await client.get_callable_function("wait")
        with anyio.fail_after(10), pytest.raises(ToolTimeoutError) as caught:
            await wait()
        assert isinstance(caught.value, TimeoutError)
        gate.released.set()
        await close(client)


@pytest.mark.covers("R-AS-5", "R-AS-30", "R-AS-32")
@BOTH
@KINDS
async def test_credentials_that_are_refused_are_an_authentication_error(
    transport: Any, kind: Any
) -> None:
    async def refuse(_: Any) -> PlainTextResponse:
        return PlainTextResponse("who are you?", 401)

    app = Starlette(routes=[Route("/", refuse, methods=["GET", "POST"])])
    async with serving(app) as origin:
        error = await failure(kind("remote", transport, origin + "/"))
    assert isinstance(error, ServerAuthenticationError)
    assert isinstance(error, PermissionError)
    assert error.server == "remote"


@pytest.mark.covers("R-AS-5", "R-AS-30", "R-AS-32")
@BOTH
@KINDS
async def test_a_server_that_is_not_there_is_a_connection_error(transport: Any, kind: Any) -> None:
    async with serving(Starlette()) as origin:
        gone = origin
    error = await failure(kind("remote", transport, gone + "/mcp"))
    assert isinstance(error, ServerUnavailableError)
    assert isinstance(error, ConnectionError)
    assert not isinstance(error, TimeoutError | PermissionError)


@pytest.mark.covers("R-AS-5", "R-AS-30", "R-AS-32")
@BOTH
@KINDS
async def test_a_server_that_never_answers_is_a_timeout(transport: Any, kind: Any) -> None:
    async def silent(_: Any) -> None:
        await anyio.sleep_forever()

    async with serving_raw(silent) as origin:
        error = await failure(kind("remote", transport, origin + "/mcp", timeout=0.2))
    assert isinstance(error, ServerTimeoutError)
    assert isinstance(error, TimeoutError)


@pytest.mark.covers("R-AS-5", "R-AS-30", "R-AS-32")
@BOTH
@KINDS
async def test_a_connection_cut_in_mid_call_says_that_the_tool_may_have_run(
    transport: Any, kind: Any
) -> None:
    async with server(transport) as (_, url):
        origin, _, path = url.rpartition("/")
        async with cutting_proxy(origin, b"cut me") as proxy:
            client = kind("remote", transport, f"{proxy}/{path}", sse_read_timeout=10)
            echo = await client.get_callable_function("echo")
            with anyio.fail_after(10), pytest.raises(ConnectionLostError) as caught:
                await echo(text="cut me")
            assert caught.value.sent
            await close(client)


async def failure(client: Any) -> UpstreamError:
    """What asking a client for its tools fails with."""
    ask: Callable[[], Any] = client.list_tools
    with anyio.fail_after(10), pytest.raises(UpstreamError) as caught:
        await ask()
    await close(client)
    return caught.value


@pytest.mark.covers("R-AS-18")
async def test_a_function_opens_a_session_on_the_streams_of_the_sdks_http_transports() -> None:
    tool = types.Tool(name="echo", input_schema={"type": "object"})
    server = build_server()
    async with serving(server.sse_app()) as sse, serving(server.streamable_http_app()) as http:
        for streams in (
            lambda: sse_client(f"{sse}/sse"),
            lambda: streamable_http_client(f"{http}/mcp"),
        ):
            function = MCPToolFunction("far", tool, client_gen=streams)
            assert (await function(text="hi")).content == [TextBlock(type="text", text="hi")]
