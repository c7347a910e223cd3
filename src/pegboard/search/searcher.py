"""The Searcher protocol: a search method, with its query, filters, hits and response."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Protocol, runtime_checkable

import msgspec

from pegboard.model import CatalogChange, Tool

__all__ = ["Hit", "Match", "Query", "SearchResponse", "Searcher", "best_of", "filter_of"]

_NUDGE = 0.05
"""How much of the best score the use of a tool can make up for."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A search query. The filters narrow the search itself, so the limit counts only what fits."""

    text: str
    limit: int = 5
    servers: frozenset[str] = frozenset()
    """Only tools of these servers; an empty set means any. The next two filters work likewise."""
    categories: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    visible: Callable[[Tool], bool] | None = None
    """Tells whether the caller may see a tool; called only for tools that rank."""
    boost: Callable[[str], float] | None = None
    """Returns the use of a tool, 0 to 1, by name; it decides between tools that fit equally."""
    abstain: bool = True
    """Return nothing rather than tools that do not fit."""
    explain: bool = False
    """Report how each part of the ranking contributed."""
    matches: bool = True
    """Report where each tool matched."""


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a tool matched: a field, and the words of the query in it."""

    field: str
    """``name``, ``title``, ``description``, ``parameters``, ``tags``, ``category``, ``server`` or
    ``meaning``."""
    words: tuple[str, ...] = ()


class Hit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A found tool, and why it was found."""

    tool: Tool
    score: float
    """Larger is better; comparable within one response."""
    confidence: float
    """How likely the tool does what the query asks for, 0 to 1; comparable between responses."""
    matches: tuple[Match, ...] = ()
    parts: Mapping[str, float] | None = None
    """How each part of the ranking contributed, when the query asked for it."""


class SearchResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The hits, best first; hints instead when no tool fits."""

    hits: tuple[Hit, ...] = ()
    hints: tuple[str, ...] = ()
    """The nearest categories and servers, when no tool fits."""


@runtime_checkable
class Searcher(Protocol):
    """Finds tools. It receives every change of the catalogue; any thread may search."""

    def apply(self, change: CatalogChange) -> None:
        """Apply a change; added tools are found from now on. Revisions only grow."""
        ...

    def search(self, query: Query) -> SearchResponse:
        """Return the tools that fit, best first, at most as many as the query's limit."""
        ...

    def search_many(self, queries: Sequence[Query]) -> list[SearchResponse]:
        """Return the responses of many queries, in their order."""
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


def best_of(hits: Iterable[Hit], query: Query) -> SearchResponse:
    """Return the best hits that the query admits; a used tool wins against tools that fit equally.

    For searchers that score all tools: pass every hit, in any order.
    """
    admits = filter_of(query)
    admitted = [hit for hit in hits if admits(hit.tool)]
    if query.boost is not None and admitted:
        reach = _NUDGE * max(abs(hit.score) for hit in admitted)
        boost = query.boost
        admitted = [
            msgspec.structs.replace(hit, score=hit.score + reach * boost(hit.tool.name))
            for hit in admitted
        ]
    best = nsmallest(query.limit, admitted, key=lambda hit: (-hit.score, hit.tool.name))
    return SearchResponse(hits=tuple(best))
