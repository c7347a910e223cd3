"""IndexSearcher: what the methods on a `ToolIndex` share: candidates, ranking and confidence."""

import functools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from pegboard.model import CatalogChange, Tool
from pegboard.search.facets import hint
from pegboard.search.index.index import ToolIndex
from pegboard.search.index.snapshot import (
    DEPTH,
    CandidateQuery,
    Candidates,
    Snapshot,
    candidates_of_many,
)
from pegboard.search.index.view import Filters
from pegboard.search.searcher import Hit, Match, Query, SearchResponse
from pegboard.search.text.postings import Floats
from pegboard.search.text.words import HAN, QueryWords
from pegboard.search.vectors.meaning import QueryMeaning

__all__ = [
    "BY_BOTH",
    "BY_MEANING",
    "BY_WORDS",
    "SENSE",
    "Confidence",
    "IndexSearcher",
    "PreparedQuery",
    "plain_weights",
    "unknown_share",
]


class Confidence(msgspec.Struct, frozen=True):
    """A logistic curve over the parts of a score; fitted by `training/` on sets of questions."""

    base: float
    slopes: Mapping[str, float]
    """How much each part counts."""
    floor: float
    """When nothing reaches it, nothing fits."""

    def of(self, parts: Mapping[str, float]) -> float:
        """Return the confidence, 0 to 1."""
        height = self.base + sum(slope * parts[name] for name, slope in self.slopes.items())
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, height))))


BY_BOTH = Confidence(
    -4.106, {"meaning": 2.899, "words": 2.458, "coverage": 4.774, "unknown_share": -4.0}, 0.03
)
BY_MEANING = Confidence(-4.982, {"meaning": 6.552, "unknown_share": -4.0}, 0.03)
BY_WORDS = Confidence(-3.931, {"words": 0.055, "coverage": 8.466}, 0.045)
SENSE = Confidence(
    -8.197,
    {"meaning": 12.036, "words": 1.976, "coverage": 17.457, "length": 2.808, "size": -0.824},
    0.0212,
)
"""How likely a query means anything, by its best hit: among many tools, one always has a word."""


_NUDGE = 0.01
"""What the use of a tool adds to its score at most."""
_HOPELESS = 0.9
"""Hits below this share of the floor are left out even where others fit."""
_DEEPER = 8
_LOOKED_AT = 10
_HINTS = 3
# Of more queries than this, some are answered before others are read.
_AT_ONCE = 256
_MEANT = 0.25
"""From here on the meaning of a tool is a reason to name it."""


_BY_MEANING = Match(field="meaning")
# The word table knows only Latin and Chinese script, so it cannot judge nonsense in another one.
_OTHER_SCRIPTS = re.compile(rf"[^\W\x00-\u024f\u1e00-\u1eff{HAN}]")


class PreparedQuery(NamedTuple):
    """A query, ready to be looked up."""

    query: Query
    words: QueryWords
    weights: Mapping[str, float]
    """How much each term of the index counts."""
    meaning: QueryMeaning | None
    unknown_share: float = 0.0
    """How far the share of unknown words exceeds two thirds of the query, 0 to 1."""


class _Ranked(NamedTuple):
    tool: Tool
    row: int
    score: float
    confidence: float
    coverage: float
    parts: dict[str, float]


