"""The examples of the second design document, as it prints them, but for the import."""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from pegboard import ToolNotFoundError
from pegboard.compat.excelmanus import (
    MCPClientWrapper,
    MCPConfigLoader,
    MCPManager,
    MCPServerConfig,
    ToolRegistry,
    mcp_config_schema,
)
from pegboard.compat.excelmanus import manager as excelmanus
from tests.upstream.processes import LIGHT

SCHEMA = """
{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "properties": {
    "mcpServers": {
      "type": "object",
      "additionalProperties": {
        "type": "object",
        "properties": {
          "transport": {
            "type": "string",
            "enum": ["stdio", "sse"]
          },
          "command": { "type": "string" },
          "args": {
            "type": "array",
            "items": { "type": "string" }
          },
          "env": {
            "type": "object",
            "additionalProperties": { "type": "string" }
          },
          "url": { "type": "string" },
          "timeout": { "type": "integer", "minimum": 1 }
        },
        "required": ["transport"]
      }
    }
  },
  "required": ["mcpServers"]
}
"""


class AgentEngine:
    def __init__(self, config: Any, registry: ToolRegistry) -> None:
        self._registry = registry
        self._mcp_manager = MCPManager(config.workspace_root)

    async def initialize_mcp(self) -> None:
        await self._mcp_manager.initialize(self._registry)

    async def shutdown_mcp(self) -> None:
        await self._mcp_manager.shutdown()

    async def chat(self, name: str, **arguments: Any) -> Any:
        # Where the document has a model, the test says which tool it chose. Blocking, as there.
        return self._registry.call_tool(name, arguments)


class Config:
    def __init__(self, workspace_root: str) -> None:
        self.workspace_root = workspace_root


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("EXCELMANUS_MCP_CONFIG", raising=False)
    entry = {"transport": "stdio", "command": sys.executable, "args": [LIGHT], "env": {}}
    servers = {"web-search": entry, "broken": {"transport": "stdio", "command": "no-such-program"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return str(tmp_path)


@pytest.mark.covers("R-EXCEL-32", "R-EXCEL-33", "R-EXCEL-2", "R-EXCEL-5")
async def test_the_engine_of_the_document(workspace: str) -> None:
    engine = AgentEngine(Config(workspace), ToolRegistry())
    with pytest.raises(ToolNotFoundError):
        await engine.chat("mcp_web_search_echo", text="hello")
    await engine.initialize_mcp()
    assert await engine.chat("mcp_web_search_echo", text="hello") == "hello"
    await engine.shutdown_mcp()


@pytest.mark.covers("R-EXCEL-32")
def test_making_a_manager_needs_no_event_loop_and_connects_nothing(workspace: str) -> None:
    manager = MCPManager(workspace)
    assert (manager.connected_servers, manager.get_server_info()) == ([], [])
    anyio.run(manager.initialize, ToolRegistry())
    assert manager.connected_servers == ["web-search"]
    anyio.run(manager.shutdown)
    assert manager.connected_servers == []


@pytest.mark.covers("R-EXCEL-9")
def test_the_loader_is_used_without_an_instance() -> None:
    assert isinstance(inspect.getattr_static(MCPConfigLoader, "load"), staticmethod)


@pytest.mark.covers("R-EXCEL-16", "R-EXCEL-19")
def test_the_schema_is_that_of_the_document() -> None:
    assert mcp_config_schema() == json.loads(SCHEMA)


SIGNATURES: dict[Any, list[tuple[str, Any]]] = {
    MCPServerConfig: [
        *(("name", ...), ("transport", ...), ("command", None), ("args", None), ("env", None)),
        ("url", None),
    ],
    MCPConfigLoader.load: [("config_path", None), ("workspace_root", ".")],
    MCPConfigLoader._parse_config: [("data", ...)],  # pyright: ignore[reportPrivateUsage]
    MCPConfigLoader._validate_server_config: [("entry", ...)],  # pyright: ignore[reportPrivateUsage]
    MCPClientWrapper: [("config", ...)],
    MCPClientWrapper.connect: [("self", ...)],
    MCPClientWrapper.discover_tools: [("self", ...)],
    MCPClientWrapper.call_tool: [("self", ...), ("tool_name", ...), ("arguments", ...)],
    MCPClientWrapper.close: [("self", ...)],
    MCPManager: [("workspace_root", ".")],
    MCPManager.initialize: [("self", ...), ("registry", ...)],
    MCPManager.shutdown: [("self", ...)],
    MCPManager._make_tool_def: [  # pyright: ignore[reportPrivateUsage]
        *(("self", ...), ("server_name", ...), ("client", ...), ("tool", ...))
    ],
    excelmanus._make_tool_func: [  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        *(("client", ...), ("original_name", ...), ("timeout", ...))
    ],
}


@pytest.mark.covers("R-EXCEL-6", "R-EXCEL-9", "R-EXCEL-14", "R-EXCEL-20", "R-EXCEL-26")
@pytest.mark.covers("R-EXCEL-30", "R-EXCEL-34")
@pytest.mark.parametrize("function", SIGNATURES, ids=lambda it: it.__qualname__)
def test_signatures_are_those_of_the_document(function: Any) -> None:
    parameters = inspect.signature(function).parameters.values()
    positional = [
        (it.name, ... if it.default is inspect.Parameter.empty else it.default)
        for it in parameters
        if it.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    # Further fields of a server are ExcelManus's own; the document has one of them.
    stated = SIGNATURES[function]
    assert positional[: len(stated)] == stated
    further = dict(positional[len(stated) :])
    assert further.get("timeout") == (30 if function is MCPServerConfig else None)
    asynchronous = {"connect", "discover_tools", "call_tool", "close", "initialize", "shutdown"}
    assert inspect.iscoroutinefunction(function) == (function.__name__ in asynchronous)
