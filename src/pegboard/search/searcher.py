"""Searcher: what finds tools, what it is asked, and what it answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from pegboard.model import CatalogChange, Tool

__all__ = ["Hit", "Match", "Query", "SearchResponse", "Searcher", "filter_of"]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody looks for. Filters narrow the search itself, so that the limit counts after."""

    text: str
    limit: int = 5
    servers: frozenset[str] = frozenset()
    """Only tools of these servers; empty means any. The same goes for the next two."""
    categories: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    visible: Callable[[Tool], bool] | None = None
    """Says of a tool whether the caller may know of it; it is asked only of tools that rank."""
    boost: Callable[[str], float] | None = None
    """Gives the use of a tool by its name, 0 to 1: it decides between tools that fit alike."""
    abstain: bool = True
    """Answer nothing rather than something that does not fit."""
    explain: bool = False
    """Say how each part of the ranking contributed."""
    matches: bool = True
    """Say where each tool matched."""


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a tool matched: a field, and the words of the query that are found there."""

    field: str
    """``name``, ``title``, ``description``, ``parameters``, ``tags``, ``category``, ``server`` or
    ``meaning``."""
    words: tuple[str, ...] = ()


class Hit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool that was found, and why."""

    tool: Tool
    score: float
    """Larger is better; comparable within one answer."""
    confidence: float
    """How likely it is that the tool does what was asked for, 0 to 1; comparable everywhere."""
    matches: tuple[Match, ...] = ()
    parts: Mapping[str, float] | None = None
    """How each part of the ranking contributed, when the query asked for it."""


class SearchResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was found, best first; when that is nothing, where one might look instead."""

    hits: tuple[Hit, ...] = ()
    hints: tuple[str, ...] = ()
    """The nearest categories and servers, when nothing fits."""


@runtime_checkable
class Searcher(Protocol):
    """Finds tools. It is told of every change, and may be asked from any thread."""

    def apply(self, change: CatalogChange) -> None:
        """Take in a change; what it adds is found from now on. Revisions only grow."""
        ...

    def search(self, query: Query) -> SearchResponse:
        """Return what fits, best first, at most as many as the query's limit."""
        ...

    def search_many(self, queries: Sequence[Query]) -> list[SearchResponse]:
        """Return the answers of many queries at once, in their order."""
        ...


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
