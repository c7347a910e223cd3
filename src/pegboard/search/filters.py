"""Filters: which tools a query admits, whatever it is looking for."""

from collections.abc import Callable

from pegboard.model import Tool
from pegboard.search.searcher import Query

__all__ = ["filter_of"]


def filter_of(query: Query) -> Callable[[Tool], bool]:
    """Return a function that tells whether the query admits a tool."""
    servers, categories, tags, visible = query.servers, query.categories, query.tags, query.visible

    def admits(tool: Tool) -> bool:
        return (
            (not servers or tool.server in servers)
            and (not categories or tool.category in categories)
            and (not tags or not tags.isdisjoint(tool.tags))
            and (visible is None or visible(tool))
        )

    return admits
