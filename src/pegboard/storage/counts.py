"""How often and when tools were used: what every store can hold, and how counts add up."""

from datetime import UTC, datetime

from pegboard.model import Usage

__all__ = ["MAX_COUNT", "checked_count", "checked_moment", "checked_usage", "sum_of_usage"]

MAX_COUNT = 2**63 - 1


def checked_usage(count: object, last_used: object) -> Usage:
    """Return a usage that every store can hold; a time without a zone counts as UTC.

    Raises:
        TypeError, ValueError: when it is none.
    """
    return Usage(use_frequency=checked_count(count), last_used=checked_moment(last_used))


def checked_count(count: object) -> int:
    """Return how often a tool was used, if that is possible."""
    if type(count) is not int:
        raise TypeError(f"A tool is used a whole number of times, not {count!r}.")
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(f"A tool cannot be used {count} times.")
    return count


def checked_moment(moment: object) -> datetime | None:
    """Return when a tool was last used, in UTC."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise TypeError(f"When a tool was last used is a date and time, not {moment!r}.")
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{moment} is outside of what a calendar holds.") from None


def sum_of_usage(so_far: Usage, more: Usage) -> Usage:
    """Return both together; nobody's clock turns back the last use."""
    moments = [it for it in (so_far.last_used, more.last_used) if it is not None]
    return Usage(
        use_frequency=min(so_far.use_frequency + more.use_frequency, MAX_COUNT),
        last_used=max(moments, default=None),
    )
