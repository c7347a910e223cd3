"""What a host of ExcelManus's kind has of its remote tools: objects of its own class, and more."""

import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import msgspec
import pytest
from mcp.shared.exceptions import MCPError

from pegboard import ToolConflictError, ToolExecutionError
from pegboard.compat.excelmanus import (
    MCPClientWrapper,
    MCPConfigLoader,
    MCPManager,
    MCPServerConfig,
    ToolDef,
    ToolRegistry,
    ToolRegistryError,
    add_tool_prefix,
    format_tool_result,
    make_tool_def,
    parse_tool_prefix,
)
from tests.compat.excelmanus_servers import OBJECT, in_memory, tool
from tests.upstream.http_servers import build_server, serving
from tests.upstream.processes import LIGHT

parse: Any = MCPConfigLoader._parse_config  # pyright: ignore[reportPrivateUsage]


@dataclass
class HostTool:
    """A host's own class, older than some of our fields."""

    name: str
    description: str
    input_schema: dict[str, Any]
    func: Any
    max_result_chars: int = 3000

    def to_openai_schema(self) -> dict[str, Any]:
        return {"type": "function", "name": self.name, "parameters": self.input_schema}


class HostRegistry:
    def __init__(self) -> None:
        self.tools: dict[str, Any] = {}

    def get_tool(self, tool_name: str) -> Any:
        return self.tools.get(tool_name)

    def register_tools(self, tools: Iterable[HostTool]) -> None:
        self.tools |= {it.name: it for it in tools}

    def get_openai_schemas(self) -> list[dict[str, Any]]:
        return [it.to_openai_schema() for it in self.tools.values()]


class PlainRegistry(HostRegistry):
    def register_tools(self, tools: Any) -> None:
        self.tools |= {it.name: it for it in tools}


class OddRegistry(PlainRegistry):
    def register_tools(self, tools: Any) -> None:
        super().register_tools(tools)

    register_tools.__annotations__["tools"] = "Iterable[NoSuchClass]"


@pytest.mark.covers("R-EXCEL-1", "R-EXCEL-61")
@pytest.mark.parametrize(
    ("registry", "expected"),
    [(HostRegistry(), HostTool), (PlainRegistry(), ToolDef), (OddRegistry(), ToolDef)],
    ids=["its own", "not annotated", "not there"],
)
async def test_a_host_gets_tools_of_the_class_that_it_registers(
    registry: HostRegistry, expected: type
) -> None:
    registry.tools["sum"] = HostTool("sum", "", OBJECT, sum)
    manager = MCPManager(servers=[in_memory("m", [tool("a"), tool("b")])])
    await manager.initialize(registry)
    found = registry.get_tool("mcp_m_a")
    assert type(found) is expected
    assert (found.max_result_chars, found.func(x=1)) == (5000, "a {'x': 1}")
    assert [it["name"] for it in registry.get_openai_schemas()] == ["sum", "mcp_m_a", "mcp_m_b"]
    await manager.initialize(registry)
    assert registry.get_tool("mcp_m_a") is found
    await manager.shutdown()


async def test_a_remote_tool_can_be_awaited() -> None:
    manager, registry = MCPManager(servers=[in_memory("m", [tool("a")])]), ToolRegistry()
    await manager.initialize(registry)
    assert await registry.call_tool_async("mcp_m_a", {"x": 1}) == "a {'x': 1}"
    await manager.shutdown()


@pytest.mark.covers("X-EXCEL-4", "X-EXCEL-5")
async def test_a_file_says_which_tools_need_no_question_and_when_to_show_them() -> None:
    entry = {"transport": "stdio", "command": sys.executable, "args": [LIGHT], "scope": "search"}
    asked = parse({"mcpServers": {"a": {**entry, "autoApprove": ["echo"]}, "b": entry}})
    manager, registry = MCPManager(servers=asked), ToolRegistry()
    await manager.initialize(registry)
    assert manager.auto_approved_tools == ["mcp_a_echo"]
    assert set(manager.tool_scopes.values()) == {"search"}
    found = registry.get_tool("mcp_b_echo")
    assert found is not None
    assert found.write_effect == "none"
    await manager.shutdown()


