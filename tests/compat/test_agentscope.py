"""AgentScope's clients, functions and Toolkit, on servers in memory and on stdio."""
# pyright: reportPrivateUsage=false

import inspect
import json
import logging
import sys
import threading
from asyncio import CancelledError, create_task  # noqa: TID251 - agents cancel tasks
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters, stdio_client
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import create_model

import pegboard.compat.agentscope as agentscope
from pegboard.compat.agentscope import (
    HttpStatefulClient,
    HttpStatelessClient,
    MCPClientBase,
    MCPToolFunction,
    StatefulClientBase,
    StdIOStatefulClient,
    StdioStatefulClient,
    TextBlock,
    Toolkit,
    ToolResponse,
    ToolUseBlock,
    _extract_json_schema_from_mcp_tool,
)
from pegboard.config import ServerConfig
from pegboard.errors import (
    ConnectionLostError,
    InvalidArgumentsError,
    NotConnectedError,
    ProtocolError,
    ServerTimeoutError,
    ToolDisabledError,
    ToolTimeoutError,
)
from pegboard.policies import Retry, Validation
from pegboard.upstream.session.sdk_sessions import call_on_streams
from tests.compat.excelmanus_servers import in_memory, linux_only
from tests.compat.raw_servers import answering
from tests.upstream.processes import LIGHT, alive, all_ended, new_marker, until

SERVER = str(Path(__file__).parents[1] / "upstream/servers/echo_server.py")
TEXT = types.TextContent(text="hello")
IMAGE = types.ImageContent(data="QUJD", mime_type="image/png")
AUDIO = types.AudioContent(data="REVG", mime_type="audio/wav")
IMAGE_BLOCK = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
}
AUDIO_BLOCK = {
    "type": "audio",
    "source": {"type": "base64", "media_type": "audio/wav", "data": "REVG"},
}


def text_block(text: str) -> TextBlock:
    return TextBlock(type="text", text=text)


def build_server() -> MCPServer:
    server = MCPServer("shop", log_level="CRITICAL")

    @server.tool()
    def price(item: str, currency: str = "EUR") -> str:
        """Tell what an item costs."""
        return f"{item}: 3 {currency}"

    @server.tool(structured_output=False)
    def picture() -> list[Any]:
        """Show everything there is."""
        return [TEXT, IMAGE, AUDIO]

    @server.tool()
    def fail() -> str:
        raise ToolError("out of stock")

    return server


def client_of(server: Any, name: str = "shop") -> StatefulClientBase:
    return StatefulClientBase(name, ServerConfig(name=name, transport="memory", server=server))


def echo_client() -> StdioStatefulClient:
    return StdioStatefulClient("echo", sys.executable, ["-S", "-E", LIGHT])


@asynccontextmanager
async def shop(**options: Any) -> AsyncGenerator[Toolkit]:
    toolkit = Toolkit()
    client = client_of(build_server())
    await toolkit.register_mcp_client(client, **options)
    yield toolkit
    await client.close()


