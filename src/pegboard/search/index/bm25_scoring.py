"""BM25F scoring: exact scores of tools for the words of a query, reading as few rows as needed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from pegboard.search.index.view import TermRows, View
from pegboard.search.ranking import best_positions, floor_of_best
from pegboard.search.text.postings import HIGHEST_IMPACT, Doubles, Floats, Longs

__all__ = ["Terms", "WordScores", "score_many", "score_words"]

# So many rows of terms, or this share of all rows, are simply added up; beyond, terms that cannot
# decide are left for the end. To find out whether they can costs as much as this share.
MANY_ROWS = 40_000
SHARE = 4
# To look up one row in a term takes as long as to add up this many.
DEARER = 16
# How many terms are cached; queries may contain any word.
_MOST_CACHED = 50_000
# What float32 may lose in a sum of bounds.
_SLACK = 1e-4
_NOTHING: Doubles = np.zeros(0)


class Term(NamedTuple):
    """A term that some tools have."""

    rarity: float
    """How much it tells that a tool has it."""
    peak: float
    """The largest of its impacts."""
    spans: list[tuple[int, TermRows]]
    """The rows of each view that have it, with the number of the view's first row."""
    length: int
    """How many rows that are, dead ones too."""


FEW_TOOLS = 20
"""Words count as much among fewer tools as they would among so many."""

Weighed = tuple[Term, float]
"""A term of a query, and how much it counts."""


class Terms:
    """Looks terms up in the views of a snapshot, with a cache.

    Args:
        views: what is searched, each with the number of its first row.
        size: how many rows there are.
        living: how many tools there are.
    """

    def __init__(self, views: Sequence[tuple[int, View]], *, size: int, living: int) -> None:
        # Among two or three tools every word is frequent, and that says nothing about the word.
        living = max(living, FEW_TOOLS)
        self.size = size
        self.unknown: float = 0.5 * math.log(1 + (living + 0.5) / 0.5)
        """How much it tells that no tool has a term."""
        self._views = views
        self._living = living
        self._known: dict[str, Term | None] = {}

    def find(self, word: str) -> Term | None:
        """Return a term, if any tool has it."""
        try:
            return self._known[word]
        except KeyError:
            if len(self._known) >= _MOST_CACHED:
                self._known = {}
            term = self._known[word] = self._look_up(word)
            return term

    def has_any(self, words: Iterable[str]) -> bool:
        """Tell whether any tool has one of these terms."""
        for word in words:  # noqa: SIM110 - a generator costs more than what it yields
            if self.find(word) is not None:
                return True
        return False

    def _look_up(self, word: str) -> Term | None:
        spans: list[tuple[int, TermRows]] = []
        length = having = 0
        peak = 0.0
        for base, view in self._views:
            found = view.find(word)
            if found is not None:
                spans.append((base, found))
                length += len(found.rows)
                having += found.living
                peak = max(peak, found.peak)
        if not having:
            return None
        rarity = math.log(1 + (self._living - having + 0.5) / (having + 0.5))
        return Term(rarity, peak, spans, length)


