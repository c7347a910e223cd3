"""The nearest English words of every word: what else a tool may call the thing."""

import numpy as np

from training.vectors import unit

NEIGHBOURS = 6
_AT_ONCE = 1_024


def find_neighbours(rows: np.ndarray, english: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the nearest words, nearest first, and how near they are, 0 to 255.

    Args:
        rows: what each word means.
        english: how many of the words, from the first, are English.
    """
    units = unit(rows)
    nearest = np.zeros((len(rows), NEIGHBOURS), np.uint16)
    closeness = np.zeros((len(rows), NEIGHBOURS), np.uint8)
    for first in range(0, len(rows), _AT_ONCE):
        near = units[first : first + _AT_ONCE] @ units[:english].T
        here = np.arange(len(near))
        own = here[here + first < english]
        near[own, own + first] = -1  # a word is no neighbour of itself
        found = np.argpartition(-near, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        values = np.take_along_axis(near, found, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        nearest[first : first + len(near)] = np.take_along_axis(found, order, 1)
        near_by = np.take_along_axis(values, order, 1)
        closeness[first : first + len(near)] = np.round(255 * np.clip(near_by, 0, 1))
    return nearest, closeness
