"""Tail: the append-only part of the index with the newest tools."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from pegboard.model import Tool
from pegboard.search.index.segment import Segment, build_segment
from pegboard.search.text.postings import Floats, Ints, Postings, as_ints, join_postings
from pegboard.search.vectors.space import ToolVectors

__all__ = ["Tail"]


class Tail:
    """Tools in rows, in the order of arrival. A reader looks only at the rows that it knows of.

    One writer at a time. It adds rows in full before it publishes the new size.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tools: list[Tool] = []
        self.rows_by_name: dict[str, int] = {}
        """The last row of each name; only for the writer."""
        self.fields: list[dict[str, int]] = []
        """In which fields each row has its terms: a bit for each."""
        self._rows: dict[str, list[int]] = {}
        self._impacts: dict[str, list[float]] = {}
        self._postings: list[Postings] = []
        self._meaning: ToolVectors | None = None

    def append(
        self, tools: Sequence[Tool], postings: Postings, meaning: ToolVectors | None
    ) -> None:
        """Add tools for which there is room."""
        first = len(self.tools)
        if meaning is not None:
            self._keep(meaning, slice(first, first + len(tools)))
        terms = list(postings.vocabulary)
        starts, numbers = as_ints(postings.starts), as_ints(postings.terms)
        fields, impacts = as_ints(postings.fields), postings.impacts.tolist()
        for offset, tool in enumerate(tools):
            known: dict[str, int] = {}
            for entry in range(starts[offset], starts[offset + 1]):
                term = terms[numbers[entry]]
                known[term] = fields[entry]
                # The impact first: a reader that sees the row finds its impact.
                self._impacts.setdefault(term, []).append(impacts[entry])
                self._rows.setdefault(term, []).append(first + offset)
            self.fields.append(known)
            self.rows_by_name[tool.name] = first + offset
        self._postings.append(postings)
        self.tools.extend(tools)

    def find(self, term: str, size: int) -> tuple[Ints, Floats] | None:
        """Return which of the first rows have a term, and how much it says about each."""
        rows = self._rows.get(term)
        if rows is None:
            return None
        end = bisect_left(rows, size)
        if not end:
            return None
        return np.array(rows[:end], np.int32), np.array(self._impacts[term][:end], np.float32)

    def meaning(self, size: int) -> ToolVectors | None:
        """Return what the first rows mean."""
        return None if self._meaning is None else _first(self._meaning, size)

    def as_segment(self, rows: Sequence[int]) -> Segment:
        """Lay out some of the rows for good."""
        kept = np.array(rows, np.int64)
        meaning = self.meaning(len(self.tools))
        return build_segment(
            [self.tools[row] for row in rows],
            join_postings(self._postings).of_rows(kept),
            None if meaning is None else meaning.of_rows(kept),
        )

    def _keep(self, meaning: ToolVectors, rows: slice) -> None:
        if self._meaning is None:
            vectors, coarse = _room(meaning.vectors, self.capacity), meaning.coarse
            coarse = vectors if coarse is meaning.vectors else _room(coarse, self.capacity)
            self._meaning = ToolVectors(
                vectors, coarse, np.zeros(self.capacity, np.int64), meaning.regions
            )
        self._meaning.vectors[rows] = meaning.vectors
        self._meaning.coarse[rows] = meaning.coarse
        self._meaning.centroids[rows] = meaning.centroids


def _room(like: Floats, capacity: int) -> Floats:
    return np.zeros((capacity, like.shape[1]), np.float32)


def _first(meaning: ToolVectors, size: int) -> ToolVectors:
    vectors = meaning.vectors[:size]
    coarse = vectors if meaning.coarse is meaning.vectors else meaning.coarse[:size]
    return ToolVectors(vectors, coarse, meaning.centroids[:size], meaning.regions)
