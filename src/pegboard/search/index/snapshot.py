"""Snapshot: the whole index at one moment, which readers search without locks."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

import numpy as np

from pegboard.model import Tool
from pegboard.model.lazy import LazyProperty
from pegboard.search.index.bm25_scoring import Terms, WordScores, score_many, score_words
from pegboard.search.index.nearest import SMALL, nearest_of_many, nearest_rows, nearness
from pegboard.search.index.view import NO_ROWS, Filters, SegmentView, TailView, View
from pegboard.search.ranking import best_in_each, nth_best
from pegboard.search.searcher import Match
from pegboard.search.text.fields import matches_of
from pegboard.search.text.postings import Floats, Longs, Scores, as_ints
from pegboard.search.text.words import QueryWords
from pegboard.search.vectors.space import Space

__all__ = [
    "DEPTH",
    "EVERYTHING",
    "CandidateQuery",
    "Candidates",
    "Snapshot",
    "candidates_of_many",
    "union_of",
]

DEPTH = 64
"""How many of the best by words, and by meaning, are looked at closely."""
EVERYTHING = Filters()
# So many scores at once stay in the cache of the processor.
_SCORES_AT_ONCE = 500_000


class CandidateQuery(NamedTuple):
    """The arguments of `Snapshot.candidates`, for one of many queries."""

    words: Mapping[str, float]
    vectors: Floats | None = None
    where: Filters = EVERYTHING


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The tools that fit best by words or by meaning, in no order; the scores are exact."""

    snapshot: "Snapshot"
    rows: Longs
    lexical: Floats
    """How well the words fit; 0 when none does."""
    dense: Floats
    """How near the meaning is, -1 to 1; all 0 when the query has no vectors."""
    best_lexical: float
    best_dense: float
    coverage: float
    """How much of the query the words of the best tool cover, 0 to 1."""

    def __len__(self) -> int:
        return len(self.rows)

    def tool(self, position: int) -> Tool:
        """Return a candidate."""
        return self.snapshot.tool(int(self.rows[position]))

    def ranked(self, scores: Scores, limit: int) -> list[int]:
        """Return the positions with the best scores, best first; ties by the name of the tool."""
        return self.snapshot.ranked(self.rows, scores, limit)

    def in_order(self, scores: Scores, likely: int) -> Iterator[int]:
        """Yield all positions, best first; to order more than the likely ones takes longer."""
        yield from self.ranked(scores, likely)
        if likely < len(self):
            yield from self.ranked(scores, len(self))[likely:]


