"""ExcelManus's API: servers from its `mcp.json`, and their tools in the host's registry."""

from pegboard.compat.excelmanus.manager import (
    HostRegistry,
    MCPClientWrapper,
    MCPConfigLoader,
    MCPManager,
    MCPServerConfig,
    OpenAISchemaMode,
    ServerInfo,
    ServerStatus,
    ToolDef,
    ToolExecutionError,
    ToolRegistry,
    mcp_config_schema,
)

__all__ = [
    "HostRegistry",
    "MCPClientWrapper",
    "MCPConfigLoader",
    "MCPManager",
    "MCPServerConfig",
    "OpenAISchemaMode",
    "ServerInfo",
    "ServerStatus",
    "ToolDef",
    "ToolExecutionError",
    "ToolRegistry",
    "mcp_config_schema",
]
