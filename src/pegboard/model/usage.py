"""Usage: how often and when a tool was last called, and how warm that makes it."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

__all__ = ["Temperature", "Usage"]

HOT_USES = 10
WARM_USES = 3
WARM_AFTER = timedelta(days=30)
COLD_AFTER = timedelta(days=60)


class Temperature(StrEnum):
    """How likely a tool is to be called next."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How often a tool was called, and when last."""

    use_frequency: int = 0
    last_used: datetime | None = None

    def temperature(self, *, now: datetime | None = None) -> Temperature:
        """Return hot, warm or cold; a tool cools down while nobody calls it."""
        idle = timedelta()
        if self.last_used is not None:
            idle = (now or datetime.now(UTC)) - self.last_used
        if self.use_frequency < WARM_USES or idle >= COLD_AFTER:
            return Temperature.COLD
        if self.use_frequency < HOT_USES or idle >= WARM_AFTER:
            return Temperature.WARM
        return Temperature.HOT
