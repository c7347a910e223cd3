"""Nearest-neighbour search by vectors: rough scores for all tools, exact ones for the nearest."""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from pegboard.search.index.view import SegmentView, TailView, View
from pegboard.search.ranking import best_in_each, best_positions
from pegboard.search.text.postings import Floats, Longs
from pegboard.search.vectors.space import Space, ToolVectors

__all__ = ["CLAUSE_SHARE", "SMALL", "Views", "nearest_of_many", "nearest_rows", "nearness"]

# So many tools are all looked at; of more, those in the nearest regions.
SMALL = 32_768
SCANNED = 8_192
_SCANNED_SHARE = 32
# Of the rows that are near in few directions, this many times those that are wanted hold the
# nearest in all directions;
_ROUGHLY = 2
# and of those that are near to the whole query, this many times hold those near to a clause.
_WHOLLY = 8
CLAUSE_SHARE = 0.6
"""How much the nearest clause of a query counts, against the whole of it."""
# Products of so many numbers are done by one thread: from 9,216 on OpenBLAS takes all there are.
_UNSHARED = 8_192
# What float32 may lose in a product of unit vectors, generously.
_SLACK = 1e-5

Views = Sequence[tuple[int, View]]
"""What is searched, each with the number of its first row; the meaning of all of it is known."""


def nearest_rows(
    views: Views, query: Floats, space: Space, *, wanted: int, rows: Longs | None, barred: Longs
) -> Longs:
    """Return rows, ascending, that hold the nearest ones.

    Args:
        views: what is searched.
        query: the whole query, then its clauses.
        space: where the tools are.
        wanted: how many of the nearest are to be among them.
        rows: only these count; without it all do,
        barred: except these.
    """
    living = sum(view.living for _, view in views) if rows is None else len(rows)
    coarse = space.coarse(query)
    if living > SMALL and space.regions > 1:
        regions = _regions_to_scan(views, coarse, space, rows)
        rows, scores = _scan_regions(views, coarse[0], regions, rows)
    else:
        parts = [_alone(it.coarse, coarse[0]) for _, it in _meanings(views)]
        scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if rows is not None:
            scores = scores[rows]
        elif len(barred):
            scores[barred] = -np.inf
    return _near_rows(views, coarse, scores, space=space, wanted=wanted, rows=rows)


def _near_rows(
    views: Views, coarse: Floats, scores: Floats, *, space: Space, wanted: int, rows: Longs | None
) -> Longs:
    """Return rows, ascending, that hold the nearest ones, by scores for the whole query.

    Args:
        views: what is searched.
        coarse: the whole query, then its clauses, in few directions.
        scores: how near rows are to the whole query.
        space: where the tools are.
        wanted: how many of the nearest are to be among them.
        rows: whose scores they are, ascending; without it all rows'.
    """
    enough = wanted if space.directions is None else wanted * _ROUGHLY
    first = enough if len(coarse) == 1 else wanted * _WHOLLY
    found = best_positions(scores, first, slack=_SLACK)
    if rows is not None:
        found = rows[found]
    if len(coarse) == 1 or len(found) <= enough:
        return found
    near = [
        _fold_clauses(_products(vectors, coarse)) for vectors in _taken(views, found, roughly=True)
    ]
    return found[best_positions(np.concatenate(near), enough, slack=_SLACK)]


def nearest_of_many(
    views: Views,
    queries: Sequence[Floats],
    space: Space,
    *,
    wanted: int,
    rows: Longs | None,
    barred: Longs,
) -> list[Longs]:
    """Return for each of many queries what `nearest_rows` would; for not many tools."""
    clauses = space.coarse(np.concatenate(queries))
    each = [clauses @ meaning.coarse.T for _, meaning in _meanings(views)]
    scores = each[0] if len(each) == 1 else np.concatenate(each, axis=1)
    if len(clauses) > len(queries):
        ends = np.cumsum([len(query) for query in queries])[:-1]
        scores = np.array([_fold_clauses(it) for it in np.split(scores, ends)])
    enough = wanted if space.directions is None else wanted * _ROUGHLY
    if rows is not None:
        scores = scores[:, rows]
    else:
        scores[:, barred] = -np.inf
    found = best_in_each(scores, enough, above=-np.inf, slack=_SLACK)
    return found if rows is None else [rows[it] for it in found]


def nearness(views: Views, query: Floats, rows: Longs) -> Floats:
    """Return how near some rows are, ascending; the same to the last bit wherever a row is."""
    # One product after the other: those of a whole matrix depend on its other rows.
    parts = [
        _fold_clauses(np.vecdot(vectors, query[:, None]))
        for vectors in _taken(views, rows, roughly=False)
    ]
    return np.concatenate(parts) if parts else np.zeros(len(rows), np.float32)


