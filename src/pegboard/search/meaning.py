"""What tools and queries mean, as vectors: the sum of what their words mean."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np

from pegboard.search.clauses import clauses_of
from pegboard.search.fields import ToolText
from pegboard.search.postings import Floats, Longs, gather
from pegboard.search.word_table import WordTable, open_table
from pegboard.search.words import SEPARATOR, Word, runs_of, split_runs

__all__ = ["QueryMeaning", "QueryWord", "WordMeaning", "open_meaning"]

_MAX_QUERY_CHARACTERS = 32_768
_MAX_QUERY_WORDS = 512
_MAX_TIMES = 16
_SUMMED_AT_ONCE = 4_096
_FIRST_SENTENCE = re.compile(r"(.{10,}?(?:[.!?\n](?=\s|$)|。))", re.DOTALL)
# How much of each text counts.
_CUTS = {"description": 400, "first": 200, "parameters": 400, "details": 600}


class QueryWord(NamedTuple):
    """A word of a query whose meaning is known."""

    plain: str
    terms: tuple[str, ...]
    """As the index may know it."""
    row: int
    weight: float
    """How much it says about the tool that is looked for."""
    times: int


class QueryMeaning(NamedTuple):
    """What a query means."""

    vectors: Floats
    """Unit rows: the whole query, then its clauses; empty when nothing in it is known."""
    words: tuple[QueryWord, ...]


class WordMeaning:
    """Adds up the vectors of words.

    Args:
        table: what words mean.
    """

    def __init__(self, table: WordTable) -> None:
        self.table = table
        self._rows_of_run = lru_cache(65_536)(self._find_rows)
        self._words_of_run = lru_cache(8_192)(self._find_words)
        self.centroids: Floats = table.centroids
        """What regions there are; tools are filed under the nearest."""

    @property
    def version(self) -> str:
        """Differs where the same tool would get another vector."""
        return self.table.version

    def of_tools(self, texts: Sequence[ToolText]) -> Floats:
        """Return a unit row for each tool; zeros for what means nothing."""
        total = np.zeros((len(texts), self.table.vectors.shape[1]), np.float32)
        for field, weight in self.table.fields.items():
            column = [_part(text, field) for text in texts]
            if any(column):
                total += np.float32(weight) * _unit(self._sums(column))
        return _unit(total)

    def of_query(self, text: str) -> QueryMeaning:
        """Return what a query means."""
        text = text[:_MAX_QUERY_CHARACTERS]
        words = self._query_words(text)
        if not words:
            return QueryMeaning(np.zeros((0, len(self.table.turn)), np.float32), ())
        texts = [[word.row for word in words for _ in range(min(word.times, _MAX_TIMES))]]
        for clause in clauses_of(text):
            rows = [row for run in runs_of([clause]) for row in self._rows_of_run(run)]
            if rows:
                texts.append(rows[:_MAX_QUERY_WORDS])
        rows = np.array([row for rows in texts for row in rows], np.int64)
        vectors = self.table.vectors.take(rows, axis=0).astype(np.float32)
        vectors *= self.table.query_weights[rows, None]
        begins = np.cumsum([0, *(len(rows) for rows in texts[:-1])])
        vectors = _unit(np.add.reduceat(vectors, begins, axis=0) @ self.table.turn)
        # One clause that is the whole text says nothing new.
        return QueryMeaning(vectors if len(vectors) > 2 else vectors[:1], words)

    def _query_words(self, text: str) -> tuple[QueryWord, ...]:
        found: dict[int, QueryWord] = {}
        for run in runs_of([text]):
            for word in self._words_of_run(run):
                known = found.get(word.row)
                if known is not None:
                    found[word.row] = known._replace(times=known.times + 1)
                elif len(found) < _MAX_QUERY_WORDS:
                    found[word.row] = word
        return tuple(found.values())

    def _find_words(self, run: str) -> tuple[QueryWord, ...]:
        """Return the known words of a run."""
        found: list[QueryWord] = []
        terms: list[str] = []
        for word in reversed(_split(run)):
            terms.append(word.term)
            # Characters of a word come after it, and count as the same word.
            if word.plain:
                for row in self.table.find(word.plain):
                    weight = float(self.table.importance[row])
                    found.append(QueryWord(word.plain, tuple(terms), row, weight, 1))
                terms = []
        return tuple(reversed(found))

    def _find_rows(self, run: str) -> tuple[int, ...]:
        return tuple(row for word in _split(run) for row in self.table.find(word.plain))

    def _sums(self, column: list[str]) -> Floats:
        """Return the sum of the words of each text."""
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        between = numbers[SEPARATOR]
        runs = runs_of(column)
        ids = np.fromiter(map(numbers.__getitem__, runs), np.int64, len(runs))
        rows_of = [() if it == SEPARATOR else self._rows_of_run(it) for it in numbers]
        starts = np.cumsum([0, *map(len, rows_of)])
        known = np.array([row for rows in rows_of for row in rows], np.int64)
        where, counts = gather(starts, ids)
        rows, texts = known[where], np.repeat(np.cumsum(ids == between), counts)
        sums = np.zeros((len(column), self.table.vectors.shape[1]), np.float32)
        for first, last in _stretches(texts):
            here = self.table.vectors[rows[first:last]].astype(np.float32)
            here *= self.table.weights[rows[first:last], None]
            begins = np.flatnonzero(np.diff(texts[first:last], prepend=-1))
            sums[texts[first:last][begins]] = np.add.reduceat(here, begins, axis=0)
        return sums


def open_meaning() -> WordMeaning:
    """Return what words mean by the shipped table, or by that which the environment names.

    Raises:
        SearchDataError: when there is none, or it is damaged.
    """
    return WordMeaning(open_table())


def _part(text: ToolText, field: str) -> str:
    if field == "first":
        found = _FIRST_SENTENCE.match(text.description)
        return (found[1] if found else text.description)[: _CUTS[field]]
    whole: str = getattr(text, field)
    return whole[: _CUTS.get(field)]


def _stretches(texts: Longs) -> Iterator[tuple[int, int]]:
    """Yield where so many words begin and end as are added up at once; no text is cut."""
    first = 0
    while first < len(texts):
        last = first + _SUMMED_AT_ONCE
        if last < len(texts):
            here = texts[last : last + 1]
            [begin], [end] = (np.searchsorted(texts, here, side) for side in ("left", "right"))
            last = int(begin if begin > first else end)
        yield first, min(last, len(texts))
        first = last


def _unit(rows: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def _split(run: str) -> tuple[Word, ...]:
    [words] = split_runs([run])
    return words