@pytest.mark.covers("X-EXCEL-1")
async def test_a_streamable_server_gets_the_headers_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    app = build_server().streamable_http_app()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(value.decode() for key, value in scope.get("headers", ()) if key == b"x-key")
        await app(scope, receive, send)

    monkeypatch.setenv("PB_KEY", "gold")
    async with serving(noting) as origin:
        entry = {"transport": "streamable_http", "url": f"{origin}/mcp"}
        (config,) = parse({"mcpServers": {"a": {**entry, "headers": {"X-Key": "${PB_KEY}!"}}}})
        assert config.headers == {"X-Key": "${PB_KEY}!"}
        client = MCPClientWrapper(config)
        await client.connect()
        assert await client.call_tool("echo", {"text": "far away"}) == "far away"
        await client.close()
    assert set(seen) == {"gold!"}


@pytest.mark.covers("R-EXCEL-42", "X-EXCEL-2")
def test_variables_stay_as_written_until_a_server_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PB_TOKEN", "hunter22")
    entry = {"transport": "stdio", "command": "$PB_RUN", "args": ["--to=${PB_TOKEN}"]}
    data = {"mcpServers": {"a": {**entry, "env": {"TOKEN": "$PB_TOKEN"}}}}
    (config,) = parse(data)
    assert (config.command, config.args, config.env) == (
        "$PB_RUN",
        ["--to=${PB_TOKEN}"],
        {"TOKEN": "$PB_TOKEN"},
    )
    started = replace(config, timeout=5).server_config()
    assert (started.command, started.args) == ("$PB_RUN", ("--to=hunter22",))
    assert started.env == {"TOKEN": "hunter22"}
    assert "hunter22" not in f"{config!r} {started!r}"
    (expanded,) = parse(data, expand_env_refs=True)
    assert (expanded.args, expanded.env) == (["--to=hunter22"], {"TOKEN": "hunter22"})
    (literal,) = parse(data, expand_env_refs=False)
    assert literal.server_config().env == {"TOKEN": "$PB_TOKEN"}
    written = MCPServerConfig("a", "stdio", "x", ["$PB_TOKEN"])
    assert written.server_config().args == ("$PB_TOKEN",)
    assert parse(data, undefined_env="error") == []


@pytest.mark.covers("X-EXCEL-1", "X-EXCEL-2", "X-EXCEL-3")
def test_the_environment_says_how_a_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("EXCELMANUS_MCP_CONFIG", raising=False)
    (tmp_path / "mcp.json").write_text(
        '{"mcpServers": {"far": {"transport": "streamable_http", "url": "http://h/mcp"},'
        '"near": {"transport": "stdio", "command": "x", "args": ["--token", "plain"]},'
        '"odd": {"transport": "stdio", "command": "x", "args": ["$PB_NONE"]}}}',
        "utf-8",
    )

    def found(**variables: str) -> list[str]:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(f"EXCELMANUS_MCP_{name}", value)
            return [it.name for it in MCPConfigLoader.load(workspace_root=str(tmp_path))]

    assert found() == ["far", "near", "odd"]
    assert [it.levelname for it in caplog.records] == ["WARNING"]
    assert found(ENABLE_STREAMABLE_HTTP="No") == ["near", "odd"]
    assert found(STRICT_SECRETS="1") == ["far", "odd"]
    assert found(UNDEFINED_ENV="error") == ["far", "near"]
    assert found(UNDEFINED_ENV="error", EXPAND_ENV_REFS="off") == ["far", "near", "odd"]
    caplog.clear()
    assert found(ENABLE_STREAMABLE_HTTP="maybe") == ["far", "near", "odd"]
    assert "EXCELMANUS_MCP_ENABLE_STREAMABLE_HTTP" in caplog.text
    assert "plain" not in caplog.text.replace("mcp_plain_secret", "")


@pytest.mark.covers("X-EXCEL-6")
async def test_a_list_of_tools_is_asked_for_once_in_a_while() -> None:
    listed: list[int] = []

    async def count() -> None:
        listed.append(1)

    client = MCPClientWrapper(in_memory("m", [tool("a")], before_listing=count))
    await client.connect()
    (await client.discover_tools()).clear()
    assert len(await client.discover_tools()) == len(listed) == 1
    await client.discover_tools(force_refresh=True)
    await client.discover_tools(cache_ttl_seconds=0)
    assert len(listed) == 3
    await client.close()
    await client.connect()
    await client.discover_tools()
    assert len(listed) == 4
    await client.close()


@pytest.mark.covers("R-EXCEL-45")
def test_a_prefix_can_be_taken_off() -> None:
    assert parse_tool_prefix(add_tool_prefix("a-b", "c_d")) == ("a_b", "c_d")
    assert parse_tool_prefix("mcp_else_where_it_is") == ("else", "where_it_is")
    for name in ("sum", "mcp_alone", "mcp_"):
        with pytest.raises(ValueError, match="Tool name"):
            parse_tool_prefix(name)


