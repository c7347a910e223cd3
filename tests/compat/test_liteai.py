"""LiteAI's toolsets: functions out of tools, and the life of a connection."""
# pyright: reportPrivateUsage=false

import inspect
import json
import sys
import threading
from abc import ABCMeta
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pprint import pformat
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import pegboard.compat.liteai as liteai
from pegboard import tool as pegboard_tool
from pegboard.compat.liteai import (
    TOOL_FLAG,
    ContentBlock,
    LocalMcpClient,
    LocalMcpToolset,
    LocalServerParams,
    McpClient,
    McpConnectionError,
    McpToolset,
    OAuthParams,
    RemoteMcpClient,
    RemoteMcpToolset,
    RemoteServerParams,
    Tool,
    ToolDef,
    ToolResult,
    Toolset,
    call_tool_fn_sync,
    find_tool_by_name,
    generate_tool_definition_from_mcp_tool,
    prepare_tools,
)
from pegboard.config import OAuthConfig, ServerConfig, Timeouts
from pegboard.errors import ProtocolError, ServerAuthenticationError
from tests.compat.raw_servers import ECHO as RAW_ECHO
from tests.compat.raw_servers import answering
from tests.upstream.http_servers import serving
from tests.upstream.processes import LIGHT

SERVER = str(Path(__file__).parents[1] / "upstream/servers/echo_server.py")
ECHO = LocalServerParams(command=sys.executable, args=["-S", "-E", LIGHT])
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


def definition(name: str, description: str | None = None) -> Tool:
    return Tool({"name": name, "description": description, "inputSchema": SCHEMA})


class FakeClient(McpClient):
    """A server in a few lines, which can be told to fail."""

    def __init__(self) -> None:
        self.tools = [definition("first", "The first."), definition("second")]
        self.calls: list[tuple[str, dict[str, Any] | None]] = []
        self.events: list[str] = []
        self.failures: dict[str, list[Exception]] = {}
        self.result: Any = [ContentBlock({"type": "text", "text": "done"})]

    async def connect(self) -> None:
        self._happens("connect")

    async def disconnect(self) -> None:
        self._happens("disconnect")

    async def list_tools(self) -> list[Tool]:
        self._happens("list")
        return list(self.tools)

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None = None) -> Any:
        self.calls.append((tool_name, arguments))
        self._happens("call")
        return self.result

    def _happens(self, event: str) -> None:
        self.events.append(event)
        if self.failures.get(event):
            raise self.failures[event].pop(0)


class FakeToolset(McpToolset):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fake = FakeClient()

    def _create_client(self) -> McpClient:
        return self.fake


def by_name(toolset: McpToolset) -> dict[str, Callable[..., Any]]:
    tools: list[Any] = list(toolset.get_tools())
    return {function.__name__: function for function in tools}


@pytest.mark.covers("R-LITE-1", "R-LITE-6", "R-LITE-7")
def test_toolsets_and_clients_are_abstract_and_each_toolset_makes_its_own_client() -> None:
    class Unfinished(McpToolset):
        """Neither has a client nor creates one."""

    assert inspect.isabstract(McpClient)
    for abstract in (McpToolset, Unfinished):
        assert isinstance(abstract, ABCMeta)
        with pytest.raises(TypeError, match="_create_client"):
            abstract()
    local = LocalMcpToolset("one", ECHO)
    remote = RemoteMcpToolset("two", RemoteServerParams(url="http://127.0.0.1:1/mcp"))
    assert isinstance(local, McpToolset)
    assert isinstance(remote, McpToolset)
    assert isinstance(local._create_client(), LocalMcpClient)
    assert isinstance(remote._create_client(), RemoteMcpClient)
    members = {"connect", "disconnect", "list_tools", "call_tool"}
    assert McpClient.__abstractmethods__ == members


