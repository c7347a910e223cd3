"""Pages: lists that are too long for one answer."""

import re
from collections.abc import Sequence
from typing import Any

from mcp_types import INVALID_PARAMS

from pegboard.gateway.exchange import RpcError
from pegboard.gateway.tool_list import NO_CURSOR, cursor_after, position_of

__all__ = ["page_of"]


def page_of(items: Sequence[Any], cursor: object, *, key: str, size: int) -> dict[str, Any]:
    """Return one page of items as the result of a list, with the cursor of the next.

    Raises:
        RpcError: when it is no cursor of ours.
    """
    position = position_of(cursor)
    if not re.fullmatch("[0-9]{0,12}", position):
        raise RpcError(INVALID_PARAMS, NO_CURSOR)
    start = int(position or 0)
    page: dict[str, Any] = {key: list(items[start : start + size])}
    if start + size < len(items):
        page["nextCursor"] = cursor_after(str(start + size))
    return page
