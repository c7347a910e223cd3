"""Poll pace: when a task is asked for again, and for how long a silent server is asked."""

import math

import anyio

__all__ = ["PollPace"]

LEAST_PAUSE, LONGEST_PAUSE = 0.05, 30.0
"""The shortest and the longest pause, in seconds, whatever interval a server wants."""
_GROWTH = 1.3
_STEADY_LEAST, _STEADY_OWN = 1.0, 5.0
"""The pause to which a task that takes long comes, and the one if the server names no interval."""
_FIRST_OWN = 0.2
MOST_REFUSALS = 3
"""How often in a row a server may answer with an error before its task counts as lost."""
_AFTER_REFUSAL = 0.5


class PollPace:
    """The pauses between the polls of one task.

    They are those that the server wants, within bounds. A short one grows while the task goes on:
    a server that wants to be asked a hundred times a second is asked once a second after a while.

    Args:
        patience: for how many seconds a server that cannot be reached is asked again.
    """

    def __init__(self, interval_ms: int | None, *, patience: float) -> None:
        self._wanted = interval_ms
        self._patience = patience
        self._least = LEAST_PAUSE
        self._own = _FIRST_OWN
        self._refusals = 0
        self._silent_until = math.inf
        self._not_before = 0.0

    def answered(self, interval_ms: int | None) -> None:
        """Note an answer, and the interval that the server wants from now on."""
        self._wanted = interval_ms
        self._refusals = 0
        self._silent_until = math.inf
        self._not_before = 0.0

    def refused(self) -> bool:
        """Note an error as the answer; return whether the server may be asked again."""
        self._silent_until = math.inf
        self._refusals += 1
        self._not_before = anyio.current_time() + _AFTER_REFUSAL
        return self._refusals < MOST_REFUSALS

    def unreached(self, retry_in: float = 0.0) -> bool:
        """Note that the server was not reached; return whether it may be asked again."""
        now = anyio.current_time()
        self._silent_until = min(self._silent_until, now + self._patience)
        self._not_before = now + min(retry_in, LONGEST_PAUSE)
        return now < self._silent_until

    def next_pause(self) -> float:
        """Return the seconds until the next poll."""
        self._least = min(self._least * _GROWTH, _STEADY_LEAST)
        if self._wanted is None:
            wanted, self._own = self._own, min(self._own * _GROWTH, _STEADY_OWN)
        else:
            wanted = self._wanted / 1000
        pause = max(wanted, self._least, self._not_before - anyio.current_time())
        left = self._silent_until - anyio.current_time()
        return max(LEAST_PAUSE, min(pause, LONGEST_PAUSE, left))
