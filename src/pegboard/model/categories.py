"""Categories: what tools are listed under."""

from collections import Counter
from collections.abc import Iterable

from pegboard.model.tool import Tool

__all__ = ["categories_of", "category_of"]

_REST = "other"


def category_of(tool: Tool) -> str:
    """Return the category of a tool; of one that has none, its server."""
    return tool.category or tool.server or _REST


def categories_of(tools: Iterable[Tool]) -> dict[str, int]:
    """Return the categories, in order, and how many tools each has."""
    return dict(sorted(Counter(category_of(tool) for tool in tools).items()))