def _products(vectors: Floats, clauses: Floats) -> Floats:
    # For so few clauses this is faster than a product of two matrices.
    return np.array([_alone(vectors, clause) for clause in clauses])


def _alone(vectors: Floats, query: Floats) -> Floats:
    """Return the product of rows and a query without asking a second thread for help.

    A search is so short that on a busy machine it would wait twenty times as long for the other.
    """
    # Each block is a product of its own, too small to be shared out.
    height = max(1, _UNSHARED // len(query))
    whole = len(vectors) // height * height
    found = np.empty(len(vectors), np.float32)
    blocks = vectors[:whole].reshape(-1, height, len(query))
    np.matmul(blocks, query, out=found[:whole].reshape(-1, height))
    np.matmul(vectors[whole:], query, out=found[whole:])
    return found


def _fold_clauses(each: Floats) -> Floats:
    if len(each) == 1:
        return each[0]
    best = cast("Floats", np.maximum.reduce(each[1:]))
    return each[0] * np.float32(1 - CLAUSE_SHARE) + best * np.float32(CLAUSE_SHARE)


def _meanings(views: Views) -> Iterator[tuple[int, ToolVectors]]:
    for base, view in views:
        meaning = view.meaning
        assert meaning is not None
        yield base, meaning


def _taken(views: Views, rows: Longs, *, roughly: bool) -> Iterator[Floats]:
    for base, meaning in _meanings(views):
        vectors = meaning.coarse if roughly else meaning.vectors
        here = rows
        if len(views) > 1:
            first, last = np.searchsorted(rows, (base, base + len(vectors)))
            here = rows[first:last] - base
        if len(here):
            yield vectors.take(here, axis=0)


def _regions_to_scan(views: Views, coarse: Floats, space: Space, rows: Longs | None) -> Longs:
    """Return the numbers of the nearest regions that have enough rows together, ascending."""
    sizes = np.zeros(space.regions, np.int64)
    for base, view in views:
        if rows is None:
            sizes += view.region_sizes
        elif view.meaning is not None:
            first, last = np.searchsorted(rows, (base, base + view.size))
            here = view.meaning.centroids[rows[first:last] - base]
            sizes += np.bincount(here, minlength=space.regions)
    enough = SCANNED + int(sizes.sum()) // _SCANNED_SHARE
    nearest = np.argsort(-_fold_clauses(_products(space.coarse_centroids, coarse)))
    return np.sort(nearest[: int(np.searchsorted(np.cumsum(sizes[nearest]), enough)) + 1])


def _scan_regions(
    views: Views, whole: Floats, regions: Longs, rows: Longs | None
) -> tuple[Longs, Floats]:
    """Return the counting rows of some regions, ascending, with their scores."""
    found: list[Longs] = []
    scores: list[Floats] = []
    counting = None
    if rows is not None:
        counting = np.zeros(sum(view.size for _, view in views), np.bool_)
        counting[rows] = True
    for base, view in views:
        if isinstance(view, SegmentView):
            here, score = _scan_segment(view, whole, regions)
        else:
            here, score = _scan_tail(view, whole, regions)
        alive = view.alive if counting is None else counting[base : base + view.size]
        if alive is not None:
            kept = alive[here]
            here, score = here[kept], score[kept]
        found.append(here + base)
        scores.append(score)
    return np.concatenate(found), np.concatenate(scores)


def _scan_segment(view: SegmentView, whole: Floats, regions: Longs) -> tuple[Longs, Floats]:
    meaning, bounds = view.segment.meaning, view.segment.region_bounds
    assert meaning is not None
    assert bounds is not None
    # Regions that lie side by side are read as one.
    fresh = np.flatnonzero(np.diff(regions, prepend=-2) > 1)
    first = bounds[regions[fresh]]
    last = bounds[regions[np.append(fresh[1:], len(regions)) - 1] + 1]
    lengths = last - first
    ends = np.cumsum(lengths)
    scores = np.empty(int(ends[-1]), np.float32)
    places = (ends - lengths).tolist()
    for start, end, place in zip(first.tolist(), last.tolist(), places, strict=True):
        scores[place : place + end - start] = _alone(meaning.coarse[start:end], whole)
    return np.repeat(last - ends, lengths) + np.arange(len(scores)), scores


def _scan_tail(view: TailView, whole: Floats, regions: Longs) -> tuple[Longs, Floats]:
    meaning = view.meaning
    assert meaning is not None
    rows = np.flatnonzero(np.isin(meaning.centroids, regions))
    return rows, _alone(meaning.coarse[rows], whole)
