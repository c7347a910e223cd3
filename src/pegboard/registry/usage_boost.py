"""UsageBoost: rank frequently and recently used tools higher, from usage counts kept in memory."""

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
    """The boost of each tool, 0 to 1. The first search reads the usage, later ones in a thread."""

    def __init__(self, read: Callable[[], Mapping[str, Usage]]) -> None:
        self._read = read
        self._boosts: Mapping[str, float] | None = None
        self._read_at = 0.0
        self._reading = GuardedLock("registry", threading.Lock())

    @property
    def is_known(self) -> bool:
        """True when `current` does not have to read the storage first."""
        return self._boosts is not None

    def current(self) -> Mapping[str, float]:
        """Return the boost of each tool that was ever used, at most some seconds old."""
        if self._boosts is None:
            with self._reading:
                self._refresh()
        elif monotonic() - self._read_at > FRESH_SECONDS and self._reading.acquire(blocking=False):
            thread = threading.Thread(
                target=self._refresh_aside, name="pegboard-usage", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                # No thread is left, or the program is ending: the last values are good enough.
                self._reading.release()
        return self._boosts or {}

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
            # Usage only settles ties, so a search must not fail without it.
            logger.debug("usage_unknown", exc_info=True)
            usage = dict[str, Usage]()
        now = datetime.now(UTC)
        self._boosts = {name: usage_boost_of(used, now) for name, used in usage.items()}


def usage_boost_of(usage: Usage, now: datetime) -> float:
    """Return the boost of a tool: 1 if it is called all the time, 0 if it never is."""
    if usage.last_used is None:
        return 0.0
    idle_days = max(0.0, (now - usage.last_used).total_seconds() / 86_400)
    often = min(1.0, log1p(usage.use_frequency) / log1p(_PLENTY))
    return often * 0.5 ** (idle_days / _HALF_LIFE_DAYS)
