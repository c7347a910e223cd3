"""What a manager does when it is initialised again: with another file, or another list."""

import json
import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from pegboard import ToolNotFoundError
from pegboard.compat.excelmanus import MCPManager, MCPServerConfig, ToolDef, ToolRegistry
from pegboard.config import ServerConfig, Timeouts
from tests.compat.excelmanus_servers import in_memory, linux_only, tool
from tests.upstream.processes import LIGHT, alive, all_ended, new_marker, until


@pytest.fixture(autouse=True)
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for the file, and no other file anywhere."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("EXCELMANUS_MCP_CONFIG", raising=False)
    return tmp_path


def light(**fields: Any) -> dict[str, Any]:
    return {"transport": "stdio", "command": sys.executable, "args": [LIGHT], **fields}


def write(workspace: Path, servers: dict[str, Any]) -> None:
    (workspace / "mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")


def statuses(manager: MCPManager) -> dict[str, str]:
    return {info["name"]: info["status"] for info in manager.get_server_info()}


def colour(registry: ToolRegistry, server: str = "a") -> str:
    return registry.call_tool(f"mcp_{server}_env", {"name": "COLOUR"})


async def initialize_with(
    manager: MCPManager, registry: ToolRegistry, *servers: MCPServerConfig | ServerConfig
) -> None:
    manager._servers = list(servers)  # pyright: ignore[reportPrivateUsage]
    await manager.initialize(registry)


@pytest.mark.covers("R-EXCEL-27", "R-EXCEL-60")
async def test_a_file_that_was_mended_is_used(workspace: Path) -> None:
    broken = {"transport": "stdio", "command": "no-such-program"}
    write(workspace, {"a": broken, "b": {"transport": "sse", "url": "nonsense"}})
    manager, registry = MCPManager(str(workspace)), ToolRegistry()
    await manager.initialize(registry)
    assert statuses(manager) == {"a": "connect_failed", "b": "connect_failed"}
    write(workspace, {"a": light(), "b": light()})
    await manager.initialize(registry)
    assert statuses(manager) == {"a": "ready", "b": "ready"}
    assert manager.get_server_info()[1]["transport"] == "stdio"
    assert registry.call_tool("mcp_b_echo", {"text": "hi"}) == "hi"
    await manager.shutdown()


@linux_only
@pytest.mark.covers("R-EXCEL-27", "R-EXCEL-60")
async def test_a_server_that_changed_is_replaced_and_one_that_did_not_is_left_alone(
    workspace: Path,
) -> None:
    name, _, value = (marker := new_marker()).partition("=")
    write(workspace, {"a": light(env={"COLOUR": "red", name: value}), "same": light()})
    manager, registry = MCPManager(str(workspace)), ToolRegistry()
    await manager.initialize(registry)
    pid = registry.call_tool("mcp_same_pid", {})
    (old,) = alive(marker)
    assert colour(registry) == "red"
    write(workspace, {"a": light(env={"COLOUR": "blue", name: value}), "same": light()})
    await manager.initialize(registry)
    assert colour(registry) == "blue"
    await until(lambda: old not in alive(marker))
    (new,) = alive(marker)
    assert new != old
    assert registry.call_tool("mcp_same_pid", {}) == pid
    write(workspace, {"a": {"transport": "sse", "url": "nonsense"}, "same": light()})
    await manager.initialize(registry)
    assert statuses(manager) == {"a": "connect_failed", "same": "ready"}
    await all_ended(marker)
    assert colour(registry).startswith("Error (connection)")
    await manager.shutdown()


