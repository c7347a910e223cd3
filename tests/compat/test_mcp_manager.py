import inspect
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp
import mcp_types as types
import msgspec
import pytest
from mcp.shared.exceptions import MCPError

from pegboard import NotConnectedError, ToolConflictError, ToolExecutionError, ToolNotFoundError
from pegboard.compat.excelmanus import (
    MCPClientWrapper,
    MCPManager,
    MCPServerConfig,
    ToolDef,
    ToolRegistry,
)
from pegboard.compat.excelmanus import manager as excelmanus
from pegboard.config import ServerConfig, Timeouts
from pegboard.errors import ServerUnavailableError
from tests.compat.excelmanus_servers import OBJECT, in_memory, linux_only, tool
from tests.upstream.http_servers import build_server, serving
from tests.upstream.processes import LIGHT, alive, all_ended, new_marker, until

make_tool_func: Any = excelmanus._make_tool_func  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

LONG = "x" * 6000
MUTE: Any = ("stdio", "sh", ["-c", "cat > /dev/null"])


def light(name: str = "light", **fields: Any) -> MCPServerConfig:
    return MCPServerConfig(name, "stdio", sys.executable, [LIGHT], **fields)


def builtin(name: str = "sum", **fields: Any) -> ToolDef:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    return ToolDef(name, "Add two numbers.", schema, lambda a=1, b=2: a + b, **fields)


@asynccontextmanager
async def connected(
    config: MCPServerConfig | ServerConfig,
) -> AsyncGenerator[MCPClientWrapper]:
    client = MCPClientWrapper(config)
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def managing(
    *servers: MCPServerConfig | ServerConfig, builtins: Iterable[ToolDef] = ()
) -> AsyncGenerator[tuple[MCPManager, ToolRegistry]]:
    manager, registry = MCPManager(servers=servers), ToolRegistry()
    registry.register_tools(builtins)
    await manager.initialize(registry)
    try:
        yield manager, registry
    finally:
        await manager.shutdown()


def messages(caplog: pytest.LogCaptureFixture, level: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "pegboard.compat" and record.levelname == level
    ]


@pytest.mark.covers("R-EXCEL-20")
async def test_making_a_client_starts_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "started"
    client = MCPClientWrapper(MCPServerConfig("a", "stdio", "touch", [str(trace)]))
    assert not client.is_connected
    await client.close()
    with pytest.raises(NotConnectedError):
        await client.discover_tools()
    with pytest.raises(NotConnectedError):
        await client.call_tool("echo", {})
    assert not await anyio.Path(trace).exists()


@linux_only
@pytest.mark.covers("R-EXCEL-21", "R-EXCEL-23", "R-EXCEL-24", "R-EXCEL-58")
async def test_a_process_is_started_called_and_ended() -> None:
    name, _, value = (marker := new_marker()).partition("=")
    client = MCPClientWrapper(light(env={name: value}))
    await client.connect()
    await client.connect()
    assert client.is_connected
    assert len(alive(marker)) == 1
    assert await client.call_tool("echo", {"text": "hi"}) == "hi"
    assert await client.call_tool("env", {"name": name}) == value
    await client.close()
    await client.close()
    assert not client.is_connected
    await all_ended(marker)
    await client.connect()
    assert await client.call_tool("echo", {"text": "again"}) == "again"
    await client.close()


@pytest.mark.covers("R-EXCEL-21")
async def test_a_server_is_reached_over_sse() -> None:
    async with (
        serving(build_server().sse_app()) as origin,
        connected(MCPServerConfig("far", "sse", url=f"{origin}/sse")) as client,
    ):
        assert "echo" in [it["name"] for it in await client.discover_tools()]
        assert await client.call_tool("echo", {"text": "far away"}) == "far away"


