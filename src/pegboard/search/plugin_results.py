"""Validation of plug-in searchers' responses: check types, and drop hits that may not be shown."""

import math
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from pegboard.errors import InvalidQueryError
from pegboard.model import Tool
from pegboard.search.searcher import Hit, Query, SearchResponse, filter_of

__all__ = ["checked_answers"]


def checked_answers(
    answers: object,
    queries: Sequence[Query],
    *,
    method: str,
    known: Callable[[str], Tool | None],
) -> list[SearchResponse]:
    """Return responses with only the hits that the queries admit.

    Args:
        answers: what the searcher returned, one response for each query.
        queries: the queries.
        method: the name of the search method.
        known: returns the tool on the board that has a name.

    Raises:
        InvalidQueryError: when the searcher did not return valid responses.
    """
    if not isinstance(answers, list | tuple):
        raise _wrong(method, f"`search_many` returned {_kind(answers)}, not a list of responses")
    given = cast("Sequence[object]", answers)
    if len(given) != len(queries):
        raise _wrong(
            method, f"`search_many` returned {len(given)} responses for {len(queries)} queries"
        )
    return [
        _checked(answer, query, method=method, known=known)
        for answer, query in zip(given, queries, strict=True)
    ]


def _checked(
    answer: object, query: Query, *, method: str, known: Callable[[str], Tool | None]
) -> SearchResponse:
    if not isinstance(answer, SearchResponse):
        raise _wrong(method, f"it returned {_kind(answer)}, not a `SearchResponse`")
    hits = _hits(answer.hits, method)
    admits = filter_of(query)
    kept: dict[str, Hit] = {}
    for hit in hits:
        # The tool of the board counts, not the searcher's copy of it.
        tool = known(hit.tool.name)
        if tool is not None and tool.name not in kept and admits(tool):
            kept[tool.name] = _bounded(hit, tool)
            if len(kept) >= query.limit:
                break
    return SearchResponse(hits=tuple(kept.values()), hints=_hints(answer.hints, method))


def _hits(hits: object, method: str) -> Sequence[Hit]:
    if not isinstance(hits, list | tuple):
        raise _wrong(method, f"the hits of its response are {_kind(hits)}, not a tuple")
    for hit in cast("Sequence[object]", hits):
        if not isinstance(hit, Hit) or not isinstance(hit.tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong(method, "a hit of its response is not a `Hit` with a `Tool`")
        if not isinstance(hit.score, float | int) or not isinstance(hit.confidence, float | int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong(method, f"the score or confidence of {hit.tool.name!r} is not a number")
    return cast("Sequence[Hit]", hits)


def _hints(hints: object, method: str) -> tuple[str, ...]:
    if not isinstance(hints, list | tuple):
        raise _wrong(method, f"the hints of its response are {_kind(hints)}, not a tuple")
    given = cast("Sequence[object]", hints)
    if not all(isinstance(hint, str) for hint in given):
        raise _wrong(method, "a hint of its response is not a string")
    return tuple(cast("Sequence[str]", given))


def _bounded(hit: Hit, tool: Tool) -> Hit:
    score = float(hit.score) if math.isfinite(hit.score) else 0.0
    confidence = 0.0 if math.isnan(hit.confidence) else min(1.0, max(0.0, float(hit.confidence)))
    if hit.tool is tool and (hit.score, hit.confidence) == (score, confidence):
        return hit
    return msgspec.structs.replace(hit, tool=tool, score=score, confidence=confidence)


def _wrong(method: str, problem: str) -> InvalidQueryError:
    return InvalidQueryError(
        f"The search method {method!r} cannot be used: {problem}.", option="method"
    )


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__!r}"