@linux_only
@pytest.mark.covers("R-EXCEL-27", "R-EXCEL-60")
async def test_a_server_that_is_gone_is_closed_and_its_tools_are_taken_off(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, _, value = (marker := new_marker()).partition("=")
    leaving = light(env={name: value})
    write(workspace, {"a": leaving, "b": light()})
    manager, registry, elsewhere = MCPManager(str(workspace)), ToolRegistry(), ToolRegistry()
    await manager.initialize(registry)
    await manager.initialize(elsewhere)
    names = set(registry.get_tool_names())
    write(workspace, {"b": light()})
    await manager.initialize(registry)
    await all_ended(marker)
    assert manager.connected_servers == ["b"]
    assert statuses(manager) == {"b": "ready"}
    assert {it.split("_")[1] for it in registry.get_tool_names()} == {"b"}
    with pytest.raises(ToolNotFoundError):
        manager.origin("mcp_a_echo")
    await manager.initialize(elsewhere)
    assert elsewhere.get_tool("mcp_a_echo") is None
    write(workspace, {"a": leaving, "b": light()})
    await manager.initialize(registry)
    assert set(registry.get_tool_names()) == names
    assert registry.call_tool("mcp_a_echo", {"text": "back"}) == "back"
    (workspace / "mcp.json").unlink()
    await manager.initialize(registry)
    assert manager.get_server_info() == registry.get_tool_names() == []
    await manager.shutdown()
    assert [it for it in caplog.records if it.levelno >= logging.WARNING] == []


@pytest.mark.covers("R-EXCEL-2", "R-EXCEL-27")
async def test_a_file_that_cannot_be_used_changes_nothing(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(workspace, {"a": light()})
    manager, registry = MCPManager(str(workspace)), ToolRegistry()
    await manager.initialize(registry)
    pid = registry.call_tool("mcp_a_pid", {})
    for text in ("{", "[]", '{"mcpServers": []}'):
        await anyio.Path(workspace / "mcp.json").write_text(text, encoding="utf-8")
        await manager.initialize(registry)
        assert registry.call_tool("mcp_a_pid", {}) == pid
    assert [it.levelname for it in caplog.records] == ["ERROR", "ERROR", "WARNING"]
    await manager.shutdown()


@pytest.mark.covers("R-EXCEL-2", "R-EXCEL-48")
async def test_a_path_that_cannot_be_looked_at_stops_no_host(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text = json.dumps({"mcpServers": {"a": {"env": {"TOKEN": "hunter22"}}}}) + " " * 300
    monkeypatch.setenv("EXCELMANUS_MCP_CONFIG", text)
    manager, registry = MCPManager(), ToolRegistry()
    registry.register_tool(ToolDef("hello", "", {}, lambda: "hello"))
    await manager.initialize(registry)
    assert registry.call_tool("hello", {}) == "hello"
    (record,) = caplog.records
    assert "hunter22" not in record.getMessage()


@pytest.mark.covers("R-EXCEL-27")
async def test_a_name_of_a_server_that_is_gone_is_free_for_another() -> None:
    first, second = in_memory("a-b", [tool("c")]), in_memory("a", [tool("b_c")])
    manager, registry = MCPManager(servers=[first, second]), ToolRegistry()
    await manager.initialize(registry)
    assert manager.origin("mcp_a_b_c") == ("a-b", "c")
    await initialize_with(manager, registry, second)
    assert manager.origin("mcp_a_b_c") == ("a", "b_c")
    # Back again, it has to wait until the other one leaves, which now comes after it.
    await initialize_with(manager, registry, first, second)
    await initialize_with(manager, registry, first)
    assert manager.origin("mcp_a_b_c") == ("a-b", "c")
    assert registry.call_tool("mcp_a_b_c", {}) == "c {}"
    await manager.shutdown()


class OwnRegistry:
    """A host's registry, which keeps what it has."""

    def __init__(self) -> None:
        self.tools: dict[str, ToolDef] = {}

    def get_tool(self, tool_name: str) -> ToolDef | None:
        return self.tools.get(tool_name)

    def register_tools(self, tools: Iterable[ToolDef]) -> None:
        self.tools |= {it.name: it for it in tools}


@pytest.mark.covers("R-EXCEL-1", "R-EXCEL-27")
async def test_the_functions_a_host_has_kept_call_the_server_of_today(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(workspace, {"a": light(env={"COLOUR": "red"})})
    manager, registry = MCPManager(str(workspace)), OwnRegistry()
    await manager.initialize(registry)
    kept = registry.tools["mcp_a_env"]
    write(workspace, {"a": light(env={"COLOUR": "blue"})})
    await manager.initialize(registry)
    assert registry.tools["mcp_a_env"] is kept
    assert kept.func(name="COLOUR") == "blue"
    assert caplog.records == []
    await manager.shutdown()


@pytest.mark.covers("R-EXCEL-37")
async def test_a_new_time_limit_holds_for_functions_that_are_there_already() -> None:
    patient = MCPServerConfig("a", "stdio", sys.executable, [LIGHT]).server_config()
    manager, registry = MCPManager(servers=[patient]), ToolRegistry()
    await manager.initialize(registry)
    hasty = msgspec.structs.replace(patient, timeouts=Timeouts(call=0.05))
    await initialize_with(manager, registry, hasty)
    answer = registry.call_tool("mcp_a_slow", {"seconds": 60})
    assert answer.startswith("Error (timeout): Tool 'slow' did not finish within 0.05 s.")
    await manager.shutdown()
