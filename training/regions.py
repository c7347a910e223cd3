"""Regions of the space of meanings: k-means over tools and short texts about software."""

import numpy as np

from training.vectors import unit

_REGIONS = 1_024
_ROUNDS = 12
_AT_ONCE = 8_192


def find_centroids(vectors: np.ndarray) -> np.ndarray:
    """Return the middles of regions as unit rows."""
    chance = np.random.default_rng(2)
    centroids = vectors[chance.choice(len(vectors), _REGIONS, replace=False)].copy()
    for _ in range(_ROUNDS):
        nearest = np.concatenate(
            [
                (vectors[first : first + _AT_ONCE] @ centroids.T).argmax(1)
                for first in range(0, len(vectors), _AT_ONCE)
            ]
        )
        sums = np.zeros_like(centroids)
        np.add.at(sums, nearest, vectors)
        empty = np.bincount(nearest, minlength=_REGIONS) == 0
        sums[empty] = vectors[chance.choice(len(vectors), int(empty.sum()))]
        centroids = unit(sums)
    return centroids