def sockets() -> int:
    """How many sockets this process has, those of a server in it included."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += str(descriptor.readlink()).startswith("socket:")
    return count


@linux_only
@pytest.mark.covers("R-EXCEL-24")
async def test_closing_frees_every_socket() -> None:
    # The background loop has sockets of its own, so it has to be there before they are counted.
    async with connected(in_memory("m")):
        pass
    # The server must not close what the client forgot.
    async with serving(build_server().sse_app(), keep_alive=60) as origin:
        before = sockets()
        async with connected(MCPServerConfig("far", "sse", url=f"{origin}/sse")) as client:
            assert await client.call_tool("echo", {"text": "hi"}) == "hi"
            assert sockets() > before
        await until(lambda: sockets() <= before)


@pytest.mark.covers("R-EXCEL-22")
async def test_all_pages_are_listed_and_kept() -> None:
    pages = [[tool("a", {**OBJECT, "title": "A"})], [tool("b")], [tool("c")]]
    async with connected(in_memory("m", *pages)) as client:
        found = await client.discover_tools()
        assert [it["name"] for it in found] == ["a", "b", "c"]
        assert found[0]["inputSchema"] == {"type": "object", "title": "A"}
        assert client.tools == found


@pytest.mark.covers("R-EXCEL-25", "R-EXCEL-60")
async def test_a_server_that_died_is_not_connected() -> None:
    async with connected(light()) as client:
        with pytest.raises(ConnectionError):
            await client.call_tool("crash", {})
        await until(lambda: not client.is_connected)
        assert client.last_error
        with pytest.raises(NotConnectedError):
            await client.call_tool("echo", {"text": "hi"})


@pytest.mark.covers("R-EXCEL-23", "X-EXCEL-11")
async def test_a_result_is_text_then_structured_content_then_what_else_there_is() -> None:
    image = types.ImageContent(data="aGk=", mime_type="image/png")
    results = {
        "both": types.CallToolResult(content=[types.TextContent(text="one"), image]),
        "structured": types.CallToolResult(content=[], structured_content={"n": 1}),
        "image": types.CallToolResult(content=[image]),
    }
    tools = [tool(name) for name in results]
    async with connected(in_memory("m", tools, answer=lambda name, _: results[name])) as client:
        assert await client.call_tool("both", {}) == "one"
        assert await client.call_tool("structured", {}) == '{\n  "n": 1\n}'
        assert await client.call_tool("image", {}) == "[image content]"


@pytest.mark.covers("R-EXCEL-62")
async def test_a_server_of_the_official_sdk_says_the_same_as_to_the_client_of_the_sdk() -> None:
    config = in_memory("m", [tool("a"), tool("b", description="Does b.")])
    async with connected(config) as client, mcp.Client(config.server) as official:
        theirs = (await official.list_tools()).tools
        ours = await client.discover_tools()
        assert [types.Tool.model_validate(it) for it in ours] == theirs
        (block,) = (await official.call_tool("a", {})).content
        assert isinstance(block, types.TextContent)
        assert await client.call_tool("a", {}) == block.text


@linux_only
async def test_a_cancelled_connect_leaves_no_process_behind() -> None:
    name, _, value = (marker := new_marker()).partition("=")
    client = MCPClientWrapper(MCPServerConfig("a", *MUTE, env={name: value}))
    async with anyio.create_task_group() as group:
        group.start_soon(client.connect)
        await until(lambda: bool(alive(marker)))
        group.cancel_scope.cancel()
    await all_ended(marker)
    assert not client.is_connected


@pytest.mark.covers("R-EXCEL-34", "R-EXCEL-35")
def test_it_works_without_an_event_loop() -> None:
    client = MCPClientWrapper(light())
    anyio.run(client.connect)
    assert make_tool_func(client, "echo", 5)(text="hi") == "hi"
    anyio.run(client.close)


@pytest.mark.covers("R-EXCEL-36")
async def test_it_works_in_the_thread_whose_loop_connected() -> None:
    async with connected(light()) as client:
        assert make_tool_func(client, "echo", 5)(text="hi") == "hi"


@pytest.mark.covers("R-EXCEL-34", "R-EXCEL-36")
async def test_it_works_in_many_threads_at_once() -> None:
    names = [f"t{number}" for number in range(16)]
    together = threading.Barrier(len(names))
    async with connected(in_memory("m", [tool(name) for name in names])) as client:

        def call(name: str) -> str:
            together.wait(5)
            return make_tool_func(client, name, 5)(self=name)

        with ThreadPoolExecutor(len(names)) as pool:
            answers = list(pool.map(call, names))
    assert answers == [f"{name} {{'self': {name!r}}}" for name in names]


@pytest.mark.covers("R-EXCEL-37", "R-EXCEL-53", "R-EXCEL-7", "R-EXCEL-23", "R-EXCEL-58")
async def test_a_call_that_takes_too_long_gives_a_text(caplog: pytest.LogCaptureFixture) -> None:
    assert MCPClientWrapper(light(timeout=5)).config.timeouts.call == 5
    config = MCPClientWrapper(light(timeout=60)).config
    assert config.timeouts.call == 60
    # Each limit by itself: that of the function, that of the client, and the one for the other.
    async with connected(config) as client:
        answer = make_tool_func(client, "slow", 0.05)(seconds=60)
        assert answer.startswith("Error (timeout): Tool 'slow' did not finish within 0.05 s.")
        assert client.is_connected
    hasty = msgspec.structs.replace(config, timeouts=Timeouts(call=0.05))
    async with connected(hasty) as client:
        with pytest.raises(TimeoutError):
            await client.call_tool("slow", {"seconds": 60})
        answer = make_tool_func(client, "slow", None)(seconds=60)
        assert answer.startswith("Error (timeout): Tool 'slow' did not finish within 0.05 s.")
    assert "'slow'" in messages(caplog, "ERROR")[0]


@pytest.mark.covers("R-EXCEL-54", "R-EXCEL-58", "R-EXCEL-65")
async def test_an_answer_that_is_an_error_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(name: str, _: dict[str, Any]) -> types.CallToolResult:
        raise MCPError(code=-32602, message=f"no {name}")

    async with connected(light()) as client, connected(in_memory("m", answer=refuse)) as other:
        with pytest.raises(ToolExecutionError, match="too hot"):
            make_tool_func(client, "fail", 5)(message="too hot")
        with pytest.raises(ToolExecutionError, match="no tea"):
            make_tool_func(other, "tea", 5)()
    error = messages(caplog, "ERROR")[0]
    assert "server='light' tool='fail'" in error
    assert "too hot" in error


@pytest.mark.covers("R-EXCEL-55", "R-EXCEL-65")
async def test_a_lost_server_gives_a_text(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(light()) as client:
        answer = make_tool_func(client, "crash", 5)()
        assert answer.startswith("Error (connection): The connection to server 'light' was lost")
        await until(lambda: not client.is_connected)
        answer = make_tool_func(client, "echo", 5)(text="hi")
        assert answer.startswith("Error (connection): ")
    assert len(messages(caplog, "ERROR")) == 2


@pytest.mark.covers("R-EXCEL-26", "R-EXCEL-27", "R-EXCEL-31", "R-EXCEL-4")
async def test_the_file_of_the_workspace_is_read_and_its_tools_are_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EXCELMANUS_MCP_CONFIG", raising=False)
    entry = {"transport": "stdio", "command": sys.executable, "args": [LIGHT]}
    text = repr({"mcpServers": {"web-search": entry}}).replace("'", '"')
    await anyio.Path(tmp_path / "mcp.json").write_text(text, encoding="utf-8")
    manager, registry = MCPManager(str(tmp_path)), ToolRegistry()
    assert manager.connected_servers == []
    await manager.initialize(registry)
    assert manager.connected_servers == ["web-search"]
    assert "mcp_web_search_echo" in registry.get_tool_names()
    assert registry.call_tool("mcp_web_search_echo", {"text": "hi"}) == "hi"
    await manager.shutdown()
    assert manager.connected_servers == []


@pytest.mark.covers("R-EXCEL-3", "R-EXCEL-5", "R-EXCEL-38", "R-EXCEL-39", "R-EXCEL-40")
@pytest.mark.covers("R-EXCEL-41", "R-EXCEL-30", "R-EXCEL-8")
async def test_a_remote_tool_is_a_tool_of_the_host() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    files = in_memory("filesystem", [tool("read_file", schema, "Read a file.")])
    async with managing(files, in_memory("web-search", [tool("search")])) as (_, registry):
        assert registry.get_tool_names() == ["mcp_filesystem_read_file", "mcp_web_search_search"]
        found = registry.get_tool("mcp_filesystem_read_file")
        assert type(found) is ToolDef
        assert inspect.isfunction(found.func)
        assert found.description == "[MCP:filesystem] Read a file."
        assert found.input_schema == schema
        assert found.max_result_chars == 5000
        answer = "read_file {'path': '/tmp'}"
        assert found.func(path="/tmp") == answer
        assert registry.call_tool(found.name, {"path": "/tmp"}) == answer


@pytest.mark.covers("R-EXCEL-41")
async def test_a_long_result_is_cut_for_the_model_and_whole_for_the_program() -> None:
    async with managing(light()) as (_, registry):
        whole = registry.call_tool("mcp_light_big", {"n": 6000})
        assert whole == LONG
        found = registry.get_tool("mcp_light_big")
        assert found is not None
        assert found.func(n=6000) == LONG
        shown = found.truncate_result(whole)
        assert shown == "x" * 5000 + "\n[结果已截断\uff0c原始长度: 6000 字符]"


@pytest.mark.covers("R-EXCEL-2", "R-EXCEL-28", "R-EXCEL-49", "R-EXCEL-65")
async def test_servers_that_fail_cost_nobody_anything(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse() -> None:
        raise MCPError(code=-32603, message="no list today")

    servers = [
        MCPServerConfig("missing", "stdio", "no-such-program"),
        MCPServerConfig("mute", "stdio", sys.executable, ["-c", "print('hello')"]),
        MCPServerConfig("nowhere", "sse", url="http://127.0.0.1:9/sse"),
        MCPServerConfig("nonsense", "sse", url="this is no address"),
        in_memory("listless", [tool("a")], before_listing=refuse),
        in_memory("broken", [tool("a", {**OBJECT, "properties": []})]),
        in_memory("good", [tool("a")]),
    ]
    async with managing(*servers, builtins=[builtin()]) as (manager, registry):
        assert manager.connected_servers == ["broken", "good"]
        assert registry.get_tool_names() == ["sum", "mcp_good_a"]
        assert registry.call_tool("sum", {"a": 2, "b": 3}) == 5
        status = {it["name"]: it["status"] for it in manager.get_server_info()}
    failed = dict.fromkeys(["missing", "mute", "nowhere", "nonsense"], "connect_failed")
    assert status == {**failed, "listless": "discover_failed", "broken": "ready", "good": "ready"}
    errors = [it for it in caplog.records if it.levelno >= logging.ERROR]
    told = {name: [it.name for it in errors if repr(name) in it.getMessage()] for name in status}
    # Who connects tells it first, except where there was nothing to connect to.
    ours, both = ["pegboard.compat"], ["pegboard.upstream", "pegboard.compat"]
    assert told == {
        **dict.fromkeys(["missing", "mute", "nowhere"], both),
        **dict.fromkeys(["nonsense", "listless"], ours),
        "broken": [],
        "good": [],
    }
    assert len(errors) == 8
    assert any("no list today" in it for it in messages(caplog, "ERROR"))


@pytest.mark.covers("R-EXCEL-50")
async def test_a_server_that_never_answers_counts_as_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # What a file can say always has a limit; here it is made shorter than a file can.
    for seconds, limit in ((1, 30), (30, 30), (90, 90)):
        mute = MCPServerConfig("frozen", *MUTE, timeout=seconds).server_config()
        assert (mute.timeouts.connect, mute.timeouts.list) == (limit, limit)
    frozen = msgspec.structs.replace(mute, timeouts=Timeouts(connect=0.2))
    async with managing(frozen) as (manager, registry):
        assert manager.connected_servers == registry.get_tool_names() == []
    assert "not ready within 0.2 s" in messages(caplog, "ERROR")[0]


@pytest.mark.covers("R-EXCEL-51", "R-EXCEL-30")
async def test_a_tool_with_an_invalid_schema_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    schemas = [{"properties": []}, {"properties": {"a": {"type": 7}}}, {"$ref": "http://far/away"}]
    bad = [tool(f"bad{number}", {**OBJECT, **schema}) for number, schema in enumerate(schemas)]
    async with managing(in_memory("m", [*bad, tool("good")])) as (_, registry):
        assert registry.get_tool_names() == ["mcp_m_good"]
    assert len(messages(caplog, "WARNING")) == len(schemas)


@pytest.mark.covers("R-EXCEL-30", "R-EXCEL-51")
@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"name": 3, "inputSchema": OBJECT},
        {"name": "", "inputSchema": OBJECT},
        {"name": "a"},
        {"name": "a", "inputSchema": None},
        {"name": "a", "inputSchema": [OBJECT]},
        {"name": "a", "inputSchema": {"type": "string"}},
        {"name": "a", "inputSchema": {"type": 7}},
        {"name": "a\n", "inputSchema": OBJECT},
        {"name": "a" * 600, "inputSchema": OBJECT},
        "a",
        None,
    ],
    ids=lambda it: str(it)[:40],
)
def test_what_is_no_definition_becomes_no_tool(
    definition: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make: Any = MCPManager()._make_tool_def  # pyright: ignore[reportPrivateUsage]
    assert make("m", MCPClientWrapper(light()), definition) is None
    assert len(messages(caplog, "WARNING")) == 1


@pytest.mark.covers("R-EXCEL-52", "R-EXCEL-58")
async def test_a_name_that_is_taken_stays_with_its_owner(caplog: pytest.LogCaptureFixture) -> None:
    first = in_memory("a-b", [tool("c"), tool("taken")])
    second = in_memory("a", [tool("b_c"), tool("d")])
    mine = builtin("mcp_a_b_taken")
    async with managing(first, second, builtins=[mine]) as (manager, registry):
        assert registry.get_tool_names() == ["mcp_a_b_taken", "mcp_a_b_c", "mcp_a_d"]
        assert registry.get_tool("mcp_a_b_taken") is mine
        assert manager.origin("mcp_a_b_c") == ("a-b", "c")
        assert registry.call_tool("mcp_a_b_c", {}) == "c {}"
        with pytest.raises(ToolNotFoundError, match="Did you mean 'mcp_a_b_c'"):
            manager.origin("mcp_a_b_taken")
    warnings = messages(caplog, "WARNING")
    assert ["'taken'" in warnings[0], "'b_c'" in warnings[1], len(warnings)] == [True, True, 2]


@pytest.mark.covers("R-EXCEL-29", "R-EXCEL-58")
async def test_one_failing_close_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(client: MCPClientWrapper) -> None:
        await close(client)
        if client.config.name == "b":
            raise OSError("no")

    close = MCPClientWrapper.close
    monkeypatch.setattr(MCPClientWrapper, "close", fail)
    async with managing(*(in_memory(name, [tool("t")]) for name in "abc")) as (manager, _):
        assert manager.connected_servers == ["a", "b", "c"]
        await manager.shutdown()
        assert manager.connected_servers == []
    assert "'b'" in messages(caplog, "WARNING")[0]


@pytest.mark.covers("R-EXCEL-26", "X-EXCEL-14")
async def test_initialising_twice_at_once_is_initialising_once() -> None:
    listed: list[int] = []

    async def count() -> None:
        listed.append(1)
        await anyio.lowlevel.checkpoint()

    server = in_memory("m", [tool("a")], before_listing=count)
    manager, registry = MCPManager(servers=[server]), ToolRegistry()
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(manager.initialize, registry)
    assert len(listed) == 1
    assert registry.get_tool_names() == ["mcp_m_a"]
    other = ToolRegistry()
    await manager.initialize(other)
    assert other.get_tool_names() == ["mcp_m_a"]
    await manager.shutdown()


@linux_only
async def test_a_cancelled_initialisation_can_be_repeated(tmp_path: Path) -> None:
    name, _, value = (marker := new_marker()).partition("=")
    seen = tmp_path / "seen"
    mute_once = f"test -e {seen} && exec {sys.executable} {LIGHT}; touch {seen}; cat > /dev/null"
    server = MCPServerConfig("m", "stdio", "sh", ["-c", mute_once], env={name: value})
    manager, registry = MCPManager(servers=[server]), ToolRegistry()
    async with anyio.create_task_group() as group:
        group.start_soon(manager.initialize, registry)
        await until(seen.exists)
        group.cancel_scope.cancel()
    await all_ended(marker)
    assert registry.get_tool_names() == []
    await manager.initialize(registry)
    assert registry.call_tool("mcp_m_echo", {"text": "hi"}) == "hi"
    await manager.shutdown()
    await all_ended(marker)


@linux_only
@pytest.mark.covers("R-EXCEL-29")
async def test_shutting_down_ends_a_connecting_that_has_not_ended() -> None:
    name, _, value = (marker := new_marker()).partition("=")
    manager = MCPManager(servers=[MCPServerConfig("mute", *MUTE, env={name: value})])
    await manager.shutdown()
    async with anyio.create_task_group() as group:
        group.start_soon(manager.initialize, ToolRegistry())
        await until(lambda: bool(alive(marker)))
        await manager.shutdown()
        await all_ended(marker)
    assert manager.connected_servers == []
    assert manager.get_server_info() == []
    assert not manager.is_initialized


async def test_servers_connect_at_the_same_time() -> None:
    waiting: list[anyio.Event] = []

    async def meet() -> None:
        mine = anyio.Event()
        waiting.append(mine)
        if len(waiting) == 3:
            for event in waiting:
                event.set()
        with anyio.fail_after(5):
            await mine.wait()

    servers = [in_memory(name, [tool("t")], before_listing=meet) for name in "abc"]
    async with managing(*servers) as (manager, _):
        assert manager.connected_servers == ["a", "b", "c"]


@pytest.mark.covers("R-EXCEL-60", "X-EXCEL-7")
async def test_the_health_of_servers_can_be_seen_and_mended() -> None:
    async with managing(light()) as (manager, registry):
        (info,) = manager.get_server_info()
        assert (info["name"], info["transport"], info["tool_count"]) == ("light", "stdio", 9)
        assert (info["status"], info["last_error"]) == ("ready", None)
        assert (type(info["init_ms"]), "echo" in info["tools"]) == (int, True)
        registry.call_tool("mcp_light_crash", {})
        await until(lambda: manager.connected_servers == [])
        (info,) = manager.get_server_info()
        assert info["status"] == "disconnected"
        assert info["last_error"]
        await manager.initialize(registry)
        assert registry.call_tool("mcp_light_echo", {"text": "back"}) == "back"
        await manager.shutdown()
        assert registry.call_tool("mcp_light_echo", {"text": "hi"}).startswith("Error (connection)")
        await manager.initialize(registry)
        assert registry.call_tool("mcp_light_echo", {"text": "again"}) == "again"


@pytest.mark.covers("R-EXCEL-63", "R-EXCEL-64", "R-EXCEL-58")
async def test_connecting_and_calling_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pegboard.compat")
    async with managing(in_memory("m", [tool("a"), tool("b")])) as (_, registry):
        registry.call_tool("mcp_m_a", {"text": LONG})
    info, summary = messages(caplog, "INFO")
    assert "'m'" in info
    assert "2" in info
    assert "1 of 1 servers are ready, 2 tools" in summary
    (debug,) = messages(caplog, "DEBUG")
    assert "'a'" in debug
    assert "'text': 'xxx" in debug
    assert len(debug) < 200


async def test_a_new_registry_gets_the_definitions_of_today() -> None:
    page = [tool("a"), tool("b")]
    manager = MCPManager(servers=[in_memory("m", page)])
    await manager.initialize(ToolRegistry())
    await manager.shutdown()
    schema = {"type": "object", "properties": {"new": {"type": "string"}}}
    page[:] = [tool("a", schema, "Better."), tool("c")]
    fresh = ToolRegistry()
    await manager.initialize(fresh)
    await manager.shutdown()
    assert fresh.get_tool_names() == ["mcp_m_a", "mcp_m_c"]
    found = fresh.get_tool("mcp_m_a")
    assert found is not None
    assert (found.input_schema, found.description) == (schema, "[MCP:m] Better.")


async def test_a_registry_follows_what_its_server_offers_when_it_comes_back() -> None:
    page = [tool("same"), tool("changed"), tool("gone")]
    async with managing(in_memory("m", page), builtins=[builtin()]) as (manager, registry):
        same = registry.get_tool("mcp_m_same")
        elsewhere = ToolRegistry()
        await manager.shutdown()
        page[:] = [tool("same"), tool("changed", description="Better."), tool("new")]
        await manager.initialize(elsewhere)
        await manager.initialize(registry)
        names = ["sum", "mcp_m_same", "mcp_m_changed", "mcp_m_new"]
        assert sorted(registry.get_tool_names()) == sorted(names)
        assert sorted(registry.registry.describe()) == sorted(names)
        assert registry.get_tool("mcp_m_same") is same
        changed = registry.get_tool("mcp_m_changed")
        assert changed is not None
        assert changed.description == "[MCP:m] Better."
        assert registry.call_tool("mcp_m_changed", {}) == "changed {}"
        assert manager.get_server_info()[0]["tool_count"] == 3
        with pytest.raises(ToolNotFoundError):
            manager.origin("mcp_m_gone")
        with pytest.raises(ToolNotFoundError):
            registry.call_tool("mcp_m_gone", {})


async def test_a_name_that_its_server_gave_up_is_free_for_another() -> None:
    first, second = [tool("c")], [tool("b_c")]
    servers = (in_memory("a-b", first), in_memory("a", second))
    async with managing(*servers) as (manager, registry):
        assert manager.origin("mcp_a_b_c") == ("a-b", "c")
        await manager.shutdown()
        first.clear()
        await manager.initialize(registry)
        assert manager.origin("mcp_a_b_c") == ("a", "b_c")
        assert registry.call_tool("mcp_a_b_c", {}) == "b_c {}"


async def test_two_managers_of_equal_servers_do_not_take_each_others_tools(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with managing(in_memory("m", [tool("a")])) as (_, registry):
        owned = registry.get_tool("mcp_m_a")
        other = MCPManager(servers=[in_memory("m", [tool("a", description="Other.")])])
        await other.initialize(registry)
        await other.shutdown()
        assert registry.get_tool("mcp_m_a") is owned
    assert len(messages(caplog, "WARNING")) == 1


class OwnRegistry:
    """A host's registry, which knows nothing of us."""

    def __init__(self) -> None:
        self.tools: dict[str, Any] = {"sum": builtin()}
        self.batches: list[int] = []

    def get_tool(self, tool_name: str) -> Any:
        return self.tools.get(tool_name)

    def register_tools(self, tools: Iterable[Any]) -> None:
        batch = {it.name: it for it in tools}
        if "mcp_bad_a" in batch:
            raise RuntimeError("not this one")
        self.tools |= batch
        self.batches.append(len(batch))


