"""UsageBoost: how much tools are used these days, known without asking the storage each time."""

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import log1p
from time import monotonic

from pegboard.errors import StorageError
from pegboard.model import Usage
from pegboard.model.fork_guard import GuardedLock

__all__ = ["UsageBoost", "usage_boost_of"]

logger: logging.Logger = logging.getLogger("pegboard.registry")

FRESH_SECONDS = 5.0
_PLENTY = 100
_HALF_LIFE_DAYS = 30.0


class UsageBoost:
    """The use of every tool, 0 to 1. Read at the first question, then in the background."""

    def __init__(self, read: Callable[[], Mapping[str, Usage]]) -> None:
        self._read = read
        self._heat: Mapping[str, float] | None = None
        self._read_at = 0.0
        self._reading = GuardedLock("registry", threading.Lock())

    @property
    def is_known(self) -> bool:
        """True when asking for it waits for nobody."""
        return self._heat is not None

    def current(self) -> Mapping[str, float]:
        """Return the heat of the tools that were ever used, at most some seconds old."""
        if self._heat is None:
            with self._reading:
                self._refresh()
        elif monotonic() - self._read_at > FRESH_SECONDS and self._reading.acquire(blocking=False):
            thread = threading.Thread(target=self._refresh_aside, name="pegboard-heat", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # No more threads, or the program is ending: what is known is good enough.
                self._reading.release()
        return self._heat or {}

    def _refresh_aside(self) -> None:
        try:
            self._refresh()
        finally:
            self._reading.release()

    def _refresh(self) -> None:
        self._read_at = monotonic()
        try:
            usage = self._read()
        except StorageError:
            # Usage only settles ties: nobody is to miss an answer for it.
            logger.debug("usage_unknown", exc_info=True)
            usage = dict[str, Usage]()
        now = datetime.now(UTC)
        self._heat = {name: usage_boost_of(used, now) for name, used in usage.items()}


def usage_boost_of(usage: Usage, now: datetime) -> float:
    """Return 1 for a tool that is called all the time, and 0 for one that never is."""
    if usage.last_used is None:
        return 0.0
    idle_days = max(0.0, (now - usage.last_used).total_seconds() / 86_400)
    often = min(1.0, log1p(usage.use_frequency) / log1p(_PLENTY))
    return often * 0.5 ** (idle_days / _HALF_LIFE_DAYS)