class WordScores:
    """The scores of all tools for the words of one query."""

    def __init__(
        self, size: int, ceiling: float, *, left: Sequence[Weighed] = (), partial: Doubles
    ) -> None:
        self.ceiling = ceiling
        """What a tool would score that had every word of the query and nothing else."""
        self._size = size
        self._partial = partial
        """What the scores are without the terms that are left; empty means nothing so far."""
        self._left = left

    def best(self, wanted: int, *, rows: Longs | None, barred: Longs) -> Longs:
        """Return at least so many of the best rows, if so many have any of the words.

        Args:
            wanted: how many.
            rows: only these count; without it all do,
            barred: except these.
        """
        budget = max(MANY_ROWS, self._size // SHARE)
        while self._left:
            self._add_up(budget)
            self._partial[barred] = 0
            counting = self._partial if rows is None else self._partial[rows]
            if self._left and len(counting) >= wanted:
                rest = sum(term.peak * weight for term, weight in self._left) + _SLACK
                floor = float(floor_of_best(counting, wanted))
                # Who has none of the words so far cannot come among the best any more.
                found = np.flatnonzero(counting >= floor - rest) if floor > rest else None
                if found is not None and self._worth_looking_up(len(found)):
                    found = found if rows is None else rows[found]
                    return found[best_positions(self.of(found), wanted)]
            budget *= 2
        if not len(self._partial):
            return np.zeros(0, np.int64)
        counting = self._partial if rows is None else self._partial[rows]
        found = best_positions(counting, wanted, above=0.0)
        return found if rows is None else rows[found]

    def of(self, rows: Longs) -> Doubles:
        """Return the scores of some rows, ascending."""
        if not len(self._partial):
            return np.zeros(len(rows))
        scores = self._partial[rows]
        for term, weight in self._left:
            for base, found in term.spans:
                scores += _impacts_of(found, rows, base) * np.float32(weight)
        return scores

    def _worth_looking_up(self, count: int) -> bool:
        """Tell whether to look up so many rows in the terms that are left is the shorter way."""
        return count * len(self._left) * DEARER <= sum(term.length for term, _ in self._left)

    def _add_up(self, budget: int) -> None:
        """Add the next terms to the scores, until so many rows have been looked at."""
        spans: list[tuple[int, TermRows]] = []
        weights: list[float] = []
        spent = done = 0
        left = sum([term.length for term, _ in self._left])
        for term, weight in self._left:
            if done and spent + term.length > budget and left - spent > budget // 2:
                break
            spans += term.spans
            weights += [weight] * len(term.spans)
            spent += term.length
            done += 1
        self._left = self._left[done:]
        added = _added_up(spans, weights, self._size)
        if len(self._partial):
            added += self._partial
        self._partial = added


def score_words(terms: Terms, words: Mapping[str, float]) -> WordScores:
    """Prepare the scores of a query, by how much each of its words counts."""
    left: list[Weighed] = []
    ceiling = 0.0
    for word, share in words.items():
        term = terms.find(word)
        weight = share * (terms.unknown if term is None else term.rarity)
        ceiling += weight
        if term is not None:
            left.append((term, weight))
    # Rare words first: they decide, and have few rows.
    left.sort(key=lambda it: it[0].length)
    return WordScores(terms.size, ceiling * HIGHEST_IMPACT, left=left, partial=_NOTHING)


def score_many(
    terms: Terms, queries: Sequence[Mapping[str, float]]
) -> tuple[Doubles, list[WordScores]]:
    """Return the scores of all rows for each of some queries, all at once; dead rows have some."""
    spans: list[tuple[int, TermRows]] = []
    weights: list[float] = []
    ceilings: list[float] = []
    for number, words in enumerate(queries):
        first = number * terms.size
        ceiling = 0.0
        for word, share in words.items():
            term = terms.find(word)
            weight = share * (terms.unknown if term is None else term.rarity)
            ceiling += weight
            if term is not None:
                for base, found in term.spans:
                    spans.append((first + base, found))
                    weights.append(weight)
        ceilings.append(ceiling * HIGHEST_IMPACT)
    size = (len(queries), terms.size)
    scores = _added_up(spans, weights, math.prod(size)).reshape(size)
    return scores, [
        WordScores(terms.size, ceiling, partial=partial)
        for ceiling, partial in zip(ceilings, scores, strict=True)
    ]


def _added_up(
    spans: Sequence[tuple[int, TermRows]], weights: Sequence[float], size: int
) -> Doubles:
    """Return the scores that so many rows get from terms."""
    if not spans:
        return np.zeros(size)
    lengths = [len(found.rows) for _, found in spans]
    values = np.concatenate([found.impacts for _, found in spans])
    values *= np.repeat(np.array(weights, np.float32), lengths)
    rows = np.concatenate([found.rows for _, found in spans]).astype(np.int64)
    if any(base for base, _ in spans):
        rows += np.repeat([base for base, _ in spans], lengths)
    return cast("Doubles", np.bincount(rows, values, size))


def _impacts_of(found: TermRows, rows: Longs, base: int) -> Floats:
    # In the type of the rows: otherwise all of them would be converted for each search.
    wanted = (rows - base).astype(np.int32)
    places = np.minimum(np.searchsorted(found.rows, wanted), len(found.rows) - 1)
    return np.where(found.rows[places] == wanted, found.impacts[places], np.float32(0))
