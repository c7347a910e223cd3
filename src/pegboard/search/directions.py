"""The directions in which the regions of a space differ most."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["main_directions"]

# So many directions tell most; whoever they mislead, looks closely at a few tools more.
_COARSE = 64


def main_directions(centroids: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the directions that tell regions apart, as columns; none where all of them count.

    Args:
        centroids: the middles of the regions, as unit rows.
    """
    regions, width = centroids.shape
    # Fewer centroids than directions do not tell which ones matter.
    if not regions > width > _COARSE * 3 // 2:
        return np.zeros((width, 0), np.float32)
    _, directions = np.linalg.eigh(centroids.T.astype(np.float64) @ centroids)
    return np.ascontiguousarray(directions[:, : -_COARSE - 1 : -1], np.float32)
