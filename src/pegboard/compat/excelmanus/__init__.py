"""ExcelManus's API: servers from its `mcp.json`, and their tools in the host's registry."""

from pegboard.compat.excelmanus.client import (
    MCPClientWrapper,
    add_tool_prefix,
    format_tool_result,
    infer_mcp_write_effect,
    make_tool_def,
    parse_tool_prefix,
)
from pegboard.compat.excelmanus.config import MCPConfigLoader, MCPServerConfig, mcp_config_schema
from pegboard.compat.excelmanus.manager import MCPManager, ServerInfo, ServerStatus
from pegboard.compat.excelmanus.tools import (
    HostRegistry,
    OpenAISchemaMode,
    ToolConsistency,
    ToolDef,
    ToolNotAllowedError,
    ToolRegistry,
    ToolRegistryError,
    ToolVisibility,
    WriteEffect,
)
from pegboard.errors import ToolExecutionError, ToolNotFoundError

__all__ = [
    "HostRegistry",
    "MCPClientWrapper",
    "MCPConfigLoader",
    "MCPManager",
    "MCPServerConfig",
    "OpenAISchemaMode",
    "ServerInfo",
    "ServerStatus",
    "ToolConsistency",
    "ToolDef",
    "ToolExecutionError",
    "ToolNotAllowedError",
    "ToolNotFoundError",
    "ToolRegistry",
    "ToolRegistryError",
    "ToolVisibility",
    "WriteEffect",
    "add_tool_prefix",
    "format_tool_result",
    "infer_mcp_write_effect",
    "make_tool_def",
    "mcp_config_schema",
    "parse_tool_prefix",
]