@pytest.mark.covers("R-EXCEL-1", "R-EXCEL-4", "R-EXCEL-28")
async def test_a_host_keeps_its_own_registry(caplog: pytest.LogCaptureFixture) -> None:
    servers = [in_memory("bad", [tool("a")]), in_memory("m", [tool("a"), tool("b")])]
    manager, registry = MCPManager(servers=servers), OwnRegistry()
    await manager.initialize(registry)
    assert list(registry.tools) == ["sum", "mcp_m_a", "mcp_m_b"]
    assert registry.batches == [2]
    assert registry.tools["mcp_m_b"].func(x=1) == "b {'x': 1}"
    assert "'bad'" in messages(caplog, "ERROR")[0]
    await manager.initialize(registry)
    assert registry.batches == [2]
    assert messages(caplog, "WARNING") == []
    await manager.shutdown()


@pytest.mark.covers("R-EXCEL-61")
async def test_remote_and_builtin_tools_look_the_same_to_a_model() -> None:
    odd = tool("read.file of a server with a really long name, longer than models take it" * 2)
    async with managing(in_memory("m", [tool("a"), odd]), builtins=[builtin()]) as (_, registry):
        for chat in registry.get_openai_schemas("chat_completions"):
            assert set(chat) == {"type", "function"}
            assert set(chat["function"]) == {"name", "description", "parameters"}
        names = [it["name"] for it in registry.get_openai_schemas()]
        assert (names[0], names[2]) == ("mcp_m_a", "sum")
        assert len(names[1]) <= 64
        assert registry.call_tool(names[1], {}) == f"{odd.name} {{}}"
        with pytest.raises(ValueError, match="mode"):
            registry.get_openai_schemas("pigeon")  # pyright: ignore[reportArgumentType]


