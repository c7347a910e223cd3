"""Make a ToolResult of a server's answer to `tools/call`, without the MCP SDK."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from pegboard.model import Content, Other, ToolResult

__all__ = ["result_of"]

MOST_BLOCKS = 10_000
"""The most content blocks of one result: each is looked at, while other calls wait."""


def result_of(raw: Mapping[str, Any]) -> ToolResult:
    """Return the answer to `tools/call` as a ToolResult that keeps everything.

    Raises:
        TypeError, ValueError: when it is no such answer.
    """
    structured = raw.get("structuredContent")
    blocks = raw.get("content") or ()
    if len(blocks) > MOST_BLOCKS:
        raise ValueError(f"It has {len(blocks)} content blocks, and {MOST_BLOCKS} are the most.")
    return ToolResult(
        content=tuple(_block(block) for block in blocks),
        structured_content=structured,
        is_error=bool(raw.get("isError")),
        meta=raw.get("_meta") or {},
        wire=raw,
    )


def _block(block: object) -> Content:
    try:
        return msgspec.convert(block, Content)
    except msgspec.ValidationError:
        if isinstance(block, dict):
            return Other(block=cast("dict[str, Any]", block))
        raise ValueError(f"A content block is an object, not {type(block).__name__!r}.") from None
