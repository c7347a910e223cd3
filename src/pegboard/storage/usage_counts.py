"""Usage counts of tools: check that every store can hold them, and add them up."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pegboard.model import Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.store import Use

__all__ = ["MAX_COUNT", "checked_count", "checked_usage", "checked_uses", "sum_of_usage"]

MAX_COUNT = 2**63 - 1


def checked_uses(uses: Mapping[str, Use]) -> dict[str, Usage]:
    """Return the uses to add to the counts of tools, in a form that every store accepts.

    A time without a zone counts as UTC.

    Raises:
        TypeError, ValueError: when a count or a time is not valid.
    """
    return {check_name(name): _checked(it.count, it.last_used) for name, it in uses.items()}


def checked_usage(usage: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return the counts that replace those of tools, in a form that every store accepts.

    Raises:
        TypeError, ValueError: when a count or a time is not valid.
    """
    return {
        check_name(name): _checked(it.use_frequency, it.last_used) for name, it in usage.items()
    }


def checked_count(count: object) -> int:
    """Return a usage count if it is valid.

    Raises:
        TypeError: when it is not a whole number.
        ValueError: when it is negative or too large.
    """
    if type(count) is not int:
        raise TypeError(f"A usage count is a whole number, not {count!r}.")
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(f"A usage count is 0 to {MAX_COUNT}, not {count}.")
    return count


def sum_of_usage(so_far: Usage, more: Usage) -> Usage:
    """Return the sum of two usages; a slow clock does not turn back the last use."""
    moments = [it for it in (so_far.last_used, more.last_used) if it is not None]
    return Usage(
        use_frequency=min(so_far.use_frequency + more.use_frequency, MAX_COUNT),
        last_used=max(moments, default=None),
    )


def _checked(count: object, last_used: object) -> Usage:
    return Usage(use_frequency=checked_count(count), last_used=_checked_moment(last_used))


def _checked_moment(moment: object) -> datetime | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise TypeError(f"The time of the last use is a date and time, not {moment!r}.")
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{moment} is outside the range of dates.") from None
