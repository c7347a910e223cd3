"""View: a segment or tail of the index as it was at one moment, without the removed tools."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pegboard.model import Tool
from pegboard.search.index.segment import Segment
from pegboard.search.index.tail import Tail
from pegboard.search.text.postings import Bools, Floats, Ints, Longs, as_ints, gather
from pegboard.search.vectors.space import ToolVectors

__all__ = ["Filters", "SegmentView", "TailView", "TermRows", "View"]

NO_ROWS: Longs = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which tools count: of one of these servers, categories and tags; empty means any."""

    servers: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.servers or self.categories or self.tags)

    def admit(self, tool: Tool) -> bool:
        """Tell whether a tool counts."""
        return (
            (not self.servers or tool.server in self.servers)
            and (not self.categories or tool.category in self.categories)
            and (not self.tags or not self.tags.isdisjoint(tool.tags))
        )


class TermRows(NamedTuple):
    """The rows of one view that have a term, dead ones too."""

    rows: Ints
    impacts: Floats
    peak: float
    """The largest of the impacts."""
    living: int
    """How many of the rows live."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentView:
    """A segment without its dead rows."""

    segment: Segment
    size: int
    alive: Bools | None = None
    """Without it, all rows live."""
    dead_rows: Longs = field(default_factory=lambda: NO_ROWS)
    dead_postings: Ints | None = None
    """How many of the rows of each term are dead."""

    @property
    def tools(self) -> list[Tool]:
        """The tools, by row."""
        return self.segment.tools

    @property
    def living(self) -> int:
        """How many tools there are."""
        return self.size - len(self.dead_rows)

    @property
    def meaning(self) -> ToolVectors | None:
        """What the rows mean."""
        return self.segment.meaning

    @property
    def region_sizes(self) -> Longs | int:
        """How many living rows are in each region."""
        bounds, meaning = self.segment.region_bounds, self.segment.meaning
        if bounds is None or meaning is None:
            return 0
        sizes = np.diff(bounds)
        if len(self.dead_rows):
            sizes -= np.bincount(meaning.centroids[self.dead_rows], minlength=meaning.regions)
        return sizes

    def row_of(self, name: str) -> int | None:
        """Return the row of a tool that is here and lives."""
        row = self.segment.rows_by_name.get(name)
        return row if row is not None and (self.alive is None or self.alive[row]) else None

    def without(self, rows: Sequence[int]) -> "SegmentView":
        """Return the view after some living rows have gone."""
        gone = np.array(rows, np.int64)
        alive = np.ones(self.size, np.bool_) if self.alive is None else self.alive.copy()
        alive[gone] = False
        postings = self.segment.postings
        if self.dead_postings is None:
            dead_postings = np.zeros(len(postings.vocabulary), np.int32)
        else:
            dead_postings = self.dead_postings.copy()
        where, _ = gather(postings.starts, gone)
        np.add.at(dead_postings, postings.terms[where], 1)
        return replace(
            self,
            alive=alive,
            dead_rows=np.concatenate((self.dead_rows, gone)),
            dead_postings=dead_postings,
        )

    def find(self, term: str) -> TermRows | None:
        """Return the rows that have a term."""
        segment = self.segment
        number = segment.postings.vocabulary.get(term)
        if number is None:
            return None
        first, last = segment.bounds[number], segment.bounds[number + 1]
        living = last - first
        if self.dead_postings is not None:
            living -= int(self.dead_postings[number])
        return TermRows(
            segment.table.rows[first:last],
            segment.table.impacts[first:last],
            float(segment.peaks[number]),
            living,
        )

    def fields_of(self, rows: Iterable[int], terms: Iterable[str]) -> Iterator[Mapping[str, int]]:
        """Yield for each row in which of its fields terms are: a bit for each."""
        postings = self.segment.postings
        known = postings.vocabulary
        wanted = {known[term]: term for term in terms if term in known}
        for row in rows:
            entries = slice(postings.starts[row], postings.starts[row + 1])
            numbers, fields = as_ints(postings.terms[entries]), as_ints(postings.fields[entries])
            there = dict(zip(numbers, fields, strict=True))
            yield {term: there[number] for number, term in wanted.items() if number in there}

    def admitted(self, filters: Filters) -> Bools:
        """Return which rows live and count."""
        labels = self.segment.labels
        found = np.ones(self.size, np.bool_) if self.alive is None else self.alive.copy()
        if filters.servers:
            found &= self._labelled(labels.servers, filters.servers)
        if filters.categories:
            found &= self._labelled(labels.categories, filters.categories)
        if filters.tags:
            found &= self._labelled(labels.tags, filters.tags)
        return found

    def _labelled(self, rows: Mapping[str | None, Ints], wanted: frozenset[str]) -> Bools:
        chosen = np.zeros(self.size, np.bool_)
        for label in wanted & rows.keys():
            chosen[rows[label]] = True
        return chosen


@dataclass(frozen=True, slots=True, eq=False)
class TailView:
    """The first rows of a tail, without the dead ones."""

    tail: Tail
    size: int
    alive: Bools
    dead_rows: Longs = field(default_factory=lambda: NO_ROWS)

    @property
    def tools(self) -> list[Tool]:
        """The tools, by row; there may be more of them by now."""
        return self.tail.tools

    @property
    def living(self) -> int:
        """How many tools there are."""
        return self.size - len(self.dead_rows)

    @property
    def meaning(self) -> ToolVectors | None:
        """What the rows mean."""
        return self.tail.meaning(self.size)

    @property
    def region_sizes(self) -> Longs | int:
        """How many living rows are in each region."""
        meaning = self.meaning
        if meaning is None:
            return 0
        return np.bincount(meaning.centroids[self.alive], minlength=meaning.regions)

    def row_of(self, name: str) -> int | None:
        """Return the row of a tool that is here and lives; only for the writer."""
        row = self.tail.rows_by_name.get(name)
        return row if row is not None and self.alive[row] else None

    def without(self, rows: Sequence[int]) -> "TailView":
        """Return the view after some living rows have gone."""
        alive = self.alive.copy()
        alive[rows] = False
        return TailView(self.tail, self.size, alive, np.flatnonzero(~alive))

    def grown(self) -> "TailView":
        """Return the view after the tail has grown."""
        size = len(self.tail.tools)
        alive = np.ones(size, np.bool_)
        alive[: self.size] = self.alive
        return TailView(self.tail, size, alive, self.dead_rows)

    def find(self, term: str) -> TermRows | None:
        """Return the rows that have a term."""
        found = self.tail.find(term, self.size)
        if found is None:
            return None
        rows, impacts = found
        living = int(np.count_nonzero(self.alive[rows])) if len(self.dead_rows) else len(rows)
        return TermRows(rows, impacts, float(impacts.max()), living)

    def fields_of(self, rows: Iterable[int], terms: Iterable[str]) -> Iterator[Mapping[str, int]]:
        """Yield for each row in which of its fields terms are: a bit for each."""
        wanted = tuple(terms)
        for row in rows:
            there = self.tail.fields[row]
            yield {term: there[term] for term in wanted if term in there}

    def admitted(self, filters: Filters) -> Bools:
        """Return which rows live and count."""
        counting = (filters.admit(tool) for tool in self.tail.tools[: self.size])
        return self.alive & np.fromiter(counting, np.bool_, self.size)


View = SegmentView | TailView
