"""Ranking: from everything that fits a query to the best of it."""

from collections.abc import Iterable
from heapq import nsmallest

import msgspec

from pegboard.search.filters import filter_of
from pegboard.search.searcher import Answer, Hit, Query

__all__ = ["best_of"]

_NUDGE = 0.05
"""How much of the best score the use of a tool can make up for."""


def best_of(hits: Iterable[Hit], query: Query) -> Answer:
    """Return the best hits that the query admits; tools that are used win against their likes.

    For searchers that score all tools: give it every hit, in any order.
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
    return Answer(hits=tuple(best))