class IndexSearcher(ABC):
    """Finds candidates in an index, ranks them, and returns none when no tool fits.

    Args:
        index: the index to search, which may be shared; by default a new one.
    """

    confidence: Confidence
    sense: Confidence | None = None
    """How likely a query means anything; without it, every query does."""

    def __init__(self, index: ToolIndex | None = None) -> None:
        self.index: ToolIndex = self.new_index() if index is None else index

    @abstractmethod
    def new_index(self) -> ToolIndex:
        """Return an empty index of the kind that this method needs."""

    @abstractmethod
    def prepare(self, query: Query, snapshot: Snapshot) -> PreparedQuery:
        """Return the query with its terms and vectors."""

    @abstractmethod
    def parts(self, candidates: Candidates) -> dict[str, Floats]:
        """Return what each part of the ranking gives to each candidate; their sum is the score."""

    def apply(self, change: CatalogChange) -> None:
        """Apply a change of the catalogue."""
        self.index.apply(change)

    def search(self, query: Query) -> SearchResponse:
        """Return the tools that fit, best first."""
        snapshot = self.index.snapshot
        asked = self.prepare(query, snapshot)
        depth = max(DEPTH, query.limit)
        while True:
            found = snapshot.candidates(*_look_up(asked), where=_filters(query), depth=depth)
            ranked = self._ranked(found, asked)
            if len(ranked) >= query.limit or query.visible is None or len(found) < depth:
                return self._response(ranked, found, asked)
            # Most of the best are hidden from this caller: look further down.
            depth *= _DEEPER

    def search_many(self, queries: Sequence[Query]) -> list[SearchResponse]:
        """Return the responses of many queries, in their order."""
        snapshot = self.index.snapshot
        answers: dict[int, SearchResponse] = {}
        together = [
            number for number, it in enumerate(queries) if it.visible is None and it.limit <= DEPTH
        ]
        for first in range(0, len(together), _AT_ONCE):
            numbers = together[first : first + _AT_ONCE]
            asked = [self.prepare(queries[number], snapshot) for number in numbers]
            found = candidates_of_many(
                snapshot, [CandidateQuery(*_look_up(it), where=_filters(it.query)) for it in asked]
            )
            for number, candidates, it in zip(numbers, found, asked, strict=True):
                answers[number] = self._response(self._ranked(candidates, it), candidates, it)
        return [answers.get(number) or self.search(it) for number, it in enumerate(queries)]

    def _ranked(self, found: Candidates, asked: PreparedQuery) -> list[_Ranked]:
        query = asked.query
        if not len(found):
            return []
        parts = self.parts(found)
        scores = _summed(parts)
        # How much of the query a point of the words covers.
        covering = found.coverage / found.best_lexical if found.best_lexical else 0.0
        ranked: list[_Ranked] = []
        if query.visible is None and query.boost is None:
            positions = iter(found.ranked(scores, query.limit))
        else:
            positions = found.in_order(scores, 2 * query.limit)
        for position in positions:
            tool = found.tool(position)
            if query.visible is not None and not query.visible(tool):
                continue
            score = float(scores[position])
            if len(ranked) >= query.limit and score + _NUDGE < ranked[query.limit - 1].score:
                break
            use = 0.0 if query.boost is None else _NUDGE * query.boost(tool.name)
            each = {name: float(part[position]) for name, part in parts.items()}
            coverage = float(found.lexical[position]) * covering
            signs = {"unknown_share": asked.unknown_share, "coverage": coverage}
            confidence = self.confidence.of(each | signs)
            each["use"] = use
            row = int(found.rows[position])
            ranked.append(_Ranked(tool, row, score + use, confidence, coverage, each))
        if query.boost is not None:
            ranked.sort(key=lambda it: (-it.score, it.tool.name))
        return ranked[: query.limit]

    def _response(
        self, ranked: list[_Ranked], found: Candidates, asked: PreparedQuery
    ) -> SearchResponse:
        query = asked.query
        if query.abstain:
            fits = any(it.confidence >= self.confidence.floor for it in ranked)
            if not fits or not self._makes_sense(ranked[0], found, asked):
                return SearchResponse(hints=tuple(_hints(found, self.parts(found), query)))
            least = self.confidence.floor * _HOPELESS
            ranked = [it for it in ranked if it.confidence >= least]
        if not query.matches:
            return SearchResponse(
                hits=tuple([_hit(it, (), explain=query.explain) for it in ranked])
            )
        matches = found.snapshot.matches([it.row for it in ranked], asked.words)
        hits = zip(ranked, map(_with_meaning, ranked, matches), strict=True)
        return SearchResponse(hits=tuple([_hit(*it, explain=query.explain) for it in hits]))

    def _makes_sense(self, best: _Ranked, found: Candidates, asked: PreparedQuery) -> bool:
        """Tell whether the best hit is better than what any words at all would find here."""
        known = len(asked.meaning.words) if asked.meaning is not None else 0
        if self.sense is None or not known or _OTHER_SCRIPTS.search(asked.query.text):
            return True
        signs = {
            "coverage": best.coverage,
            "length": math.log1p(known),
            "size": math.log(len(found.snapshot)),
        }
        return self.sense.of(best.parts | signs) >= self.sense.floor


def _look_up(asked: PreparedQuery) -> tuple[Mapping[str, float], Floats | None]:
    meaning = asked.meaning
    vectors = None if meaning is None or not len(meaning.vectors) else meaning.vectors
    return asked.weights, vectors


def _with_meaning(ranked: _Ranked, matches: tuple[Match, ...]) -> tuple[Match, ...]:
    is_meant = ranked.parts.get("meaning", 0.0) >= _MEANT or not matches
    return (*matches, _BY_MEANING) if is_meant else matches


def _hit(ranked: _Ranked, matches: tuple[Match, ...], *, explain: bool) -> Hit:
    return Hit(
        tool=ranked.tool,
        score=ranked.score,
        confidence=ranked.confidence,
        matches=matches,
        parts=ranked.parts if explain else None,
    )


def _filters(query: Query) -> Filters:
    return Filters(query.servers, query.categories, query.tags)


def _hints(found: Candidates, parts: Mapping[str, Floats], query: Query) -> Iterator[str]:
    """Yield the servers and categories of the tools that come nearest."""
    if not len(found):
        return
    near = [found.tool(it) for it in found.ranked(_summed(parts), _LOOKED_AT)]
    shown = [tool for tool in near if query.visible is None or query.visible(tool)]
    for kind in ("category", "server"):
        names = dict.fromkeys(name for tool in shown if (name := getattr(tool, kind)))
        yield from (hint(kind, name) for name in list(names)[:_HINTS])


def _summed(parts: Mapping[str, Floats]) -> Floats:
    first, *others = parts.values()
    return functools.reduce(np.add, others, first)


def plain_weights(words: QueryWords) -> dict[str, float]:
    """Return how much each word of a query counts by itself."""
    return {term: math.sqrt(times) for term, times in words.counts.items()}


def unknown_share(words: QueryWords, meaning: QueryMeaning | None) -> float:
    """Return how far the share of unknown words exceeds two thirds of a query, 0 to 1."""
    written = [word for word in words.spelled.values() if word.isalpha()]
    if meaning is None or not meaning.words or not written:
        return 0.0
    known = {word.plain for word in meaning.words}
    share = sum(word in known for word in written) / len(written)
    return max(0.0, 1.0 - 3 * share)
