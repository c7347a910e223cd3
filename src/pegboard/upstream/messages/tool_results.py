"""Tool results: turn the raw result of ``tools/call`` into a `ToolResult`."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from pegboard.model import Content, Other, ToolResult

__all__ = ["MOST_BLOCKS", "result_of"]

MOST_BLOCKS = 10_000
"""The most content blocks of one result: each is checked while all other calls wait."""


def result_of(raw: Mapping[str, Any]) -> ToolResult:
    """Return the result of `tools/call` as a `ToolResult` that keeps all its fields.

    Raises:
        TypeError, ValueError: when it is not such a result.
    """
    structured = raw.get("structuredContent")
    blocks = raw.get("content") or ()
    if len(blocks) > MOST_BLOCKS:
        raise ValueError(f"It has {len(blocks)} content blocks; the limit is {MOST_BLOCKS}.")
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
