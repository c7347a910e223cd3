"""JSON objects and lists, out of whatever somebody sent."""

from typing import Any, cast

from mcp_types import INTERNAL_ERROR

from pegboard.gateway.exchange import RpcError
from pegboard.model.json_values import object_in

__all__ = ["object_in", "parts_in"]

_MOST_PARTS = 10_000


def parts_in(value: object) -> list[Any] | None:
    """Return a list of parts of a server's answer; ``None`` for anything else.

    Raises:
        RpcError: when there are so many that everybody else would wait meanwhile.
    """
    if not isinstance(value, list):
        return None
    parts = cast("list[Any]", value)
    if len(parts) > _MOST_PARTS:
        words = f"The server answered with {len(parts)} parts, and {_MOST_PARTS} are the most."
        raise RpcError(INTERNAL_ERROR, words)
    return parts