@pytest.mark.covers("R-LITE-7")
async def test_a_client_lists_tools_and_answers_calls_with_content_blocks() -> None:
    client = LocalMcpClient("echo", ECHO)
    await client.connect()
    try:
        tools = await client.list_tools()
        assert all(type(it) is Tool for it in tools)
        assert {"echo", "pid"} <= {it.name for it in tools}
        echoed = await client.call_tool("echo", {"text": "hi"})
        assert type(echoed) is ToolResult
        assert echoed == (False, [ContentBlock({"type": "text", "text": "hi"})])
        (number,) = (await client.call_tool("pid")).content
        assert number.text.isdigit()
    finally:
        await client.disconnect()
    assert not client.is_connected


@pytest.mark.covers("R-LITE-2")
def test_an_mcp_toolset_counts_as_a_toolset_and_inherits_nothing_from_it() -> None:
    assert Toolset not in McpToolset.__mro__
    assert not hasattr(McpToolset, "get_tool_methods")
    # As in the package, where a list of toolsets takes both kinds.
    assert isinstance(FakeToolset(), Toolset)


@pytest.mark.covers("R-LITE-5", "R-LITE-16")
def test_making_a_toolset_connects_to_nothing() -> None:
    toolset = LocalMcpToolset("none", LocalServerParams(command="no-such-program"))
    assert toolset._client is None
    assert toolset._tools_cache is None
    assert not toolset.is_connected


@pytest.mark.covers("R-LITE-8", "R-LITE-9", "R-LITE-14", "R-LITE-16", "R-LITE-28")
async def test_connecting_fetches_the_tools_once() -> None:
    toolset = FakeToolset()
    await toolset.connect()
    assert toolset.is_connected
    await toolset.connect()
    assert toolset.fake.events == ["connect", "list"]
    assert [it.name for it in toolset._tools_cache or ()] == ["first", "second"]


async def test_tasks_that_connect_at_once_share_one_connection() -> None:
    toolset = FakeToolset()
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(toolset.connect)
    assert toolset.fake.events == ["connect", "list"]


@pytest.mark.covers("R-LITE-10", "R-LITE-28")
async def test_disconnecting_forgets_everything_however_often() -> None:
    toolset = FakeToolset()
    await toolset.disconnect()
    await toolset.connect()
    await toolset.disconnect()
    await toolset.disconnect()
    assert toolset.fake.events == ["connect", "list", "disconnect"]
    assert (toolset._client, toolset._tools_cache, toolset.is_connected) == (None, None, False)


@pytest.mark.covers("R-LITE-11")
async def test_a_client_that_cannot_say_goodbye_is_forgotten_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    toolset = FakeToolset()
    toolset.fake.failures["disconnect"] = [OSError("stuck")]
    with pytest.raises(LookupError):
        async with toolset:
            raise LookupError
    assert (toolset._client, toolset._tools_cache, toolset.is_connected) == (None, None, False)
    assert "disconnect_failed" in caplog.text


@pytest.mark.covers("R-LITE-29", "X-LITE-8")
@pytest.mark.parametrize("event", ["connect", "list"])
async def test_a_failed_connect_leaves_nothing_behind_and_can_be_tried_again(event: str) -> None:
    toolset = FakeToolset()
    toolset.fake.failures[event] = [OSError("refused")]
    with pytest.raises(OSError, match="refused"):
        await toolset.connect()
    assert toolset.fake.events[-1] == "disconnect"
    assert (toolset._client, toolset.is_connected) == (None, False)
    await toolset.connect()
    assert toolset.is_connected


async def test_a_cancelled_connect_leaves_nothing_behind() -> None:
    scope = anyio.CancelScope()

    class Patient(FakeClient):
        async def connect(self) -> None:
            scope.cancel()
            await anyio.sleep_forever()

    toolset = FakeToolset()
    toolset.fake = Patient()
    with scope:
        await toolset.connect()
    assert toolset.fake.events == ["disconnect"]
    assert toolset._client is None