def test_the_registry_refuses_a_taken_name_and_an_unknown_one() -> None:
    registry = ToolRegistry()
    registry.register(builtin())
    with pytest.raises(ToolConflictError):
        registry.register_tools([builtin("other"), builtin("sum")])
    assert registry.get_tool_names() == ["sum"]
    assert registry.get_tool("other") is None
    with pytest.raises(KeyError):
        registry.call_tool("other", {})
    registry.register_tool(ToolDef("say", "", {}, lambda: "hello", max_result_chars=2))
    assert registry.call_tool("say", {}) == "hello"
    assert [it.name for it in registry.get_all_tools()] == ["sum", "say"]


def given(**arguments: Any) -> dict[str, Any]:
    return arguments


@pytest.mark.covers("R-EXCEL-1", "R-EXCEL-5")
async def test_arguments_reach_a_tool_as_they_were_given_nulls_included() -> None:
    schema = {
        "type": "object",
        "properties": {"cell": {"type": "string"}, "value": {"type": "string"}},
        "required": ["cell"],
    }
    arguments = {"cell": "A1", "value": None, "more": [None]}
    local = ToolDef("set_cell", "", schema, given)
    async with managing(in_memory("m", [tool("set_cell", schema)]), builtins=[local]) as (_, tools):
        assert tools.call_tool("set_cell", arguments) == arguments
        assert tools.call_tool("mcp_m_set_cell", arguments) == f"set_cell {arguments}"


