"""Small arithmetic on rows of vectors."""

import numpy as np

_TINY = 1e-6


def lengths(rows: np.ndarray) -> np.ndarray:
    """Return the length of each row as a column, never zero."""
    return np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)


def unit(rows: np.ndarray) -> np.ndarray:
    """Return rows of length one; zeros stay zeros."""
    return rows / lengths(rows)


def through_unit(gradient: np.ndarray, units: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the gradient at rows, given that at their unit rows."""
    return (gradient - (gradient * units).sum(1, keepdims=True) * units) / length


class Adam:
    """Steps down a gradient, each number at its own pace."""

    def __init__(self, values: np.ndarray, rate: float) -> None:
        self.values = values
        self._rate = rate
        self._mean = np.zeros_like(values)
        self._square = np.zeros_like(values)
        self._steps = 0

    def step(self, gradient: np.ndarray, share: float) -> None:
        """Take a step of a share of the rate; changes the values in place."""
        self._steps += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.01 * (gradient * gradient - self._square)
        mean = self._mean / (1 - 0.9**self._steps)
        spread = np.sqrt(self._square / (1 - 0.99**self._steps)) + 1e-8
        self.values -= self._rate * share * mean / spread