@pytest.mark.covers("R-LITE-12", "R-LITE-28")
async def test_the_list_is_refreshed_on_demand() -> None:
    toolset = FakeToolset()
    with pytest.raises(RuntimeError, match="Not connected to MCP server"):
        await toolset.refresh_tools()
    async with toolset:
        toolset.fake.tools.append(definition("third"))
        assert list(by_name(toolset)) == ["first", "second"]
        await toolset.refresh_tools()
        assert list(by_name(toolset)) == ["first", "second", "third"]


@pytest.mark.covers("R-LITE-13")
async def test_there_are_no_tools_before_connecting() -> None:
    toolset = FakeToolset()
    with pytest.raises(RuntimeError, match=r"connect\(\)"):
        toolset.get_tools()
    async with toolset:
        assert len(toolset.get_tools()) == 2


@pytest.mark.covers("R-LITE-15")
async def test_a_context_manager_disconnects_also_a_cancelled_task() -> None:
    toolset = FakeToolset()
    with anyio.CancelScope() as scope:
        async with toolset as entered:
            assert entered is toolset
            scope.cancel()
            await anyio.sleep_forever()
    assert toolset.fake.events == ["connect", "list", "disconnect"]


@pytest.mark.covers("R-LITE-17", "R-LITE-18", "R-LITE-19", "R-LITE-28")
async def test_a_tool_becomes_a_marked_coroutine_function_with_its_name_and_words() -> None:
    async with FakeToolset() as toolset:
        first, second = toolset.get_tools()
        assert await first() == await second() == "done"
    for function in (first, second):
        assert inspect.iscoroutinefunction(function)
        (parameter,) = inspect.signature(function).parameters.values()
        assert parameter.kind is parameter.VAR_KEYWORD
        assert inspect.signature(function).return_annotation is str
        assert getattr(function, TOOL_FLAG) is True
    assert (first.__name__, first.__doc__) == ("first", "The first.")
    assert (second.__name__, second.__doc__) == ("second", "MCP tool: second")
    mcp_tool: Any = first._mcp_tool  # pyright: ignore[reportFunctionMemberAccess]
    assert (mcp_tool.name, mcp_tool.description) == ("first", "The first.")
    assert mcp_tool.inputSchema == mcp_tool.input_schema == SCHEMA


@pytest.mark.covers("R-LITE-20")
async def test_a_function_of_a_closed_toolset_says_what_to_do() -> None:
    async with FakeToolset() as toolset:
        first, _ = toolset.get_tools()
    expected = r"MCP Toolset not connected\. Call await FakeToolset\.connect\(\) first"
    with pytest.raises(RuntimeError, match=expected):
        await first()
    assert toolset.fake.calls == []


@pytest.mark.covers("R-LITE-21")
async def test_arguments_go_to_the_server_as_they_are_whatever_their_names() -> None:
    arguments = {"self": 1, "tool_name": None, "arguments": [2], "größe": "ü", "a b": {}}
    async with FakeToolset() as toolset:
        assert await by_name(toolset)["first"](**arguments) == "done"
    assert toolset.fake.calls == [("first", arguments)]


@pytest.mark.covers("R-LITE-22", "R-LITE-33")
async def test_an_error_of_the_client_reaches_the_caller_unchanged() -> None:
    error = ZeroDivisionError()
    async with FakeToolset() as toolset:
        toolset.fake.failures["call"] = [error]
        with pytest.raises(ZeroDivisionError) as caught:
            await by_name(toolset)["first"]()
    assert caught.value is error
    assert len(toolset.fake.calls) == 1


@pytest.mark.covers("R-LITE-33")
async def test_with_auto_reconnect_a_failed_call_is_repeated_once() -> None:
    async with FakeToolset(auto_reconnect=True) as toolset:
        toolset.fake.failures["call"] = [OSError("one")]
        assert await by_name(toolset)["first"](a=1) == "done"
        assert toolset.fake.events == ["connect", "list", "call", "connect", "call"]
        toolset.fake.failures["call"] = [OSError("one"), OSError("two")]
        with pytest.raises(OSError, match="two"):
            await by_name(toolset)["first"](a=2)
    assert [arguments for _, arguments in toolset.fake.calls] == [{"a": 1}] * 2 + [{"a": 2}] * 2


