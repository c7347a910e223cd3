"""Usage counts of tools: check that every store can hold them, and add them up."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pegboard.model import Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.store import Use

__all__ = ["MAX_COUNT", "checked_count", "checked_usage", "checked_uses", "sum_of_usage"]

MAX_COUNT = 2**63 - 1


def checked_uses(uses: Mapping[str, Use]) -> dict[str, Usage]:
    """Return what is to be added to the counts of tools, as every store can hold it.

    A time without a zone counts as UTC.

    Raises:
        TypeError, ValueError: when one cannot be held.
    """
    return {check_name(name): _checked(it.count, it.last_used) for name, it in uses.items()}


def checked_usage(usage: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return what is to replace the counts of tools, likewise.

    Raises:
        TypeError, ValueError: when one cannot be held.
    """
    return {
        check_name(name): _checked(it.use_frequency, it.last_used) for name, it in usage.items()
    }


def checked_count(count: object) -> int:
    """Return how often a tool was used, if that is possible."""
    if type(count) is not int:
        raise TypeError(f"A tool is used a whole number of times, not {count!r}.")
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(f"A tool cannot be used {count} times.")
    return count


def sum_of_usage(so_far: Usage, more: Usage) -> Usage:
    """Return both together; a slow clock does not turn back the last use."""
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
        raise TypeError(f"When a tool was last used is a date and time, not {moment!r}.")
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{moment} is outside of what a calendar holds.") from None
