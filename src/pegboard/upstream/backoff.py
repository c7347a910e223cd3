"""Backoff: exponential pauses, with jitter, before a failing server is tried again."""

import random
from collections.abc import Callable
from time import monotonic

__all__ = ["FIRST_PAUSE", "LONGEST_PAUSE", "STEADY", "Backoff"]

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
STEADY = 20.0
"""What lasted this many seconds was no failure: proxies end silent streams after 30 and more."""


class Backoff:
    """Counts failures in a row; pauses double up to a limit, and are random against herds."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self.failures: int = 0
        """How many failures there were in a row."""
        self._clock = clock
        self._not_before = 0.0

    def failed(self) -> None:
        """Note a failure."""
        self.failures += 1
        # The exponent is bounded too: a server may fail for weeks.
        ceiling = min(FIRST_PAUSE * 2 ** min(self.failures - 1, 10), LONGEST_PAUSE)
        self._not_before = self._clock() + ceiling * random.uniform(0.5, 1.0)  # noqa: S311

    def succeeded(self) -> None:
        """Forget all failures."""
        self.failures = 0
        self._not_before = 0.0

    def ended(self, *, began: float) -> None:
        """Note the end of a stream that should have lasted; a long one resets the failures."""
        if self._clock() - began >= STEADY:
            self.succeeded()
        self.failed()

    @property
    def pause(self) -> float:
        """How many seconds are left before the next try."""
        return max(0.0, self._not_before - self._clock())
