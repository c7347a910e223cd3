"""Postings: which words each tool has, and the BM25F impact of each word."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pegboard.search.text.fields import FIELDS, ToolText
from pegboard.search.text.tool_runs import PIECES, RunChunk, ToolRuns, read_once

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

# A key has the row above the term above the field: sorted, each row has its terms together, and
# each term its fields.
_FIELD_BITS = 3
_TERM_BITS = 37
_TERM_MASK = (1 << _TERM_BITS) - 1
_NO_FIELDS = np.zeros(0, np.uint8)
_FIELD_OF_PIECE = np.array([list(FIELDS).index(field) for field in PIECES.values()])
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
    read = read_once(texts)
    table = _RunTable(read)
    parts = [_weigh_chunk(chunk, table) for chunk in read.chunks]
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
    parts = [*parts] or [nothing]
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum(np.concatenate([np.diff(part.starts) for part in parts]))
    return Postings(
        vocabulary,
        np.concatenate(([0], ends)),
        np.concatenate([part.terms for part in parts]),
        np.concatenate([part.impacts for part in parts]),
        np.concatenate([part.fields for part in parts]),
    )


class _RunTable:
    """The terms of each run, by number."""

    def __init__(self, read: ToolRuns) -> None:
        known: dict[str, int] = {}
        ends, terms, idle, whole = [0], list[int](), list[bool](), list[bool]()
        for words in read.words:
            for word in words:
                terms.append(known.setdefault(word.term, len(known)))
                idle.append(word.idle)
                whole.append(word.plain != "")
            ends.append(len(terms))
        self.vocabulary = known
        self.starts = np.array(ends, np.int64)
        self.terms = np.array(terms, np.int64)
        self.idle = np.array(idle, np.bool_)
        self.whole = np.array(whole, np.bool_)


def _weigh_chunk(chunk: RunChunk, table: _RunTable) -> Postings:
    """Return the words of some tools."""
    size = chunk.size
    where, counts = gather(table.starts, chunk.runs)
    rows, pieces = np.divmod(np.repeat(chunk.cells, counts), len(PIECES))
    fields = _FIELD_OF_PIECE[pieces]
    telling = ~(table.idle[where] & _PROSE[fields])
    where, fields, rows = where[telling], fields[telling], rows[telling]
    # Characters of Chinese words make no text longer: the words are counted already.
    counted = (rows * len(FIELDS) + fields)[table.whole[where]]
    lengths = np.bincount(counted, minlength=size * len(FIELDS)).reshape(size, -1)
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