async def test_auto_reconnect_does_not_bring_back_what_was_closed_on_purpose() -> None:
    toolset = FakeToolset(auto_reconnect=True)

    class Closing(FakeClient):
        async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None = None) -> Any:
            await toolset.disconnect()
            raise OSError("closed")

    toolset.fake = Closing()
    await toolset.connect()
    with pytest.raises(OSError, match="closed"):
        await by_name(toolset)["first"]()
    assert toolset.fake.events == ["connect", "list", "disconnect"]


@pytest.mark.covers("R-LITE-24", "R-LITE-28")
def test_texts_are_joined_and_data_is_json_in_the_order_they_came() -> None:
    image = {"type": "image", "data": "QUJD", "mimeType": "image/png", "note": "grün"}
    blocks = [{"type": "text", "text": "eins"}, image, {"type": "text", "text": "zwei"}]
    text = FakeToolset()._format_tool_result([ContentBlock(it) for it in blocks])
    first, middle, last = text.split("\n")
    assert (first, last) == ("eins", "zwei")
    assert json.loads(middle) == image
    assert "grün" in middle


@pytest.mark.covers("R-LITE-24", "X-LITE-4")
def test_blocks_of_the_sdk_and_of_kinds_nobody_knows_are_not_lost() -> None:
    blocks: list[Any] = [
        types.TextContent(text="one"),
        types.AudioContent(data="QUJD", mime_type="audio/wav"),
        types.ResourceLink(name="log", uri="file:///var/log"),
        ContentBlock({"type": "text", "text": None}),
        SimpleNamespace(type="strange"),
    ]
    one, sound, link, broken, strange = FakeToolset()._format_tool_result(blocks).split("\n")
    assert one == "one"
    assert json.loads(sound)["data"] == "QUJD"
    assert json.loads(link)["uri"] == "file:///var/log"
    assert json.loads(broken) == {"type": "text", "text": None}
    assert "strange" in strange


@pytest.mark.covers("R-LITE-24")
@given(st.lists(st.text()))
def test_no_text_is_lost(texts: list[str]) -> None:
    blocks = [ContentBlock({"type": "text", "text": text}) for text in texts]
    assert FakeToolset()._format_tool_result(blocks) == "\n".join(texts)
    assert FakeToolset()._format_tool_result(ToolResult(False, blocks)) == "\n\n".join(texts)


@pytest.mark.covers("X-LITE-3")
async def test_a_failure_that_the_tool_reports_is_text_that_says_so() -> None:
    async with FakeToolset() as toolset:
        block = ContentBlock({"type": "text", "text": "no such file"})
        toolset.fake.result = ToolResult(True, [block])
        assert await by_name(toolset)["first"]() == "Error executing tool:\n\nno such file"


