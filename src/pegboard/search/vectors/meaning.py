"""Embeddings of tools and queries: the sums of the word vectors of the shipped table."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pegboard.search.text.fields import ToolText
from pegboard.search.text.postings import Floats, Longs, gather
from pegboard.search.text.tool_runs import MEANT, PIECES, read_once
from pegboard.search.text.words import SEPARATOR, Word, clauses_of, runs_of, split_runs
from pegboard.search.vectors.space import Space
from pegboard.search.word_table import WordTable, open_table

__all__ = ["QueryMeaning", "QueryWord", "WordMeaning", "open_meaning"]

_MAX_QUERY_CHARACTERS = 8_192
_MAX_QUERY_WORDS = 512
_MAX_TIMES = 16


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
        self._rows_of_word = lru_cache(8_192)(table.find)
        self._rows_of_run = lru_cache(8_192)(self._find_rows)
        self._words_of_run = lru_cache(8_192)(self._find_words)
        self._width = table.vectors.shape[1]
        self._pieces = {part: np.isin(list(PIECES), MEANT.get(part, ())) for part in table.fields}
        """Which pieces make up each part of a tool."""
        self.space: Space = Space(table.centroids, table.directions)
        """Where tools are by their vectors."""

    @property
    def version(self) -> str:
        """Differs where the same tool would get another vector."""
        return self.table.version

    def of_tools(self, texts: Sequence[ToolText]) -> Floats:
        """Return a unit row for each tool; zeros for what means nothing."""
        read = read_once(texts)
        find = self._rows_of_word
        found = [[row for word in words for row in find(word.plain)] for words in read.words]
        starts = np.cumsum([0, *map(len, found)])
        rows = np.array([row for some in found for row in some], np.int64)
        total = np.zeros((len(texts), self._width), np.float32)
        first = 0
        for chunk in read.chunks:
            where, counts = gather(starts, chunk.runs)
            cells = np.repeat(chunk.cells, counts)
            self._add_parts(total[first : first + chunk.size], rows[where], cells)
            first += chunk.size
        return _unit(total)

    def of_query(self, text: str) -> QueryMeaning:
        """Return what a query means."""
        text = text[:_MAX_QUERY_CHARACTERS]
        whole, *clauses = _by_text(runs_of([text, *clauses_of(text)]))
        words = self._query_words(whole)
        if not words:
            return QueryMeaning(np.zeros((0, len(self.table.turn)), np.float32), ())
        counts = [[min(word.times, _MAX_TIMES) for word in words]]
        places = {word.row: place for place, word in enumerate(words)}
        for clause in clauses:
            rows = [row for run in clause for row in self._rows_of_run(run) if row in places]
            if rows:
                counts.append(_counted([places[row] for row in rows], len(words)))
        # One clause that is the whole text says nothing new.
        shares = np.array(counts if len(counts) > 2 else counts[:1], np.float32)
        rows = np.array(list(places), np.int64)
        shares *= self.table.query_weights[rows]
        vectors = self.table.vectors.take(rows, axis=0).astype(np.float32)
        turned = np.matmul(shares @ vectors, self.table.turn, dtype=np.float32)
        return QueryMeaning(_unit(turned), words)

    def _query_words(self, runs: Sequence[str]) -> tuple[QueryWord, ...]:
        met = [word for run in runs for word in self._words_of_run(run)]
        found: dict[int, QueryWord] = {}
        times: dict[int, int] = {}
        for word in met:
            row = word.row
            if row in found:
                times[row] = times.get(row, 1) + 1
            elif len(found) < _MAX_QUERY_WORDS:
                found[row] = word
        for row, count in times.items():
            found[row] = QueryWord(*found[row][:-1], count)
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

    def _add_parts(self, total: Floats, rows: Longs, cells: Longs) -> None:
        """Add the parts of some tools to what they mean.

        Args:
            total: what each tool means.
            rows: the words of all pieces of all tools;
            cells: to which piece each belongs.
        """
        used, words = np.unique(rows, return_inverse=True)
        vectors = self.table.vectors[used].astype(np.float32)
        vectors *= self.table.weights[used, None]
        tools, pieces = np.divmod(cells, len(PIECES))
        chosen = [counting[pieces] for counting in self._pieces.values()]
        lengths = [np.bincount(tools[it], minlength=len(total)) for it in chosen]
        sums = _sums(vectors, np.concatenate([words[it] for it in chosen]), np.concatenate(lengths))
        parts = np.split(_unit(sums), len(self._pieces))
        for part, weight in zip(parts, self.table.fields.values(), strict=True):
            total += part * np.float32(weight)


def open_meaning() -> WordMeaning:
    """Return what words mean by the shipped table, or by that which the environment names.

    Raises:
        SearchDataError: when there is none, or it is damaged.
    """
    return WordMeaning(open_table())


def _sums(vectors: Floats, words: Longs, lengths: Longs) -> Floats:
    """Return the sum of the vectors of the words of each text, one word after the other.

    The texts are as long as they are told to be. All first words are added at once, then all
    second ones: so a sum does not depend on what other texts there are.
    """
    order = np.argsort(-lengths, kind="stable")
    places = (np.cumsum(lengths) - lengths)[order]
    longest = int(lengths[order[0]])
    sums = np.zeros((len(order), vectors.shape[1]), np.float32)
    having = np.searchsorted(-lengths[order], -np.arange(longest), "left")
    for step, texts in enumerate(having.tolist()):
        sums[:texts] += vectors.take(words[places[:texts] + step], axis=0)
    found = np.empty_like(sums)
    found[order] = sums
    return found


def _unit(rows: Floats) -> Floats:
    lengths = np.sqrt(np.vecdot(rows, rows))
    lengths[lengths == 0] = 1
    return rows / lengths[:, None]


def _by_text(runs: Sequence[str]) -> list[list[str]]:
    """Return the runs of each text."""
    found: list[list[str]] = [[]]
    for run in runs:
        if run == SEPARATOR:
            found.append([])
        else:
            found[-1].append(run)
    return found


def _counted(places: Sequence[int], size: int) -> list[int]:
    counts = [0] * size
    for place in places:
        counts[place] += 1
    return counts


def _split(run: str) -> tuple[Word, ...]:
    [words] = split_runs([run])
    return words
