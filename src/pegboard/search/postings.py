"""Postings: which words a tool has, and how much each of them says about it."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import count
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pegboard.search.fields import FIELDS, ToolText
from pegboard.search.words import SEPARATOR, runs_of, split_runs

__all__ = [
    "HIGHEST_IMPACT",
    "Bools",
    "Doubles",
    "Floats",
    "Ints",
    "Longs",
    "Postings",
    "Scores",
    "as_ints",
    "gather",
    "join_postings",
    "weigh",
]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Scores = NDArray[np.floating]

AScalar = TypeVar("AScalar", bound=np.generic)

_SATURATION = 1.2
HIGHEST_IMPACT = _SATURATION + 1
"""More than this no word can say."""

# Fewer at once take more steps, more take more memory.
_WEIGHED_AT_ONCE = 2_048
# A key has the row above the term above the field: sorted, each row has its terms together, and
# each term its fields.
_FIELD_BITS = 3
_TERM_BITS = 37
_TERM_MASK = (1 << _TERM_BITS) - 1
_NO_FIELDS = np.zeros(0, np.uint8)
_PROSE = np.array([field.prose for field in FIELDS.values()])
_WEIGHTS = np.array([field.weight for field in FIELDS.values()])
_SLOPES = np.array([field.slope for field in FIELDS.values()])
_USUAL = np.array([field.usual for field in FIELDS.values()])


class Postings(NamedTuple):
    """The words of some tools, tool by tool."""

    vocabulary: dict[str, int]
    starts: Longs
    """Where the words of each tool begin; one more, where the last ones end."""
    terms: Ints
    impacts: Floats
    """How much a word says about its tool: it depends on this tool alone."""
    fields: NDArray[np.uint8]
    """In which fields the tool has the word: a bit for each."""

    def of_rows(self, rows: Longs) -> "Postings":
        """Return the words of some of the tools, in the given order; numbers stay as they are."""
        where, counts = gather(self.starts, rows)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return Postings(
            self.vocabulary, starts, self.terms[where], self.impacts[where], self.fields[where]
        )

    def without_idle_terms(self) -> "Postings":
        """Return the same with only those terms in the vocabulary that some tool has."""
        used = np.bincount(self.terms, minlength=len(self.vocabulary)) > 0
        if used.all():
            return self
        numbers = np.cumsum(used) - 1
        kept = zip(self.vocabulary, used.tolist(), numbers.tolist(), strict=True)
        vocabulary = {term: number for term, is_used, number in kept if is_used}
        terms = numbers[self.terms].astype(np.int32)
        return self._replace(vocabulary=vocabulary, terms=terms)


def weigh(texts: Sequence[ToolText]) -> Postings:
    """Return the words of tools with their impacts."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    between = numbers[SEPARATOR]
    runs: list[tuple[int, Longs]] = []
    for first in range(0, len(texts), _WEIGHED_AT_ONCE):
        chunk = texts[first : first + _WEIGHED_AT_ONCE]
        found = runs_of([getattr(text, name) for name in FIELDS for text in chunk])
        runs.append((len(chunk), np.fromiter(map(numbers.__getitem__, found), np.int64)))
    table = _RunTable(numbers)
    parts = [_weigh_chunk(chunk, chunk == between, table, size) for size, chunk in runs]
    return _one_after_the_other(table.vocabulary, parts)


def join_postings(parts: Sequence[Postings]) -> Postings:
    """Return the words of the tools of several postings, one after the other."""
    vocabulary: dict[str, int] = {}
    renumbered: list[Postings] = []
    for part in parts:
        numbers = [vocabulary.setdefault(term, len(vocabulary)) for term in part.vocabulary]
        terms = np.array(numbers, np.int32)[part.terms]
        renumbered.append(part._replace(terms=terms))
    return _one_after_the_other(vocabulary, renumbered)


def as_ints(numbers: NDArray[np.integer]) -> list[int]:
    """Return numbers as Python has them, for its own sequences."""
    return numbers.tolist()


def gather(starts: Longs, rows: Longs) -> tuple[Longs, Longs]:
    """Return where the entries of some rows are, one after the other, and how many each has."""
    first = starts[rows]
    counts = starts[rows + 1] - first
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - ends + counts, counts) + np.arange(total), counts


def _one_after_the_other(vocabulary: dict[str, int], parts: Sequence[Postings]) -> Postings:
    """Join parts whose terms are numbered by the vocabulary."""
    nothing = Postings(
        {}, np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), _NO_FIELDS
    )
    parts = [nothing, *parts]
    ends = np.cumsum(np.concatenate([np.diff(part.starts) for part in parts]))
    return Postings(
        vocabulary,
        np.concatenate((nothing.starts, ends)),
        np.concatenate([part.terms for part in parts]),
        np.concatenate([part.impacts for part in parts]),
        np.concatenate([part.fields for part in parts]),
    ).without_idle_terms()


class _RunTable:
    """The terms of each run, by number."""

    def __init__(self, runs: Collection[str]) -> None:
        known: dict[str, int] = {}
        ends, terms, idle = [0], list[int](), list[bool]()
        for words in split_runs(runs):
            for word in words:
                terms.append(known.setdefault(word.term, len(known)))
                idle.append(word.idle)
            ends.append(len(terms))
        self.vocabulary = known
        self.starts = np.array(ends, np.int64)
        self.terms = np.array(terms, np.int64)
        self.idle = np.array(idle, np.bool_)


def _weigh_chunk(runs: Longs, between: Bools, table: _RunTable, size: int) -> Postings:
    """Return the words of some tools.

    Args:
        runs: of the first field of all tools, then of the next;
        between: where a text ends and another begins.
        table: what the runs are.
        size: how many tools there are.
    """
    where, counts = gather(table.starts, runs)
    cells = np.repeat(np.cumsum(between), counts)
    fields, rows = np.divmod(cells, size)
    telling = ~(table.idle[where] & _PROSE[fields])
    where, fields, rows = where[telling], fields[telling], rows[telling]
    lengths = np.bincount(cells[telling], minlength=len(FIELDS) * size).reshape(-1, size).T
    shares = _WEIGHTS / (1 - _SLOPES + _SLOPES * lengths / _USUAL)
    keys = np.sort((((rows << _TERM_BITS) | table.terms[where]) << _FIELD_BITS) | fields)
    first = _first_of_each(keys)
    times = np.concatenate((first[1:], [len(keys)])) - first
    keys = keys[first]
    fields = keys & ((1 << _FIELD_BITS) - 1)
    keys >>= _FIELD_BITS
    rows = keys >> _TERM_BITS
    first = _first_of_each(keys)
    weights = _reduced(np.add, times * shares[rows, fields], first)
    return Postings(
        table.vocabulary,
        np.searchsorted(rows[first], np.arange(size + 1)),
        (keys[first] & _TERM_MASK).astype(np.int32),
        (weights * HIGHEST_IMPACT / (_SATURATION + weights)).astype(np.float32),
        _reduced(np.bitwise_or, np.left_shift(1, fields).astype(np.uint8), first),
    )


def _reduced(reduce: np.ufunc, values: NDArray[AScalar], first: Longs) -> NDArray[AScalar]:
    return cast("NDArray[AScalar]", reduce.reduceat(values, first)) if len(first) else values


def _first_of_each(keys: Longs) -> Longs:
    fresh = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return np.flatnonzero(fresh)