@pytest.mark.covers("X-LITE-4")
def test_a_model_reads_of_each_kind_of_block_what_it_can_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    link = {"type": "resource_link", "uri": "https://example.com", "name": "home", "size": 3}
    embedded = {"uri": "file:///a.txt", "text": "grün"}
    blocks: list[Any] = [
        types.ImageContent(data="QUJD", mime_type="image/png"),
        ContentBlock({"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}),
        ContentBlock(link),
        ContentBlock({"type": "resource", "resource": embedded}),
        ContentBlock({"type": "resource", "resource": {"uri": "no uri", "blob": "QUJD"}}),
        SimpleNamespace(type="strange"),
    ]
    assert FakeToolset()._format_tool_result(ToolResult(False, blocks)).split("\n\n") == [
        "[Generated Image: image/png]",
        "[Generated Audio: audio/wav]",
        "Resource Reference: https://example.com/\nSize: 3 bytes",
        "Resource (file:///a.txt):\ngrün",
        "Resource (no uri):\n[Binary data: None]",
    ]
    assert "'strange'" in caplog.text


def test_objects_from_the_wire_have_both_spellings_and_only_what_was_sent() -> None:
    block = ContentBlock({"type": "image", "data": "", "mimeType": "image/png"})
    assert block.mime_type == block.mimeType == "image/png"
    assert not hasattr(block, "text")
    assert block == ContentBlock(block.model_dump())
    assert block != Tool(block.model_dump())
    assert "image/png" in repr(block)


@pytest.mark.covers("R-LITE-25")
def test_the_definition_of_an_mcp_tool_has_the_schema_of_the_server() -> None:
    assert generate_tool_definition_from_mcp_tool(definition("second")) == {
        "type": "function",
        "function": {
            "name": "second",
            "description": "MCP tool: second",
            "parameters": SCHEMA,
        },
    }
    new = types.Tool(name="x", description="X.", input_schema=SCHEMA)
    assert generate_tool_definition_from_mcp_tool(new) == {
        "type": "function",
        "function": {"name": "x", "description": "X.", "parameters": SCHEMA},
    }


@pytest.mark.covers("R-LITE-26", "R-LITE-27", "X-LITE-2")
async def test_tools_of_all_kinds_are_prepared_together() -> None:
    def add(a: int, b: int = 2) -> int:
        """Add numbers."""
        return a + b

    async def wrapper(**kwargs: Any) -> str:
        return str(kwargs)

    wrapper._mcp_tool = definition("first", "The first.")  # pyright: ignore[reportFunctionMemberAccess]
    raw = {"name": "raw"}
    stated = ToolDef("stated", "D.", add, SCHEMA)
    unstated = ToolDef("unstated", "D.", add)
    async with FakeToolset() as toolset:
        prepared = prepare_tools([*toolset.get_tools(), wrapper, add])
    first = generate_tool_definition_from_mcp_tool(definition("first", "The first."))
    assert prepared[0] == first
    assert prepared[2] == {**first, "function": {**first["function"], "name": "wrapper"}}
    assert prepared[3]["function"]["description"] == "Add numbers."
    assert prepared[3]["function"]["parameters"]["required"] == ["a"]
    prepared = [it["function"] for it in prepare_tools([stated, unstated, raw, pegboard_tool(add)])]
    assert prepared[0] == {"name": "stated", "description": "D.", "parameters": SCHEMA}
    assert prepared[1]["parameters"] == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "Parameter a of type int"},
            "b": {"type": "integer", "description": "Parameter b of type int"},
        },
        "required": ["a"],
    }
    assert prepared[2] is raw
    assert (prepared[3]["name"], prepared[3]["description"]) == ("add", "Add numbers.")


@pytest.mark.covers("R-LITE-31")
async def test_only_tools_that_pass_the_filter_are_taken() -> None:
    async with FakeToolset(tool_filter=lambda it: "sec" in it.name) as toolset:
        assert list(by_name(toolset)) == ["second"]
        toolset.fake.tools.append(definition("third second"))
        await toolset.refresh_tools()
        assert list(by_name(toolset)) == ["second", "third second"]


@pytest.mark.covers("R-LITE-32", "X-LITE-1")
async def test_a_prefix_is_for_the_model_and_never_reaches_the_server() -> None:
    async with FakeToolset(tool_prefix="my_") as toolset:
        assert list(by_name(toolset)) == ["my_first", "my_second"]
        await by_name(toolset)["my_first"]()
        prepared = prepare_tools(toolset.get_tools())
        assert prepared[0]["function"]["name"] == "my_first"
        assert find_tool_by_name(toolset.get_tools(), "my_first") is not None
        toolset._name = "files"
        namespaced = toolset.get_tools(namespaced_tool_name=True)
        assert namespaced[0].name == "files__my_first"
        assert prepare_tools(namespaced)[0]["function"]["name"] == "files__my_first"
        assert find_tool_by_name(namespaced, "files__my_first") is namespaced[0]
    assert toolset.fake.calls == [("first", {})]


