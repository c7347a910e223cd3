"""Raw answers as the SDK's own objects, for those who expect them."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types

__all__ = ["sdk_result", "sdk_tool"]


def sdk_tool(raw: Mapping[str, Any]) -> types.Tool:
    """Return a definition as the SDK's ``Tool``."""
    return types.Tool.model_validate(dict(raw), by_name=False)


def sdk_result(raw: Mapping[str, Any]) -> types.CallToolResult:
    """Return the answer to ``tools/call`` as the SDK's ``CallToolResult``."""
    return types.CallToolResult.model_validate(dict(raw), by_name=False)
