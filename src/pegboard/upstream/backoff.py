"""Backoff: when to try a failing server again, and when to leave it alone."""

import random
from collections.abc import Callable
from time import monotonic

__all__ = ["FIRST_PAUSE", "LONGEST_PAUSE", "STEADY", "Backoff"]

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
PATIENCE = 5
"""So many failures in a row open the circuit: then not even a caller may try before the pause."""
STEADY = 20.0
"""What lasted for so many seconds was no failure: proxies end silent streams after 30 and more."""


class Backoff:
    """Counts failures in a row; pauses double up to a limit, and are random so as not to meet."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self.failures: int = 0
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
        """Note that something is over which should have lasted, and which began then."""
        if self._clock() - began >= STEADY:
            self.succeeded()
        self.failed()

    @property
    def pause(self) -> float:
        """How many seconds the background waits before it tries again."""
        return max(0.0, self._not_before - self._clock())

    @property
    def is_open(self) -> bool:
        """True while callers are refused instead of trying again."""
        return self.failures >= PATIENCE and self.pause > 0
