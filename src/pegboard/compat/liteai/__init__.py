"""LiteAI's API: the tools of one MCP server as functions for a model."""

from pegboard.compat.liteai.client import (
    ContentBlock,
    LocalMcpClient,
    LocalServerParams,
    McpClient,
    McpConnectionError,
    RemoteMcpClient,
    RemoteServerParams,
    Tool,
    ToolResult,
)
from pegboard.compat.liteai.prepare import (
    TOOL_FLAG,
    ToolDef,
    ToolFn,
    ToolLike,
    call_tool_fn_sync,
    generate_tool_definition_from_callable,
    generate_tool_definition_from_mcp_tool,
    generate_tool_definition_from_raw_tool_def,
    generate_tool_definition_from_tool_def,
    prepare_tools,
)
from pegboard.compat.liteai.toolset import LocalMcpToolset, McpToolset, RemoteMcpToolset

__all__ = [
    "TOOL_FLAG",
    "ContentBlock",
    "LocalMcpClient",
    "LocalMcpToolset",
    "LocalServerParams",
    "McpClient",
    "McpConnectionError",
    "McpToolset",
    "RemoteMcpClient",
    "RemoteMcpToolset",
    "RemoteServerParams",
    "Tool",
    "ToolDef",
    "ToolFn",
    "ToolLike",
    "ToolResult",
    "call_tool_fn_sync",
    "generate_tool_definition_from_callable",
    "generate_tool_definition_from_mcp_tool",
    "generate_tool_definition_from_raw_tool_def",
    "generate_tool_definition_from_tool_def",
    "prepare_tools",
]
