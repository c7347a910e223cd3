"""AgentScope's API: MCP clients and a Toolkit that make remote tools local functions."""

from pegboard.compat.agentscope.blocks import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResponse,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from pegboard.compat.agentscope.client import MCPClientBase
from pegboard.compat.agentscope.function import MCPToolFunction, extract_json_schema
from pegboard.compat.agentscope.stateful import (
    HttpStatefulClient,
    StatefulClientBase,
    StdioStatefulClient,
)
from pegboard.compat.agentscope.stateless import HttpStatelessClient
from pegboard.compat.agentscope.toolkit import Toolkit

__all__ = [
    "AudioBlock",
    "Base64Source",
    "ContentBlock",
    "HttpStatefulClient",
    "HttpStatelessClient",
    "ImageBlock",
    "MCPClientBase",
    "MCPToolFunction",
    "StatefulClientBase",
    "StdIOStatefulClient",
    "StdioStatefulClient",
    "TextBlock",
    "ThinkingBlock",
    "ToolResponse",
    "ToolResultBlock",
    "ToolUseBlock",
    "Toolkit",
    "URLSource",
    "VideoBlock",
    "_extract_json_schema_from_mcp_tool",
]

StdIOStatefulClient = StdioStatefulClient
"""AgentScope's own spelling of the document's `StdioStatefulClient`."""

_extract_json_schema_from_mcp_tool = extract_json_schema