def use(name: str, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(type="tool_use", id="7", name=name, input=arguments)


async def responses(toolkit: Toolkit, name: str, **arguments: Any) -> list[ToolResponse]:
    return [it async for it in await toolkit.call_tool_function(use(name, **arguments))]


async def content(toolkit: Toolkit, name: str, **arguments: Any) -> Any:
    (response,) = await responses(toolkit, name, **arguments)
    return response.content


def names(toolkit: Toolkit) -> list[str]:
    return [schema["function"]["name"] for schema in toolkit.get_json_schemas()]


class Session:
    """Answers every call with the same result, and remembers what it was asked."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.calls: list[Any] = []

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((name, arguments))
        return self.result


@pytest.mark.covers("R-AS-6", "R-AS-14", "R-AS-21", "R-AS-31")
def test_all_clients_are_there_and_derive_from_the_bases() -> None:
    clients = {
        "MCPClientBase",
        "StatefulClientBase",
        "HttpStatefulClient",
        "HttpStatelessClient",
        "StdioStatefulClient",
    }
    assert {*clients, "MCPToolFunction"} <= set(agentscope.__all__)
    for name in agentscope.__all__:
        assert getattr(agentscope, name) is not None
    assert getattr(MCPClientBase.get_callable_function, "__isabstractmethod__", False)
    assert MCPClientBase("base").name == "base"
    assert client_of(build_server(), "Shop").name == "Shop"
    assert StdIOStatefulClient is StdioStatefulClient
    for stateful in (HttpStatefulClient, StdioStatefulClient):
        assert issubclass(stateful, StatefulClientBase)
    for client in (StatefulClientBase, HttpStatelessClient):
        assert issubclass(client, MCPClientBase)
    for session in ("start_session", "close_session", "reset_session"):
        assert callable(getattr(StatefulClientBase, session))


@pytest.mark.covers("R-AS-7")
@pytest.mark.parametrize("client", [MCPClientBase, StatefulClientBase, HttpStatelessClient])
def test_a_function_is_asked_for_as_in_the_document(client: type[MCPClientBase]) -> None:
    assert inspect.iscoroutinefunction(client.get_callable_function)
    _, *parameters = inspect.signature(client.get_callable_function).parameters.values()
    assert [(it.name, it.default, it.kind) for it in parameters[:2]] == [
        ("func_name", inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD),
        ("wrap_tool_result", True, inspect.Parameter.POSITIONAL_OR_KEYWORD),
    ]


@pytest.mark.covers("R-AS-9")
def test_the_signatures_are_those_of_the_document() -> None:
    for client in (HttpStatelessClient, HttpStatefulClient):
        parameters = list(inspect.signature(client).parameters.values())
        assert [(it.name, it.default) for it in parameters[:-1]] == [
            ("name", inspect.Parameter.empty),
            ("transport", inspect.Parameter.empty),
            ("url", inspect.Parameter.empty),
            ("headers", None),
            ("timeout", 30),
            ("sse_read_timeout", 300),
        ]
        assert {it.kind for it in parameters[:-1]} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
        assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD


@pytest.mark.covers("R-AS-10")
@pytest.mark.parametrize("kind", [HttpStatelessClient, HttpStatefulClient])
@pytest.mark.parametrize("transport", ["stdio", "websocket", "", None])
def test_other_transports_are_rejected(kind: Any, transport: Any) -> None:
    with pytest.raises(ValueError, match="streamable_http"):
        kind("remote", transport, "http://127.0.0.1:1/mcp")


@pytest.mark.covers("R-AS-10")
@pytest.mark.parametrize("kind", [HttpStatelessClient, HttpStatefulClient])
@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
def test_both_http_transports_are_accepted(kind: Any, transport: Any) -> None:
    assert kind("remote", transport, "http://127.0.0.1:1/mcp").name == "remote"


@pytest.mark.covers("R-AS-9", "R-AS-30")
def test_headers_time_limits_and_credentials_are_set_per_client() -> None:
    client = HttpStatelessClient(
        "remote",
        "sse",
        "https://example.com/sse",
        headers={"x-team": "a"},
        timeout=3,
        sse_read_timeout=4,
        bearer_token="secret-token",
    )
    limits = client._config.timeouts
    assert (limits.connect, limits.list, limits.call) == (3, 3, 4)
    assert client._config.headers == {"x-team": "a"}
    assert client._config.bearer_token == "secret-token"
    with pytest.raises(TypeError, match="bearer_token"):
        HttpStatelessClient("a", "sse", "https://example.com", nonsense=1)  # pyright: ignore[reportCallIssue]


@pytest.mark.covers("R-AS-3", "R-AS-6", "R-AS-22", "R-AS-32")
def test_text_images_and_sounds_become_message_blocks() -> None:
    blocks = MCPClientBase._convert_mcp_content_to_as_blocks([TEXT, IMAGE, AUDIO])
    assert blocks == [text_block("hello"), IMAGE_BLOCK, AUDIO_BLOCK]


@pytest.mark.covers("R-AS-23", "R-AS-32")
@pytest.mark.parametrize(
    "strange",
    [
        {"type": "video", "data": "QUJD"},
        {"type": "text"},
        SimpleNamespace(type="hologram"),
        types.EmbeddedResource(
            resource=types.BlobResourceContents(uri="a:b", mime_type="font/otf", blob="QUJD")
        ),
        "just a string",
        None,
    ],
    ids=str,
)
def test_what_is_not_supported_is_reported_and_the_rest_is_kept(
    strange: Any, caplog: pytest.LogCaptureFixture
) -> None:
    blocks = MCPClientBase._convert_mcp_content_to_as_blocks([TEXT, strange, IMAGE])
    assert blocks == [text_block("hello"), IMAGE_BLOCK]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING


@pytest.mark.covers("X-AS-8")
def test_links_and_embedded_resources_become_what_they_hold() -> None:
    found = [
        types.ResourceLink(name="log", uri="file:///log"),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="a:b", text="inside")),
        types.EmbeddedResource(
            resource=types.BlobResourceContents(uri="a:b", mime_type="image/png", blob="QUJD")
        ),
        types.EmbeddedResource(
            resource=types.BlobResourceContents(uri="a:b", mime_type="audio/wav", blob="REVG")
        ),
    ]
    link, inside, *media = MCPClientBase._convert_mcp_content_to_as_blocks(found)
    assert link["type"] == "text"
    assert "file:///log" in link["text"]
    assert inside["type"] == "text"
    assert json.loads(inside["text"]) == {
        "uri": "a:b",
        "mimeType": None,
        "meta": None,
        "text": "inside",
    }
    assert media == [IMAGE_BLOCK, AUDIO_BLOCK]


@pytest.mark.covers("R-AS-22")
@given(st.lists(st.text()))
def test_every_text_survives(texts: list[str]) -> None:
    wire = [{"type": "text", "text": text} for text in texts]
    assert MCPClientBase._convert_mcp_content_to_as_blocks(wire) == wire


@pytest.mark.covers("R-AS-24", "X-AS-5")
def test_the_whole_schema_of_a_tool_is_kept_whichever_sdk_it_comes_from() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"anyOf": [{}, {"type": "null"}]}},
        "required": ["a"],
        "$defs": {"A": {"type": "string"}},
    }
    expected = {
        "type": "function",
        "function": {"name": "t", "description": "T.", "parameters": schema},
    }
    new = types.Tool(name="t", description="T.", input_schema=schema)
    old = SimpleNamespace(name="t", description="T.", inputSchema=schema)
    for tool in (new, old):
        assert _extract_json_schema_from_mcp_tool(tool) == expected
    bare = types.Tool(name="t", input_schema={"type": "object"})
    assert _extract_json_schema_from_mcp_tool(bare)["function"] == {
        "name": "t",
        "description": None,
        "parameters": {"type": "object", "properties": {}, "required": []},
    }


TOOL = types.Tool(name="echo", description="Echo.", input_schema={"type": "object"})


@pytest.mark.covers("R-AS-17", "R-AS-18", "R-AS-31", "R-AS-32")
async def test_a_function_uses_the_session_it_is_given() -> None:
    session = Session(types.CallToolResult(content=[TEXT]))
    function = MCPToolFunction("one", TOOL, session=session)
    assert (function.name, function.description) == ("echo", "Echo.")
    assert function.json_schema == _extract_json_schema_from_mcp_tool(TOOL)
    response = await function(self=1, name="ü")
    assert response.content == [text_block("hello")]
    assert session.calls == [("echo", {"self": 1, "name": "ü"})]


@pytest.mark.covers("R-AS-18", "R-AS-20")
@pytest.mark.parametrize("result", [{"content": []}, None])
async def test_a_function_opens_a_client_for_each_call_and_closes_it(result: Any) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def client_gen() -> AsyncGenerator[Any]:
        events.append("open")
        try:
            yield Session(result) if result else None
        finally:
            events.append("closed")

    function = MCPToolFunction("one", TOOL, client_gen=client_gen)
    for _ in range(2):
        if result:
            await function()
        else:
            with pytest.raises(AttributeError):
                await function()
    assert events == ["open", "closed"] * 2


def echo_streams() -> Any:
    return stdio_client(StdioServerParameters(command=sys.executable, args=[SERVER]))


@pytest.mark.covers("R-AS-18", "R-AS-19")
async def test_a_function_opens_a_session_on_the_streams_of_a_transport() -> None:
    function = MCPToolFunction("echo", TOOL, client_gen=echo_streams)
    assert (await function(text="hi")).content == [text_block("hi")]
    raw = MCPToolFunction("echo", TOOL, client_gen=echo_streams, wrap_tool_result=False)
    answer = await raw(text="hi")
    assert isinstance(answer, types.CallToolResult)
    assert answer.content == [types.TextContent(text="hi")]


@pytest.mark.covers("R-AS-18")
async def test_a_third_thing_beside_the_streams_does_no_harm() -> None:
    @asynccontextmanager
    async def three() -> AsyncGenerator[Any]:
        async with echo_streams() as (read, write):
            yield read, write, lambda: "session id"

    function = MCPToolFunction("echo", TOOL, client_gen=three)
    assert (await function(text="hi")).content == [text_block("hi")]


async def test_progress_comes_over_the_streams_of_a_transport_too() -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    tool = types.Tool(name="progress", input_schema={"type": "object"})
    function = MCPToolFunction("echo", tool, client_gen=echo_streams, on_progress=note)
    assert (await function(n=2)).content == [text_block("done")]
    assert seen == [1, 2]


@pytest.mark.covers("R-AS-5", "R-AS-18", "R-AS-30")
async def test_a_failure_on_the_streams_of_a_transport_is_one_error_and_no_group() -> None:
    crash = types.Tool(name="crash", input_schema={"type": "object"})
    with pytest.raises(ConnectionLostError) as caught:
        await MCPToolFunction("", crash, client_gen=echo_streams)()
    assert caught.value.tool == "crash"
    slow = types.Tool(name="slow", input_schema={"type": "object"})
    function = MCPToolFunction("echo", slow, client_gen=echo_streams, timeout=1)
    with pytest.raises(ToolTimeoutError):
        await function(seconds=60)


async def test_a_peer_that_never_answers_the_handshake_is_given_up() -> None:
    there, read = anyio.create_memory_object_stream[Any](1)
    write, here = anyio.create_memory_object_stream[Any](1)
    async with there, here:
        with anyio.fail_after(5):
            answer = await call_on_streams((read, write), "echo", {}, server="mute", patience=0.01)
    assert isinstance(answer, ServerTimeoutError)
    assert answer.server == "mute"


@pytest.mark.covers("R-AS-18")
def test_a_function_needs_either_a_session_or_a_way_to_get_one() -> None:
    with pytest.raises(ValueError, match="client_gen"):
        MCPToolFunction("one", TOOL)
    with pytest.raises(ValueError, match="not both"):
        MCPToolFunction("one", TOOL, session=Session(None), client_gen=lambda: None)  # pyright: ignore[reportArgumentType]


@pytest.mark.covers("R-AS-3", "R-AS-18", "R-AS-19")
async def test_a_session_of_the_sdk_will_do() -> None:
    async with Client(build_server()) as session:
        _, picture, _ = (await session.list_tools()).tools
        wrapped = MCPToolFunction("shop", picture, session=session)
        assert (await wrapped()).content == [text_block("hello"), IMAGE_BLOCK, AUDIO_BLOCK]
        raw = MCPToolFunction("shop", picture, session=session, wrap_tool_result=False)
        assert isinstance(await raw(), types.CallToolResult)


@pytest.mark.covers("R-AS-19", "R-AS-29")
async def test_results_are_wrapped_or_the_sdks_own() -> None:
    client = client_of(build_server())
    wrapped = await client.get_callable_function("price")
    response = await wrapped(item="pen")
    assert isinstance(response, ToolResponse)
    assert response == ToolResponse([text_block("pen: 3 EUR")], id=response.id)
    assert response.structured_content == {"result": "pen: 3 EUR"}
    raw = await client.get_callable_function("price", wrap_tool_result=False)
    result = await raw(item="pen")
    assert isinstance(result, types.CallToolResult)
    assert result.structured_content == {"result": "pen: 3 EUR"}
    await client.close()


@pytest.mark.covers("R-AS-23", "X-AS-8")
async def test_an_answer_is_wrapped_with_what_is_known_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wire: dict[str, Any] = {
        "content": [{"type": "video"}, IMAGE.model_dump(by_alias=True)],
        "structuredContent": {"frames": 3, "titel": "grün"},
        "isError": True,
        "_meta": {"trace": 1},
    }
    response = await MCPToolFunction("one", TOOL, session=Session(wire))()
    assert response.content == [IMAGE_BLOCK, text_block('{"frames":3,"titel":"grün"}')]
    assert response.is_error
    assert response.structured_content == {"frames": 3, "titel": "grün"}
    assert response.metadata == {"trace": 1}
    assert "video" in caplog.text


async def test_an_answer_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="'NoneType'"):
        await MCPToolFunction("one", TOOL, session=Session(None))()


@pytest.mark.covers("X-AS-1", "R-AS-30")
async def test_a_function_can_have_a_time_limit_of_its_own() -> None:
    client = echo_client()
    slow = await client.get_callable_function("slow", execution_timeout=0.01)
    with pytest.raises(ToolTimeoutError, match="execution_timeout"):
        await slow(seconds=60)
    echo = await client.get_callable_function("echo")
    assert (await echo(text="still there")).content == [text_block("still there")]
    await client.close()


@pytest.mark.covers("R-AS-8", "R-AS-25", "R-AS-32")
async def test_an_unknown_tool_is_a_value_error() -> None:
    client = client_of(build_server())
    with pytest.raises(ValueError, match="'price'"):
        await client.get_callable_function("prise")
    await client.close()


@pytest.mark.covers("R-AS-16")
async def test_a_process_gets_its_environment_and_folder() -> None:
    program = Path(LIGHT)
    client = StdioStatefulClient(
        "echo",
        sys.executable,
        ["-S", "-E", program.name],
        env={"TEAM": "blue"},
        cwd=str(program.parent),
    )
    env = await client.get_callable_function("env")
    assert (await env(name="TEAM")).content == [text_block("blue")]
    await client.close()


@pytest.mark.covers("R-AS-1", "R-AS-2", "R-AS-14", "R-AS-16", "R-AS-20", "R-AS-29")
async def test_a_process_keeps_its_state_between_calls_and_ends_with_the_session() -> None:
    steps: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    client = echo_client()
    assert not client.is_connected
    pid = await client.get_callable_function("pid")
    assert client.is_connected
    first = (await pid()).content
    assert (await pid()).content == first
    progress = await client.get_callable_function("progress", on_progress=on_progress)
    await progress(n=2)
    assert steps == [(1, 2, None), (2, 2, None)]
    await client.reset_session()
    assert (await pid()).content != first
    await client.close()
    assert not client.is_connected


@pytest.mark.covers("R-AS-14", "R-AS-15", "X-AS-11")
async def test_sessions_start_and_end_by_either_name_in_any_order() -> None:
    client = client_of(build_server())
    await client.close_session()
    with pytest.raises(NotConnectedError):
        await client.list_tools()
    await client.start_session()
    await client.connect()
    with pytest.raises(RuntimeError, match="already"):
        await client.connect(strict=True)
    assert len(await client.list_tools()) == 3
    price = await client.get_callable_function("price")
    await client.close()
    await client.close_session()
    # A caller that closed it on purpose does not want it back because of a late call.
    with pytest.raises(NotConnectedError):
        await price(item="pen")
    await client.start_session()
    assert (await price(item="pen")).content == [text_block("pen: 3 EUR")]
    await client.close_session()
    assert not client.is_connected


@pytest.mark.covers("X-AS-11")
async def test_clients_are_closed_in_the_order_they_were_opened_and_by_other_tasks() -> None:
    clients = [client_of(build_server(), f"shop {number}") for number in range(3)]
    async with anyio.create_task_group() as group:
        for client in clients:
            group.start_soon(client.connect)
    async with anyio.create_task_group() as group:
        for client in clients:
            group.start_soon(client.close)
    assert not any(client.is_connected for client in clients)


@pytest.mark.covers("R-AS-5", "R-AS-30")
async def test_a_server_lost_in_mid_call_is_an_error_and_reset_begins_anew() -> None:
    client = echo_client()
    crash = await client.get_callable_function("crash")
    with pytest.raises(ConnectionLostError):
        await crash()
    with pytest.raises(NotConnectedError, match="gone"):
        await crash()
    await client.reset_session()
    echo = await client.get_callable_function("echo")
    assert (await echo(text="back")).content == [text_block("back")]
    await client.close()


@pytest.mark.covers("R-AS-5")
async def test_a_server_that_cannot_be_started_is_an_error_and_can_be_tried_again() -> None:
    client = StdioStatefulClient("gone", "no-such-program-anywhere")
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await client.list_tools()
    await client.close()


@linux_only
@pytest.mark.parametrize("how", ["connect", "register"])
async def test_a_server_that_is_given_up_while_it_starts_is_ended(how: str) -> None:
    name, _, value = (marker := new_marker()).partition("=")
    toolkit = Toolkit()
    client = StdioStatefulClient("mute", "sh", ["-c", "cat > /dev/null"], {name: value})
    work = client.connect() if how == "connect" else toolkit.register_mcp_client(client)
    task = create_task(work)
    await until(lambda: bool(alive(marker)))
    task.cancel()
    with pytest.raises(CancelledError):
        await task
    assert not client.is_connected
    assert not toolkit.tools
    await all_ended(marker)


@pytest.mark.covers("R-AS-1", "R-AS-24", "R-AS-26")
async def test_registering_a_client_registers_its_tools() -> None:
    async with shop() as toolkit:
        assert names(toolkit) == ["price", "picture", "fail"]
        schema, *_ = toolkit.get_json_schemas()
        assert (schema["type"], set(schema)) == ("function", {"type", "function"})
        price = schema["function"]
        assert price["description"] == "Tell what an item costs."
        assert price["parameters"]["required"] == ["item"]
        assert await content(toolkit, "picture") == [text_block("hello"), IMAGE_BLOCK, AUDIO_BLOCK]
        assert await content(toolkit, "price", item="pen") == [text_block("pen: 3 EUR")]


@pytest.mark.covers("R-AS-27", "R-AS-25")
async def test_removing_a_client_removes_its_tools_and_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def local() -> str:
        return "here"

    async with shop() as toolkit:
        toolkit.register_tool_function(local)
        other = client_of(build_server(), "other")
        await toolkit.register_mcp_client(other, namesake_strategy="rename")
        picture = await other.get_callable_function("picture")
        toolkit.register_tool_function(picture, func_name="another")
        assert len(names(toolkit)) == 8
        await toolkit.remove_mcp_servers(other)
        assert names(toolkit) == ["price", "picture", "fail", "local"]
        await toolkit.remove_mcp_clients(client_names=["shop"])
        assert names(toolkit) == ["local"]
        caplog.clear()
        await toolkit.remove_mcp_servers("shop")
        toolkit.remove_tool_function("price")
        # AgentScope is silent about the tool.
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        toolkit.remove_tool_function("local")
        assert names(toolkit) == []
        await other.close()


@pytest.mark.covers("R-AS-28")
async def test_an_agent_calls_local_and_remote_tools_in_the_same_way() -> None:
    def local_price(item: str) -> ToolResponse:
        """Tell what an item costs."""
        return ToolResponse([text_block(f"{item}: 3 EUR")])

    async def plain_price(item: str) -> str:
        return f"{item}: 3 EUR"

    async with shop() as toolkit:
        toolkit.register_tool_function(local_price)
        toolkit.register_tool_function(plain_price)
        for name in ("price", "local_price", "plain_price"):
            (response,) = await responses(toolkit, name, item="pen")
            assert isinstance(response, ToolResponse)
            assert response.content == [text_block("pen: 3 EUR")]


@pytest.mark.covers("R-AS-28", "R-AS-29")
async def test_tools_that_yield_are_streamed() -> None:
    closed: list[str] = []

    async def count(to: int) -> AsyncIterator[ToolResponse]:
        try:
            for number in range(to):
                yield ToolResponse([text_block(str(number))], stream=True)
        finally:
            closed.append("count")

    def plain(to: int) -> Iterator[str]:
        yield from (str(number) for number in range(to))

    toolkit = Toolkit()
    toolkit.register_tool_function(count, postprocess_func=lambda _, it: it)
    toolkit.register_tool_function(plain)
    for name in ("count", "plain"):
        chunks = await responses(toolkit, name, to=3)
        assert [chunk.content for chunk in chunks] == [[text_block(it)] for it in "012"]
    closed.clear()
    stream = await toolkit.call_tool_function(use("count", to=3))
    async for _ in stream:
        break
    await stream.aclose()
    assert closed == ["count"]


@pytest.mark.covers("X-AS-8")
async def test_a_failure_that_a_tool_reports_is_marked() -> None:
    async with shop() as toolkit:
        (response,) = await responses(toolkit, "fail")
        assert response.is_error
        assert "out of stock" in response.content[0]["text"]  # pyright: ignore[reportGeneralTypeIssues]


@pytest.mark.covers("R-AS-8", "R-AS-5")
async def test_errors_reach_a_caller_that_asks_for_them() -> None:
    def divide(a: int) -> float:
        return 1 / a

    async def cancelled() -> None:
        raise CancelledError

    async def cancelled_within() -> AsyncIterator[str]:
        yield "first"
        raise CancelledError

    toolkit = Toolkit(raise_errors=True)
    toolkit.register_tool_function(divide)
    toolkit.register_tool_function(cancelled)
    toolkit.create_tool_group("off")
    toolkit.register_tool_function(divide, "off", func_name="hidden")
    with pytest.raises(ValueError, match="'divide'"):
        await responses(toolkit, "devide")
    with pytest.raises(ZeroDivisionError):
        await responses(toolkit, "divide", a=0)
    with pytest.raises(ToolDisabledError):
        await responses(toolkit, "hidden", a=1)
    toolkit.register_tool_function(cancelled_within)
    for name in ("cancelled", "cancelled_within"):
        with pytest.raises(CancelledError):
            await responses(toolkit, name)


@pytest.mark.covers("R-AS-5", "X-AS-13")
async def test_an_agent_is_told_what_went_wrong_and_goes_on() -> None:
    def divide(a: int) -> float:
        return 1 / a

    async def cancelled() -> None:
        raise CancelledError

    async with shop() as toolkit:
        toolkit.register_tool_function(divide)
        toolkit.register_tool_function(cancelled)
        toolkit.create_tool_group("off")
        toolkit.register_tool_function(divide, "off", func_name="hidden")
        for name, arguments, words in (
            ("devide", {}, "FunctionNotFoundError"),
            ("hidden", {"a": 1}, "reset_equipped_tools"),
            ("divide", {"a": 0}, "Error: division by zero"),
            ("divide", {}, "Error: "),
        ):
            (response,) = await responses(toolkit, name, **arguments)
            assert response.is_error
            assert words in response.content[0]["text"]  # pyright: ignore[reportGeneralTypeIssues]
        (response,) = await responses(toolkit, "cancelled")
        assert response.is_interrupted
        assert await content(toolkit, "divide", a=1) == [text_block("1.0")]


@pytest.mark.covers("R-AS-5")
async def test_a_lost_server_is_told_to_an_agent_by_the_toolkit_and_raised_by_the_function() -> (
    None
):
    client = echo_client()
    toolkit = Toolkit()
    await toolkit.register_mcp_client(client, enable_funcs=["crash"])
    (response,) = await responses(toolkit, "crash")
    assert response.is_error
    assert "MCP tool" in response.content[0]["text"]  # pyright: ignore[reportGeneralTypeIssues]
    crash = await client.get_callable_function("crash")
    with pytest.raises(NotConnectedError):
        await crash()
    await client.close()


@pytest.mark.covers("R-AS-5", "R-AS-20")
@pytest.mark.parametrize("name", ["wait", "chunks"])
async def test_a_cancelled_call_answers_what_it_has(name: str) -> None:
    begun = anyio.Event()

    async def wait() -> ToolResponse:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def chunks() -> AsyncIterator[ToolResponse]:
        yield ToolResponse([text_block("first")], stream=True, is_last=False)
        await wait()

    toolkit = Toolkit()
    toolkit.register_tool_function(wait)
    toolkit.register_tool_function(chunks)
    # A task as an agent has it: what it cancels may answer.
    task = create_task(responses(toolkit, name))
    await begun.wait()
    task.cancel()
    *_, last = await task
    assert (last.is_interrupted, last.is_last) == (True, True)
    assert "interrupted" in last.content[-1]["text"]  # pyright: ignore[reportGeneralTypeIssues]


@pytest.mark.covers("X-AS-2", "R-AS-25")
async def test_tools_are_enabled_or_disabled_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async with shop(enable_funcs=["price"]) as toolkit:
        assert names(toolkit) == ["price"]
    async with shop(disable_funcs=["price"]) as toolkit:
        assert names(toolkit) == ["picture", "fail"]
    with pytest.raises(ValueError, match="'price'"):
        async with shop(enable_funcs=["price", "fail"], disable_funcs=["price"]):
            pass
    async with shop(enable_funcs="price") as toolkit:
        assert names(toolkit) == ["price"]
    assert caplog.records == []
    async with shop(enable_funcs=["price", "prize"]) as toolkit:
        assert names(toolkit) == ["price"]
    assert "'prize'" in caplog.text


@pytest.mark.covers("X-AS-2")
async def test_a_taken_name_is_settled_as_asked_and_otherwise_refused_with_all_its_batch() -> None:
    def price() -> str:
        return "priceless"

    toolkit = Toolkit()
    toolkit.register_tool_function(price)
    client = client_of(build_server())
    with pytest.raises(ValueError, match="'price'"):
        await toolkit.register_mcp_client(client)
    assert names(toolkit) == ["price"]
    await toolkit.register_mcp_client(client, enable_funcs=["price"], namesake_strategy="skip")
    assert await content(toolkit, "price") == [text_block("priceless")]
    await toolkit.register_mcp_client(client, enable_funcs=["price"], namesake_strategy="rename")
    assert names(toolkit) == ["price", "price_2"]
    assert await content(toolkit, "price_2", item="pen") == [text_block("pen: 3 EUR")]
    await toolkit.register_mcp_client(client, enable_funcs=["price"], namesake_strategy="override")
    assert await content(toolkit, "price", item="pen") == [text_block("pen: 3 EUR")]
    await client.close()


@pytest.mark.covers("X-AS-2")
async def test_preset_arguments_are_hidden_from_the_model_and_cannot_be_changed_by_it() -> None:
    async with shop(preset_kwargs_mapping={"price": {"currency": "USD"}}) as toolkit:
        parameters = toolkit.get_json_schemas()[0]["function"]["parameters"]
        assert list(parameters["properties"]) == ["item"]
        assert await content(toolkit, "price", item="pen", currency="EUR") == [
            text_block("pen: 3 USD")
        ]


@pytest.mark.covers("X-AS-2")
async def test_local_functions_can_have_preset_arguments_of_any_type() -> None:
    def query(database: object, sql: str, limit: int = 3) -> str:
        """Ask the database."""
        return f"{database}: {sql} ({limit})"

    toolkit = Toolkit()
    preset = {"database": Path("shop.db")}
    toolkit.register_tool_function(query, preset_kwargs=preset, func_description="Ask.")
    (schema,) = toolkit.get_json_schemas()
    assert schema["function"]["description"] == "Ask."
    assert list(schema["function"]["parameters"]["properties"]) == ["sql", "limit"]
    assert await content(toolkit, "query", sql="x", limit=1) == [text_block("shop.db: x (1)")]


@pytest.mark.covers("X-AS-2")
async def test_responses_are_postprocessed_by_functions_of_either_kind() -> None:
    seen: list[ToolUseBlock] = []

    async def louder(asked: ToolUseBlock, response: ToolResponse) -> ToolResponse:
        seen.append(asked)
        return ToolResponse([text_block("LOUD"), *response.content])

    def silent(asked: ToolUseBlock, response: ToolResponse) -> None:
        response.content.append(text_block("quiet"))

    async with shop(postprocess_func=louder) as toolkit:
        assert (await content(toolkit, "price", item="pen"))[0] == text_block("LOUD")
        assert seen == [use("price", item="pen")]
    async with shop(postprocess_func=silent) as toolkit:
        assert (await content(toolkit, "price", item="pen"))[-1] == text_block("quiet")


@pytest.mark.covers("X-AS-1")
async def test_registered_tools_can_have_a_time_limit() -> None:
    async def hang() -> str:
        await anyio.sleep_forever()
        return "never"

    toolkit = Toolkit(raise_errors=True)
    toolkit.register_tool_function(hang, execution_timeout=0.01)
    with pytest.raises(ToolTimeoutError):
        await responses(toolkit, "hang")


@pytest.mark.covers("X-AS-1")
async def test_a_time_limit_holds_between_two_chunks_of_a_stream() -> None:
    closed = anyio.Event()
    go_on = threading.Event()

    async def stall() -> AsyncIterator[str]:
        try:
            yield "first"
            await anyio.sleep_forever()
        finally:
            closed.set()

    def block() -> Iterator[str]:
        yield "first"
        go_on.wait()

    toolkit = Toolkit()
    for function in (stall, block):
        toolkit.register_tool_function(function, execution_timeout=0.5)
        stream = await toolkit.call_tool_function(use(function.__name__))
        with anyio.fail_after(5):
            assert (await anext(stream)).content == [text_block("first")]
            with pytest.raises(ToolTimeoutError, match="execution_timeout"):
                await anext(stream)
    assert closed.is_set()
    go_on.set()


async def test_a_stream_that_ends_in_time_is_whole() -> None:
    async def count(to: int) -> AsyncIterator[str]:
        for number in range(to):
            yield str(number)

    toolkit = Toolkit()
    toolkit.register_tool_function(count, execution_timeout=30)
    chunks = await responses(toolkit, "count", to=3)
    assert [chunk.content for chunk in chunks] == [[text_block(it)] for it in "012"]


@pytest.mark.covers("R-AS-26")
async def test_tools_of_a_group_are_there_while_it_is_active() -> None:
    toolkit = Toolkit()
    client = client_of(build_server())
    with pytest.raises(ValueError, match="'shopping'"):
        await toolkit.register_mcp_client(client, "shopping")
    toolkit.create_tool_group("shopping", "Buy things.")
    with pytest.raises(ValueError, match="exists"):
        toolkit.create_tool_group("shopping")
    await toolkit.register_mcp_client(client, "shopping")
    assert names(toolkit) == []
    (response,) = await responses(toolkit, "price", item="pen")
    assert response.is_error
    toolkit.update_tool_groups(["shopping"], active=True)
    assert await content(toolkit, "price", item="pen") == [text_block("pen: 3 EUR")]
    toolkit.update_tool_groups(["shopping", "basic"], active=False)
    assert names(toolkit) == []
    toolkit.clear()
    assert len(toolkit.registry) == 0
    await client.close()


@pytest.mark.covers("R-AS-4")
async def test_nothing_is_checked_or_repeated_unless_asked_for() -> None:
    calls: list[Any] = []

    def refuse(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        calls.append(arguments)
        raise MCPError(code=-32603, message="not today")

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    listed = [types.Tool(name="echo", input_schema=schema)]
    client = StatefulClientBase("one", in_memory("one", listed, answer=refuse))
    strict: dict[str, Any] = {"validation": Validation()}
    patient: dict[str, Any] = {"retry": Retry(3, idempotent=["*"], initial=0)}
    for policies, arguments, expected, seen in (
        ({}, {}, ProtocolError, 1),
        ({}, {"text": 5, "other": None}, ProtocolError, 1),
        (strict, {}, InvalidArgumentsError, 0),
        (patient, {}, ProtocolError, 3),
    ):
        toolkit = Toolkit(raise_errors=True, **policies)
        await toolkit.register_mcp_client(client)
        calls.clear()
        with pytest.raises(expected):
            await responses(toolkit, "echo", **arguments)
        assert calls == [arguments] * seen
    await client.close()


@pytest.mark.covers("R-AS-4")
async def test_calls_run_at_once_unless_limited() -> None:
    both = anyio.Event()
    running: list[str] = []

    async def meet() -> str:
        running.append("meet")
        if len(running) > 1:
            both.set()
        await both.wait()
        return "met"

    toolkit = Toolkit()
    toolkit.register_tool_function(meet)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(content, toolkit, "meet")


@pytest.mark.covers("R-AS-4")
async def test_a_call_that_lost_its_server_is_not_repeated(tmp_path: Path) -> None:
    trace = tmp_path / "calls"
    client = StdioStatefulClient("raw", *answering(notes=trace))
    toolkit = Toolkit(raise_errors=True)
    await toolkit.register_mcp_client(client)
    with pytest.raises(ConnectionLostError):
        await responses(toolkit, "echo")
    assert (await anyio.Path(trace).read_text("utf-8")).split().count("tools/call") == 1
    await client.close()


async def test_a_tool_with_a_broken_schema_is_registered_as_its_server_wrote_it() -> None:
    class Odd(StatefulClientBase):
        async def list_tools(self) -> list[Any]:
            await super().list_tools()
            self._tools = [types.Tool(name="picture", input_schema={"type": "nonsense"})]
            return self._tools

    client = Odd("odd", ServerConfig(name="odd", transport="memory", server=build_server()))
    toolkit = Toolkit()
    await toolkit.register_mcp_client(client)
    assert toolkit.tools["picture"].json_schema["function"]["parameters"]["type"] == "nonsense"
    assert (await content(toolkit, "picture"))[0] == text_block("hello")
    await client.close()


async def test_the_registry_has_the_tools_and_groups_of_the_moment() -> None:
    def local() -> str:
        return "here"

    toolkit = Toolkit()
    toolkit.create_tool_group("off")
    toolkit.register_tool_function(local)
    toolkit.register_tool_function(local, "off", func_name="hidden")
    assert list(toolkit.registry) == ["local", "hidden"]
    assert [tool.name for tool in toolkit.registry.tools()] == ["local"]
    toolkit.groups["off"].active = True
    del toolkit.tools["local"]
    assert [tool.name for tool in toolkit.registry.tools()] == ["hidden"]


async def test_a_registered_tool_is_changed_by_hand() -> None:
    def old() -> str:
        return "old"

    toolkit = Toolkit(validation=Validation(), raise_errors=True)
    toolkit.register_tool_function(old)
    assert await content(toolkit, "old") == [text_block("old")]
    toolkit.tools["old"].original_func = lambda item: f"new {item}"
    toolkit.set_extended_model("old", create_model("Named", item=(str, ...)))
    assert await content(toolkit, "old", item="one") == [text_block("new one")]
    with pytest.raises(InvalidArgumentsError):
        await content(toolkit, "old")


async def test_the_client_base_without_a_server_says_so() -> None:
    client = StatefulClientBase("none")
    assert not client.is_connected
    with pytest.raises(RuntimeError, match="config"):
        await client.list_tools()


def test_a_process_speaks_utf_8() -> None:
    for encoding in ("utf-8", "UTF8", "utf_8"):
        StdioStatefulClient("a", "b", encoding=encoding, encoding_error_handler="replace")
    with pytest.raises(ValueError, match="latin-1"):
        StdioStatefulClient("a", "b", encoding="latin-1")


@pytest.mark.parametrize(
    "schema", ["text", {"type": "function"}, {"type": "function", "function": {"name": "a"}}]
)
def test_a_malformed_definition_is_refused_with_its_form(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"`json_schema` must have the form .*, but it"):
        Toolkit().register_tool_function(len, json_schema=schema)


async def test_tools_of_agentscope_itself_answer_with_its_own_class() -> None:
    theirs = SimpleNamespace(content=[text_block("theirs")], is_interrupted=False)
    toolkit = Toolkit()
    toolkit.register_tool_function(lambda: theirs, func_name="theirs")
    assert await responses(toolkit, "theirs") == [theirs]


@pytest.mark.covers("X-AS-17")
async def test_middlewares_are_layers_around_each_call() -> None:
    async def louder(kwargs: dict[str, Any], next_handler: Any) -> AsyncGenerator[ToolResponse]:
        async for response in await next_handler(**kwargs):
            yield ToolResponse([text_block(response.content[0]["text"].upper())])

    async with shop() as toolkit:
        toolkit.register_middleware(louder)
        assert await content(toolkit, "price", item="pen") == [text_block("PEN: 3 EUR")]


async def test_a_tool_that_is_only_started_answers_later() -> None:
    go_on = anyio.Event()

    async def slow() -> str:
        await go_on.wait()
        return "done"

    toolkit = Toolkit()
    toolkit.register_tool_function(slow, async_execution=True)
    ((block,),) = [it.content for it in await responses(toolkit, "slow")]
    task = block["text"].split("Task ID: ")[1].partition(".")[0]  # pyright: ignore[reportGeneralTypeIssues]
    assert "still running" in str((await toolkit.view_task(task)).content)
    go_on.set()
    assert (await toolkit.wait_task(task)).content == [text_block("done")]
    assert "InvalidTaskIdError" in str((await toolkit.wait_task(task)).content)


def test_a_skill_is_read_from_the_head_of_its_page(tmp_path: Path) -> None:
    page = "---\nname: clean\ndescription: >-\n  Clean\n  up.\n---\n# Clean\n"
    (tmp_path / "SKILL.md").write_text(page, "utf-8")
    toolkit = Toolkit(agent_skill_template="{name} {description} {dir}")
    toolkit.register_agent_skill(str(tmp_path))
    assert (toolkit.get_agent_skill_prompt() or "").endswith(f"clean Clean up. {tmp_path}")


@pytest.mark.covers("R-AS-33")
def test_the_notes_describe_the_usual_flow_and_its_pitfalls() -> None:
    notes = Path(agentscope.__file__).parents[1] / "README.md"
    text = notes.read_text("utf-8")
    sections = {it.partition("\n")[0]: it for it in text.split("\n## ")}
    (flow,) = (it for heading, it in sections.items() if "flow" in heading)
    steps = ["list_tools()", "Toolkit.register_mcp_client(", "Toolkit.call_tool_function("]
    places = [flow.index(step) for step in [*steps, "close()"]]
    assert places == sorted(places)
    (pitfalls,) = (it for heading, it in sections.items() if "pitfalls" in heading)
    for remedy in ("`close()`", "`reset_session()`", "`namesake_strategy`"):
        assert remedy in pitfalls
    assert text.count("\n") <= 60