@pytest.mark.covers("R-EXCEL-61")
def test_a_property_that_openai_refuses_is_known_to_the_tool_by_its_own_name() -> None:
    registry = ToolRegistry()
    schema = {"type": "object", "properties": {"cell nr.": {"type": "string"}}}
    registry.register_tool(ToolDef("set_cell", "", schema, given))
    (shown,) = registry.get_openai_schemas()
    (alias,) = shown["parameters"]["properties"]
    assert alias != "cell nr."
    for name in (alias, "cell nr."):
        assert registry.call_tool("set_cell", {name: None}) == {"cell nr.": None}


def test_a_host_without_a_home_directory_still_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE", "EXCELMANUS_MCP_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # pyright: ignore[reportUnknownLambdaType]
    manager = MCPManager("/nowhere")
    anyio.run(manager.initialize, ToolRegistry())
    assert manager.get_server_info() == []


async def test_wrong_addresses_are_found_when_the_client_is_made() -> None:
    with pytest.raises(ValueError, match="url"):
        MCPClientWrapper(MCPServerConfig("a", "sse", url="nonsense"))
    client = MCPClientWrapper(MCPServerConfig("a", "stdio", "no-such-program"))
    with pytest.raises(ServerUnavailableError):
        await client.connect()
    assert not client.is_connected
