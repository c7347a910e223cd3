"""Segment: an immutable part of the index, with the postings and vectors of some tools."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from pegboard.model import Tool
from pegboard.model.lazy import LazyProperty
from pegboard.search.text.postings import (
    Bools,
    Floats,
    Ints,
    Longs,
    Postings,
    as_ints,
    join_postings,
)
from pegboard.search.vectors.space import ToolVectors, join_vectors

__all__ = ["Labels", "Segment", "TermTable", "build_segment", "merge_segments"]

_ROW_BITS = 32
_NAMED_AT_ONCE = 8192


class Labels:
    """The servers, categories and tags of rows; read when a query filters by them."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    @LazyProperty
    def servers(self) -> dict[str | None, Ints]:
        """The rows that have a server."""
        return _grouped((tool.server,) for tool in self._tools)

    @LazyProperty
    def categories(self) -> dict[str | None, Ints]:
        """The rows that have a category."""
        return _grouped((tool.category,) for tool in self._tools)

    @LazyProperty
    def tags(self) -> dict[str | None, Ints]:
        """The rows that have a tag."""
        return _grouped(tool.tags for tool in self._tools)


class TermTable(NamedTuple):
    """The words of some tools, term by term."""

    bounds: Longs
    """Where the rows of each term begin; one more, where the last ones end."""
    rows: Ints
    """The rows that have a term, ascending."""
    impacts: Floats
    """How much the term says about each of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Tools in rows. Where it is known what they mean, the rows are ordered by centroid."""

    tools: list[Tool]
    rows_by_name: dict[str, int]
    postings: Postings
    """The words of each row."""
    table: TermTable
    """The rows of each word."""
    bounds: "memoryview[int]"
    """Those of the table, as Python numbers."""
    peaks: Floats
    """The largest impact of each term."""
    labels: Labels
    meaning: ToolVectors | None
    region_bounds: Longs | None
    """Where the rows of each centroid begin; one more, where the last ones end."""


def build_segment(
    tools: Sequence[Tool],
    postings: Postings,
    meaning: ToolVectors | None,
    *,
    table: TermTable | None = None,
) -> Segment:
    """Lay out tools.

    Args:
        tools: their names differ.
        postings: their words, in their order; the vocabulary may have others, too.
        meaning: what they mean, in their order.
        table: the rows of each word, if it is known from a segment of the same tools.
    """
    region_bounds = None
    if meaning is not None:
        if (np.diff(meaning.centroids) < 0).any():
            order = np.argsort(meaning.centroids, kind="stable")
            meaning = meaning.of_rows(order)
            postings = postings.of_rows(order)
            tools = [tools[row] for row in as_ints(order)]
        region_bounds = np.searchsorted(meaning.centroids, np.arange(meaning.regions + 1))
    if table is None:
        postings = postings.without_idle_terms()
        table = _by_term(postings)
    bounds, rows, impacts = table
    peaks = np.maximum.reduceat(impacts, bounds[:-1]) if len(rows) else impacts
    tools = list(tools)
    return Segment(
        tools=tools,
        rows_by_name=_rows_by_name(tools),
        postings=postings,
        table=table,
        bounds=bounds.data,
        peaks=peaks,
        labels=Labels(tools),
        meaning=meaning,
        region_bounds=region_bounds,
    )


def merge_segments(parts: Sequence[tuple[Segment, Bools | None]]) -> Segment:
    """Lay out the living rows of several segments in one; without a mask all rows live."""
    tools: list[Tool] = []
    postings: list[Postings] = []
    meanings: list[ToolVectors] = []
    for segment, alive in parts:
        rows = np.arange(len(segment.tools)) if alive is None else np.flatnonzero(alive)
        tools.extend(segment.tools[row] for row in as_ints(rows))
        postings.append(segment.postings.of_rows(rows))
        if segment.meaning is not None:
            meanings.append(segment.meaning.of_rows(rows))
    return build_segment(tools, join_postings(postings), join_vectors(meanings))


def _by_term(postings: Postings) -> TermTable:
    rows = np.repeat(np.arange(len(postings.starts) - 1), np.diff(postings.starts))
    terms = postings.terms.astype(np.int64)
    order = np.argsort((terms << _ROW_BITS) | rows)
    counts = np.bincount(terms, minlength=len(postings.vocabulary))
    bounds = np.concatenate(([0], np.cumsum(counts)))
    return TermTable(bounds, rows[order].astype(np.int32), postings.impacts[order])


def _rows_by_name(tools: Sequence[Tool]) -> dict[str, int]:
    # In parts: one step over many tools would keep the interpreter from the other threads.
    rows: dict[str, int] = {}
    for first in range(0, len(tools), _NAMED_AT_ONCE):
        some = tools[first : first + _NAMED_AT_ONCE]
        rows.update(zip(map(attrgetter("name"), some), range(first, len(tools)), strict=False))
    return rows


def _grouped(labels: Iterable[Iterable[str | None]]) -> dict[str | None, Ints]:
    rows: defaultdict[str | None, list[int]] = defaultdict(list)
    for row, those in enumerate(labels):
        for label in those:
            rows[label].append(row)
    return {label: np.array(some, np.int32) for label, some in rows.items()}