def test_what_is_secret_is_not_shown() -> None:
    remote = RemoteServerParams(
        url="https://example.com/mcp?api_key=verysecret",
        bearer_token="topsecret",
        http_headers={"x-key": "moresecret"},
    )
    local = LocalServerParams(
        command="run", args=["--api-key", "topsecret"], env={"KEY": "topsecret"}
    )
    broken = RemoteServerParams(url="no address, but a secret")
    for params in (remote, local, broken):
        for shown in (repr(params), pretty_repr(params), pformat(params)):
            assert type(params).__name__ in shown
            assert "secret" not in shown


@pytest.mark.covers("R-LITE-3")
def test_everything_that_is_said_of_a_local_server_reaches_the_connection() -> None:
    params = LocalServerParams(command="run", args=["a", "b"], env={"KEY": "1"}, cwd="/tmp")
    assert params.config("local") == ServerConfig(
        name="local",
        transport="stdio",
        command="run",
        args=("a", "b"),
        env={"KEY": "1"},
        cwd="/tmp",
        timeouts=params.timeouts,
    )


@pytest.mark.covers("R-LITE-4")
def test_everything_that_is_said_of_a_remote_server_reaches_the_connection() -> None:
    params = RemoteServerParams(url="https://example.com/mcp", bearer_token="t", transport="sse")
    assert params.config("remote") == ServerConfig(
        name="remote",
        transport="sse",
        url="https://example.com/mcp",
        bearer_token="t",
        timeouts=params.timeouts,
    )


@pytest.mark.covers("X-LITE-5")
def test_headers_and_oauth_reach_the_connection() -> None:
    params = RemoteServerParams(
        url="https://example.com",
        http_headers={"a": "b"},
        oauth_params=OAuthParams(oauth_scopes=["read"], oauth_timeout=5),
    )
    config = params.config("remote")
    assert config.headers == {"a": "b"}
    assert config.oauth == OAuthConfig(scopes=("read",), login_timeout=5)
    ours = OAuthConfig(flow="client_credentials", client_id="me")
    params = RemoteServerParams(url="https://example.com", oauth_params=ours)
    assert params.config("remote").oauth is ours


@pytest.mark.covers("R-LITE-23")
async def test_a_blocking_caller_in_another_thread_can_call_the_tools() -> None:
    async with LocalMcpToolset("echo", ECHO) as toolset:
        echo = by_name(toolset)["echo"]
        answer = await anyio.to_thread.run_sync(call_tool_fn_sync, echo, {"text": "hi"})
        assert answer == await echo(text="hi") == "hi"


@pytest.mark.covers("R-LITE-23")
async def test_a_blocking_call_works_on_the_very_loop_that_connected() -> None:
    async with LocalMcpToolset("echo", ECHO) as toolset:
        assert call_tool_fn_sync(by_name(toolset)["echo"], {"text": "hi"}) == "hi"


@pytest.mark.covers("R-LITE-23")
def test_a_synchronous_program_may_connect_in_a_loop_that_ends() -> None:
    toolset = LocalMcpToolset("echo", ECHO)
    anyio.run(toolset.connect)
    assert toolset.is_connected
    tools = by_name(toolset)
    assert call_tool_fn_sync(tools["echo"], {"text": "hi"}) == "hi"

    async def in_another_loop() -> str:
        return await tools["echo"](text="again")

    assert anyio.run(in_another_loop) == "again"
    anyio.run(toolset.disconnect)
    assert not toolset.is_connected
    with pytest.raises(RuntimeError, match="connect"):
        call_tool_fn_sync(tools["echo"], {"text": "hi"})


