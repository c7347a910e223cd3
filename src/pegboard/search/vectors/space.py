"""Vector space of tools: centroids and coarse vectors, so that few tools need exact scores."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pegboard.search.text.postings import Floats, Longs, Scores

__all__ = ["Space", "ToolVectors", "join_vectors"]

_PLACED_AT_ONCE = 512


class ToolVectors(NamedTuple):
    """What tools mean, in the order of the tools."""

    vectors: Floats
    """Unit rows; zeros for what means nothing."""
    coarse: Floats
    """The same in fewer directions."""
    centroids: Longs
    """The number of the centroid that is nearest to each."""
    regions: int
    """How many centroids there are."""

    def of_rows(self, rows: Longs) -> "ToolVectors":
        """Return what some of the tools mean, in the given order."""
        vectors = self.vectors[rows]
        coarse = vectors if self.coarse is self.vectors else self.coarse[rows]
        return ToolVectors(vectors, coarse, self.centroids[rows], self.regions)


class Space:
    """Regions around centroids, and the directions in which these differ most.

    Args:
        centroids: unit rows; without any, there is one region.
        directions: as columns; without any, every direction counts.
    """

    def __init__(self, centroids: Floats, directions: Floats) -> None:
        self.centroids: Floats = np.ascontiguousarray(centroids, np.float32)
        self.regions: int = max(1, len(self.centroids))
        self.directions: Floats | None = directions if directions.size else None
        """As columns; without it all directions count."""
        self.width: int = self.centroids.shape[1]
        self.coarse_centroids: Floats = np.ascontiguousarray(self.coarse(self.centroids))

    def place(self, vectors: Scores, *, size: int) -> ToolVectors:
        """Return where so many tools are.

        Raises:
            ValueError: when these are not so many vectors of this space.
        """
        if vectors.shape != (size, self.width):
            raise ValueError(
                f"What {size} tools mean is an array of shape {(size, self.width)}, "
                f"not {vectors.shape}."
            )
        vectors = np.ascontiguousarray(vectors, np.float32)
        if not np.isfinite(vectors).all():
            vectors = np.nan_to_num(vectors, posinf=0.0, neginf=0.0)
        coarse = self.coarse(vectors)
        nearest = [
            (coarse[first : first + _PLACED_AT_ONCE] @ self.coarse_centroids.T).argmax(axis=1)
            for first in range(0, len(vectors) if self.regions > 1 else 0, _PLACED_AT_ONCE)
        ]
        filed = np.concatenate(nearest) if nearest else np.zeros(len(vectors), np.int64)
        return ToolVectors(vectors, coarse, filed, self.regions)

    def coarse(self, vectors: Floats) -> Floats:
        """Return vectors in the directions that tell most."""
        return vectors if self.directions is None else vectors @ self.directions


def join_vectors(parts: Sequence[ToolVectors]) -> ToolVectors | None:
    """Return what the tools of several parts mean, one after the other."""
    if not parts:
        return None
    vectors = np.concatenate([part.vectors for part in parts])
    if parts[0].coarse is parts[0].vectors:
        coarse = vectors
    else:
        coarse = np.concatenate([part.coarse for part in parts])
    centroids = np.concatenate([part.centroids for part in parts])
    return ToolVectors(vectors, coarse, centroids, parts[0].regions)
