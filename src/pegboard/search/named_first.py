"""Tools that a query calls by their name come first, whatever the method."""

from collections.abc import Iterable

import msgspec

from pegboard.model import Tool
from pegboard.search.filters import filter_of
from pegboard.search.searcher import Answer, Hit, Match, Query

__all__ = ["with_named_first"]


def with_named_first(
    answer: Answer, named: Iterable[tuple[Tool, float]], *, query: Query
) -> Answer:
    """Return the answer with the named tools in front, as far as the query admits them."""
    admits = filter_of(query)
    admitted = [(tool, closeness) for tool, closeness in named if admits(tool)]
    if not admitted:
        return answer
    ranks = {hit.tool.name: rank for rank, hit in enumerate(answer.hits)}

    def order(found: tuple[Tool, float]) -> tuple[float, int, float, str]:
        tool, closeness = found
        use = 0.0 if query.boost is None else query.boost(tool.name)
        return -closeness, ranks.get(tool.name, len(ranks)), -use, tool.name

    top = max((hit.score for hit in answer.hits), default=0.0)
    first = [
        _hit(tool, closeness, top=top, query=query, there=_at(answer, ranks.get(tool.name)))
        for tool, closeness in sorted(admitted, key=order)[: query.limit]
    ]
    names = {hit.tool.name for hit in first}
    rest = [hit for hit in answer.hits if hit.tool.name not in names]
    return Answer(hits=(*first, *rest)[: query.limit])


def _at(answer: Answer, rank: int | None) -> Hit | None:
    return None if rank is None else answer.hits[rank]


def _hit(tool: Tool, closeness: float, *, top: float, query: Query, there: Hit | None) -> Hit:
    whole = (Match(field="name", words=(query.text.strip(),)),) if query.matches else ()
    known = Hit(tool=tool, score=0.0, confidence=0.0) if there is None else there
    others = tuple(match for match in known.matches if match.field != "name")
    return msgspec.structs.replace(
        known,
        score=top + closeness,
        confidence=max(known.confidence, closeness),
        matches=(*whole, *others),
        parts={**(known.parts or {}), "name": closeness} if query.explain else None,
    )