def test_loops_that_connect_at_once_share_one_connection() -> None:
    toolset = LocalMcpToolset("echo", ECHO)
    together = threading.Barrier(3)

    def connect_and_ask(_: int) -> str:
        async def ask() -> str:
            with anyio.fail_after(15):
                await toolset.connect()
                return await by_name(toolset)["pid"]()

        together.wait(5)
        return anyio.run(ask)

    with ThreadPoolExecutor(3) as pool:
        pids = set(pool.map(connect_and_ask, range(3)))
    assert len(pids) == 1
    anyio.run(toolset.disconnect)
    assert not toolset.is_connected


def test_loops_that_connect_and_disconnect_at_once_leave_nothing_behind() -> None:
    toolset = FakeToolset()
    together = threading.Barrier(4)

    def come_and_go(_: int) -> None:
        async def several_times() -> None:
            with anyio.fail_after(15):
                for _ in range(20):
                    await toolset.connect()
                    await toolset.disconnect()

        together.wait(5)
        anyio.run(several_times)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert not toolset.is_connected
    rounds = toolset.fake.events.count("connect")
    assert toolset.fake.events == ["connect", "list", "disconnect"] * rounds


@pytest.mark.covers("R-LITE-23")
def test_blocking_calls_take_functions_of_either_kind() -> None:
    def plain(a: int) -> int:
        return a

    async def later(a: int) -> int:
        return a

    for function in (plain, later, pegboard_tool(plain), pegboard_tool(later)):
        assert call_tool_fn_sync(function, {"a": 3}) == 3


@pytest.mark.covers("R-LITE-14", "R-LITE-29", "R-LITE-33", "X-LITE-8")
async def test_a_lost_server_comes_back_when_asked_for() -> None:
    async with LocalMcpToolset("echo", ECHO) as toolset:
        tools = by_name(toolset)
        with pytest.raises(ConnectionError):
            await tools["crash"]()
        assert not toolset.is_connected
        with pytest.raises(RuntimeError, match="connect"):
            await tools["echo"](text="hi")
        await toolset.connect()
        assert await tools["echo"](text="hi") == "hi"


@pytest.mark.covers("R-LITE-33")
async def test_a_lost_server_comes_back_by_itself_with_auto_reconnect() -> None:
    async with LocalMcpToolset("echo", ECHO, auto_reconnect=True) as toolset:
        tools = by_name(toolset)
        before = await tools["pid"]()
        with pytest.raises(ConnectionError):
            await tools["crash"]()
        assert await tools["pid"]() != before
        assert toolset.is_connected


@pytest.mark.covers("R-LITE-24", "R-LITE-29", "X-LITE-3")
async def test_a_real_server_reports_failures_and_takes_its_environment() -> None:
    params = LocalServerParams(command=sys.executable, args=[SERVER], env={"COLOUR": "grün"})
    async with LocalMcpToolset("echo", params) as toolset:
        tools = by_name(toolset)
        assert await tools["env"](name="COLOUR") == "grün"
        assert await tools["fail"](message="broken") == "Error executing tool:\n\nbroken"
        assert len(await tools["big"](n=100_000)) == 100_000


@pytest.mark.covers("R-LITE-8")
@pytest.mark.parametrize(
    "strange",
    [
        *("a string", None, 5, [], {}),
        *({"name": ""}, {"name": 5}, {"name": None, "inputSchema": SCHEMA}),
        *({"name": "odd", "inputSchema": "none"}, {"name": "odd", "description": 5}),
    ],
    ids=repr,
)
async def test_a_definition_that_is_none_costs_a_warning_and_only_itself(
    strange: object, caplog: pytest.LogCaptureFixture
) -> None:
    command, args = answering({}, tools=[strange, {"name": "bare"}, RAW_ECHO])
    async with LocalMcpToolset("raw", LocalServerParams(command=command, args=args)) as toolset:
        assert list(by_name(toolset)) == ["bare", "echo"]
        assert len(prepare_tools(toolset.get_tools())) == 2
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "pegboard.compat")


