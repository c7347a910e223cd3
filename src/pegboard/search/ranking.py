"""Top-k selection with numpy: pick the best of many scores without sorting them all."""

from typing import cast

import numpy as np

from pegboard.search.text.postings import Longs, Scores

__all__ = ["best_in_each", "best_positions", "floor_of_best", "nth_best"]


# More blocks than wanted scores, so that the best of the blocks are near the best of the scores.
_BLOCKS_EACH = 4


def best_positions(
    scores: Scores, wanted: int, *, above: float = -np.inf, slack: float = 0.0
) -> Longs:
    """Return the positions of the best scores, ascending; at least `wanted`, if so many exist.

    Only scores `above` count. Ties with the worst of the best are included, and scores that are
    worse by no more than `slack`.
    """
    if len(scores) > wanted:
        floor = float(floor_of_best(scores, wanted)) - slack
        if floor > above:
            return (scores >= floor).nonzero()[0]
    return (scores > above).nonzero()[0]


def best_in_each(
    scores: Scores, wanted: int, *, above: float = -np.inf, slack: float = 0.0
) -> list[Longs]:
    """Return for each row of scores what `best_positions` would return."""
    many, size = scores.shape
    good = scores > above
    if size > wanted:
        good &= scores >= (floor_of_best(scores, wanted) - slack)[:, None]
    found = np.flatnonzero(good)
    firsts: Longs = np.arange(1, many, dtype=np.int64) * size
    return np.split(found % size, np.searchsorted(found, firsts))


def floor_of_best(scores: Scores, wanted: int) -> Scores:
    """Return a score that at least `wanted` of the scores reach, and few more, for each row.

    There must be as many scores as that.
    """
    *rows, size = scores.shape
    width = size // (wanted * _BLOCKS_EACH)
    if width > 1:
        # The best scores of some blocks are themselves scores: as many of them as are wanted are
        # at least as many scores. Far apart in a block, since rows that are alike are neighbours.
        blocks = size // width
        blocked = scores[..., : blocks * width].reshape(*rows, width, blocks)
        scores = cast("Scores", np.maximum.reduce(blocked, axis=-2))
    return nth_best(scores, wanted)


def nth_best(scores: Scores, number: int) -> Scores:
    """Return the score that exactly so many reach, or more if they tie, for each row."""
    # By methods: for few scores the ways around them cost more than the work.
    ordered = scores.copy()
    place = scores.shape[-1] - number
    ordered.partition(place)
    return ordered[..., place]