class Snapshot:
    """Tools as rows, in views one after the other."""

    def __init__(
        self,
        segments: Sequence[SegmentView],
        tail: TailView,
        *,
        space: Space | None,
        revision: int,
    ) -> None:
        self.revision = revision
        """The last change that is in it."""
        self.segments: tuple[SegmentView, ...] = tuple(segments)
        self.tail = tail
        parts: tuple[View, ...] = (*segments, tail)
        self.parts: tuple[View, ...] = tuple(view for view in parts if view.size)
        self._bases: list[int] = []
        self.size: int = 0
        for view in self.parts:
            self._bases.append(self.size)
            self.size += view.size
        self.views: tuple[tuple[int, View], ...] = tuple(zip(self._bases, self.parts, strict=True))
        self.space = space
        self._living = sum(view.living for view in self.parts)

    def __len__(self) -> int:
        return self._living

    @LazyProperty
    def barred(self) -> Longs:
        """The rows of tools that have gone."""
        dead = [view.dead_rows + base for base, view in self.views if len(view.dead_rows)]
        return np.concatenate(dead) if dead else NO_ROWS

    def tool(self, row: int) -> Tool:
        """Return the tool of a row."""
        part = bisect_right(self._bases, row) - 1
        return self.parts[part].tools[row - self._bases[part]]

    def tools(self) -> list[Tool]:
        """Return all tools, in no order."""
        gone = set(self.barred.tolist())
        return [self.tool(row) for row in range(self.size) if row not in gone]

    def matches(self, rows: Sequence[int], words: QueryWords) -> list[tuple[Match, ...]]:
        """Return for some rows the fields in which words of a query are found."""
        found: dict[int, tuple[Match, ...]] = {}
        for base, view in self.views:
            here = [row for row in rows if base <= row < base + view.size]
            if here:
                fields = view.fields_of([row - base for row in here], words.spelled)
                found.update(zip(here, (matches_of(it, words) for it in fields), strict=True))
        return [found[row] for row in rows]

    def names(self, rows: Longs) -> list[str]:
        """Return the names of the tools of some rows, ascending."""
        found: list[str] = []
        for base, view in self.views:
            first, last = np.searchsorted(rows, (base, base + view.size))
            tools = view.tools
            found.extend([tools[row].name for row in as_ints(rows[first:last] - base)])
        return found

    def rows_for(self, where: Filters) -> Longs | None:
        """Return the rows that filters admit, ascending; without filters nothing."""
        if not where:
            return None
        admitted = [view.admitted(where) for view in self.parts]
        return np.flatnonzero(np.concatenate(admitted)) if admitted else NO_ROWS

    def candidates(
        self,
        words: Mapping[str, float],
        vectors: Floats | None = None,
        *,
        where: Filters = EVERYTHING,
        depth: int = DEPTH,
    ) -> Candidates:
        """Return the tools that fit best, at least `depth` by each side if there are so many.

        Args:
            words: how much each term of the query counts.
            vectors: what the query means, as a whole, and then clause by clause.
            where: which tools count.
            depth: how many of the best by each side.
        """
        rows = self.rows_for(where)
        scores = score_words(self.terms, words)
        fitting = scores.best(depth, rows=rows, barred=self.barred)
        fitting = self.cut(fitting, scores.of(fitting), depth)
        if vectors is None or self.space is None or not self.size:
            return self.by_words(fitting, scores)
        near = nearest_rows(
            self.views,
            vectors,
            self.space,
            wanted=depth,
            rows=rows,
            barred=self.barred,
        )
        return self.by_both(fitting, scores, near, vectors, depth)

    @LazyProperty
    def terms(self) -> Terms:
        """What looks up terms here."""
        return Terms(self.views, size=self.size, living=len(self))

    def by_words(self, fitting: Longs, scores: WordScores) -> Candidates:
        """Return candidates that fit by words."""
        return self.with_scores(fitting, scores, np.zeros(len(fitting), np.float32))

    def by_both(
        self, fitting: Longs, scores: WordScores, near: Longs, query: Floats, depth: int
    ) -> Candidates:
        """Return the candidates of both sides: those that fit, and the best of those near."""
        rows = union_of(fitting, near)
        dense = nearness(self.views, query, rows)
        if len(near) > depth:
            near = self.cut(near, dense[np.searchsorted(rows, near)], depth)
            kept = np.zeros(len(rows), np.bool_)
            kept[np.searchsorted(rows, fitting)] = kept[np.searchsorted(rows, near)] = True
            rows, dense = rows[kept], dense[kept]
        return self.with_scores(rows, scores, dense)

    def cut(self, rows: Longs, scores: Scores, depth: int) -> Longs:
        """Return the rows with the best scores, ascending; ties by the name of the tool."""
        if len(rows) <= depth:
            return rows
        floor = nth_best(scores, depth)
        better = rows[scores > floor]
        tied = rows[scores == floor]
        left = depth - len(better)
        if left < len(tied):
            by_name = nsmallest(left, zip(self.names(tied), tied.tolist(), strict=True))
            tied = np.array([row for _, row in by_name], np.int64)
        return np.sort(np.concatenate((better, tied)))

    def ranked(self, rows: Longs, scores: Scores, limit: int) -> list[int]:
        """Return the positions of the best scores, best first; ties by the name of the tool."""
        if limit < 1 or not len(rows):
            return []
        positions = np.arange(len(rows))
        if limit < len(rows):
            positions = (scores >= nth_best(scores, limit)).nonzero()[0]
        lost = (-scores[positions]).tolist()
        names = [self.tool(row).name for row in as_ints(rows[positions])]
        ordered = sorted(zip(lost, names, positions.tolist(), strict=True))
        return [position for _, _, position in ordered[:limit]]

    def with_scores(self, rows: Longs, scores: WordScores, dense: Floats) -> Candidates:
        """Return rows as candidates."""
        lexical = scores.of(rows).astype(np.float32)
        best = float(lexical.max()) if len(rows) else 0.0
        return Candidates(
            snapshot=self,
            rows=rows,
            lexical=lexical,
            dense=dense,
            best_lexical=best,
            best_dense=float(dense.max()) if len(rows) else 0.0,
            coverage=min(1.0, best / scores.ceiling) if scores.ceiling else 0.0,
        )


def candidates_of_many(
    snapshot: Snapshot, queries: Sequence[CandidateQuery], *, depth: int = DEPTH
) -> list[Candidates]:
    """Return what `snapshot.candidates` would return for each query, but faster, in their order."""
    if not 0 < snapshot.size <= SMALL:
        return [
            snapshot.candidates(it.words, it.vectors, where=it.where, depth=depth) for it in queries
        ]
    alike: defaultdict[Filters, list[int]] = defaultdict(list)
    for number, query in enumerate(queries):
        alike[query.where].append(number)
    found: dict[int, Candidates] = {}
    terms = snapshot.terms
    at_once = max(1, _SCORES_AT_ONCE // snapshot.size)
    for where, numbers in alike.items():
        rows = snapshot.rows_for(where)
        for first in range(0, len(numbers), at_once):
            chunk = numbers[first : first + at_once]
            answers = _together(snapshot, terms, [queries[it] for it in chunk], rows, depth)
            found.update(zip(chunk, answers, strict=True))
    return [found[number] for number in range(len(queries))]


def union_of(some: Longs, others: Longs) -> Longs:
    """Return the rows that are in one or the other, ascending."""
    rows = np.sort(np.concatenate((some, others)))
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = rows[1:] != rows[:-1]
    return rows[fresh]


def _together(
    snapshot: Snapshot,
    terms: Terms,
    queries: Sequence[CandidateQuery],
    rows: Longs | None,
    depth: int,
) -> Iterator[Candidates]:
    scores, by_words = score_many(terms, [query.words for query in queries])
    scores[:, snapshot.barred] = 0
    if rows is None:
        fitting = best_in_each(scores, depth, above=0.0)
    else:
        fitting = [rows[it] for it in best_in_each(scores[:, rows], depth, above=0.0)]
    meant = [query.vectors for query in queries if query.vectors is not None]
    near: Iterator[Longs] = iter(())
    if meant and snapshot.space is not None:
        near = iter(
            nearest_of_many(
                snapshot.views,
                meant,
                snapshot.space,
                wanted=depth,
                rows=rows,
                barred=snapshot.barred,
            )
        )
    for query, words, found in zip(queries, by_words, fitting, strict=True):
        fits = snapshot.cut(found, words.of(found), depth)
        if query.vectors is None or snapshot.space is None:
            yield snapshot.by_words(fits, words)
        else:
            yield snapshot.by_both(fits, words, next(near), query.vectors, depth)