@pytest.mark.covers("R-LITE-22")
@pytest.mark.parametrize(
    "content", ["text", 5, {"type": "text"}, ["a string"], [None], [["type", "text"]]], ids=repr
)
async def test_an_answer_that_cannot_be_read_is_an_error_of_the_server(content: object) -> None:
    command, args = answering({"content": content})
    async with LocalMcpToolset("raw", LocalServerParams(command=command, args=args)) as toolset:
        with pytest.raises(ProtocolError, match="'raw'") as caught:
            await by_name(toolset)["echo"]()
        assert (caught.value.server, caught.value.tool) == ("raw", "echo")
        assert toolset.is_connected


@pytest.mark.covers("R-LITE-22")
@pytest.mark.parametrize("structured", [None, {"text": 5}], ids=repr)
async def test_an_answer_that_breaks_its_schema_is_an_error(structured: object) -> None:
    tool = {**RAW_ECHO, "outputSchema": {**SCHEMA, "required": ["text"]}}
    command, args = answering({"structuredContent": structured}, tools=[tool])
    async with LocalMcpToolset("raw", LocalServerParams(command=command, args=args)) as toolset:
        with pytest.raises(ProtocolError, match="'raw'"):
            await by_name(toolset)["echo"]()


@pytest.mark.covers("R-LITE-29", "X-LITE-7")
@pytest.mark.parametrize(
    "params",
    [
        LocalServerParams(command="no-such-program-anywhere"),
        LocalServerParams(command=sys.executable, args=["-c", "raise SystemExit(3)"]),
    ],
    ids=["missing", "exits"],
)
async def test_a_server_that_does_not_start_is_one_kind_of_error(params: LocalServerParams) -> None:
    with anyio.fail_after(15), pytest.raises(McpConnectionError) as caught:
        await LocalMcpToolset("gone", params).connect()
    assert isinstance(caught.value, ConnectionError)
    assert caught.value.code == "server_unavailable"


@pytest.mark.covers("X-LITE-7")
async def test_a_server_that_wants_other_credentials_says_so() -> None:
    async def refuse(_: Any) -> PlainTextResponse:
        return PlainTextResponse("who are you?", 401)

    app = Starlette(routes=[Route("/mcp", refuse, methods=["GET", "POST"])])
    async with serving(app) as origin:
        params = RemoteServerParams(url=f"{origin}/mcp", timeouts=Timeouts(connect=5))
        with pytest.raises(McpConnectionError) as caught:
            await RemoteMcpToolset("closed", params).connect()
    assert isinstance(caught.value, ServerAuthenticationError)
    assert caught.value.code == "authentication"


@pytest.mark.covers("X-LITE-6")
async def test_the_description_is_what_the_server_says_of_itself() -> None:
    class Talking(FakeClient):
        @property
        def instructions(self) -> str:
            return "Ask me about files."

    toolset = FakeToolset()
    toolset.fake = Talking()
    assert toolset.description == ""
    async with toolset:
        assert toolset.description == "Ask me about files."
    async with LocalMcpToolset("echo", ECHO) as real:
        assert real.description == ""


@pytest.mark.covers("R-LITE-30")
def test_everything_is_exported_and_the_guide_shows_the_three_ways_to_use_it() -> None:
    classes = {
        *("McpToolset", "LocalMcpToolset", "RemoteMcpToolset"),
        *("McpClient", "LocalMcpClient", "RemoteMcpClient"),
        *("LocalServerParams", "RemoteServerParams", "ToolResult", "Tool"),
    }
    assert classes <= set(liteai.__all__)
    for name in liteai.__all__:
        assert getattr(liteai, name) is not None
    guide = (Path(__file__).parents[2] / "docs/guides/coming-from-liteai.md").read_text("utf-8")
    for part in ("LocalMcpToolset(", "async with", "bearer_token"):
        assert part in guide
