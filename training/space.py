"""MeaningSpace: what both teachers say about a text, as one short vector."""

import numpy as np

from training.vectors import unit

DIRECTIONS = 256
_SAMPLE = 40_000
_RIDGE = 1e-4


class MeaningSpace:
    """The directions in which English texts differ most; Chinese ones are taken into it.

    Args:
        minilm: what MiniLM says about English texts.
        use: what the multilingual encoder says about the same.
    """

    def __init__(self, minilm: np.ndarray, use: np.ndarray) -> None:
        self._minilm_mean, self._use_mean = minilm.mean(0), use.mean(0)
        centred = use - self._use_mean
        ridge = np.eye(use.shape[1], dtype=np.float32) * len(use) * _RIDGE
        # MiniLM knows no Chinese: what it would say is guessed from what the other says.
        self._guess = np.linalg.solve(
            centred.T @ centred + ridge, centred.T @ (minilm - self._minilm_mean)
        )
        chance = np.random.default_rng(0)
        some = chance.choice(len(use), min(_SAMPLE, len(use)), replace=False)
        both = np.concatenate([minilm[some], use[some]], axis=1)
        self._mean = both.mean(0)
        _, directions = np.linalg.eigh(np.cov((both - self._mean).T))
        self._directions = directions[:, : -DIRECTIONS - 1 : -1].astype(np.float32)

    def english(self, minilm: np.ndarray, use: np.ndarray) -> np.ndarray:
        """Return a unit row for each English text."""
        return unit((np.concatenate([minilm, use], axis=1) - self._mean) @ self._directions)

    def chinese(self, use: np.ndarray) -> np.ndarray:
        """Return a unit row for each Chinese text."""
        minilm = unit((use - self._use_mean) @ self._guess + self._minilm_mean)
        return self.english(minilm, use)