@pytest.mark.covers("R-EXCEL-44", "X-EXCEL-11")
async def test_objects_of_another_client_and_sdk_will_do() -> None:
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        block = SimpleNamespace(type="text", text=f"{name} {arguments}")
        return SimpleNamespace(content=[block], structuredContent=None)

    client: Any = SimpleNamespace(_config=SimpleNamespace(timeout=5), call_tool=call_tool)
    definition = SimpleNamespace(name="write_it", description=None, inputSchema=None)
    made = make_tool_def("a-b", client, definition)
    assert (made.name, made.description, made.input_schema) == (
        "mcp_a_b_write_it",
        "[MCP:a-b] ",
        {},
    )
    assert (made.write_effect, made.max_result_chars) == ("workspace_write", 5000)
    assert made.async_func is not None
    assert await made.async_func(x=1) == made.func(x=1) == "write_it {'x': 1}"

    async def lose(*_: Any) -> Any:
        raise ConnectionError("gone")

    client.call_tool = lose
    assert made.func(x=1) == "Error (connection): gone"
    assert format_tool_result({"content": [], "structuredContent": {"n": {1}}}) == "{'n': {1}}"


def test_a_registry_can_be_forked_and_made_smaller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    registry = ToolRegistry()
    registry.register_tools([ToolDef(name, "", OBJECT, len) for name in "abc"])
    child = registry.fork()
    child.restrict(allowed=["a", "b"], disallowed=["b"])
    assert (child.get_tool_names(), registry.get_tool_names()) == (["a"], ["a", "b", "c"])
    assert (registry.remove_tools(["b", "z"]), registry.get_tool("b")) == (1, None)
    with pytest.raises(ToolRegistryError, match=r"already registered.*`remove_tools`") as caught:
        registry.register_tool(ToolDef("a", "", OBJECT, len))
    assert isinstance(caught.value, ToolConflictError)
    shown = registry.get_tiered_schemas("chat_completions")
    assert [it["function"]["name"] for it in shown] == ["a", "c"]


class RaisingRegistry(HostRegistry):
    def get_tool(self, tool_name: str) -> Any:
        return self.tools[tool_name]


async def test_a_host_may_raise_for_a_name_that_is_free(caplog: pytest.LogCaptureFixture) -> None:
    manager, registry = MCPManager(servers=[in_memory("m", [tool("a")])]), RaisingRegistry()
    await manager.initialize(registry)
    assert list(registry.tools) == ["mcp_m_a"]
    (told,) = [it for it in caplog.records if it.levelno == logging.WARNING]
    assert "`get_tool('mcp_m_a')`" in told.getMessage()
    assert told.exc_info
    await manager.shutdown()


TOKEN = "sesame-4711-open"


async def test_what_a_server_repeats_of_its_token_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(name: str, _: dict[str, Any]) -> Any:
        text = types.TextContent(text=f"{TOKEN} may not use {name}")
        return types.CallToolResult(content=[text], is_error=True)

    async def refuse_list() -> None:
        raise MCPError(code=-32000, message=f"{TOKEN} is not welcome")

    servers = [
        msgspec.structs.replace(in_memory("m", [tool("a")], answer=refuse), secrets=(TOKEN,)),
        msgspec.structs.replace(in_memory("n", [], before_listing=refuse_list), secrets=(TOKEN,)),
    ]
    manager, registry = MCPManager(servers=servers), ToolRegistry()
    await manager.initialize(registry)
    with pytest.raises(ToolExecutionError):
        registry.call_tool("mcp_m_a", {})
    await manager.shutdown()
    logged = [it.getMessage() for it in caplog.records if it.levelno == logging.ERROR]
    assert any("*** may not use a" in it for it in logged)
    assert any("*** is not welcome" in it for it in logged)
    assert TOKEN not in caplog.text


DEEP = '{"error":' + "[" * 100_000


def test_a_text_that_is_nested_too_deeply_is_a_plain_text() -> None:
    made = ToolDef("a", "", OBJECT, len, max_result_chars=20)
    closed = '{"a":' * 100_000 + "1" + "}" * 100_000
    for text in (DEEP, closed):
        assert made.truncate_result(text).startswith(text[:20] + "\n[")
    for text in (DEEP, '{"error": ' + "9" * 5000 + "}"):
        assert not ToolRegistry.is_error_result(text)
