"""Parse and print durations and times, such as 90d or 2027-01-31."""

import re
import sys
import time
from datetime import UTC, datetime

import typer

__all__ = ["as_iso", "duration", "moment", "shown", "since"]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_LAST = datetime(9999, 1, 1, tzinfo=UTC)
_LATEST = _LAST.timestamp()


def duration(text: str, *, option: str) -> float:
    """Return the seconds in ``90d``, ``12h``, ``15m`` or ``30s``.

    Raises:
        typer.BadParameter: it is none of these.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        problem = f"{text!r} is not a duration; write 90d, 12h or 15m."
        raise typer.BadParameter(problem, param_hint=option)
    return float(int(found[1]) * _SECONDS[found[2]])


def moment(text: str, *, option: str) -> float:
    """Return when ``90d`` from now is, or the date ``2027-01-31``, in seconds since the epoch.

    Raises:
        typer.BadParameter: it is neither.
    """
    if _DURATION.fullmatch(text.strip().lower()):
        found = time.time() + duration(text, option=option)
        if found > _LATEST:
            raise typer.BadParameter(f"{text!r} from now is too far away.", param_hint=option)
        return found
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        problem = f"{text!r} is not a time; write 90d, 2027-01-31 or 2027-01-31T12:00:00+01:00."
        raise typer.BadParameter(problem, param_hint=option) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def since(text: str, *, option: str) -> datetime:
    """Return when ``10m`` ago was, or the time ``2026-11-18T09:00+01:00``; local without a zone.

    Raises:
        typer.BadParameter: it is neither.
    """
    now = datetime.now(UTC)
    if _DURATION.fullmatch(text.strip().lower()):
        # Nothing is as old as that.
        ago = min(duration(text, option=option), now.timestamp())
        return datetime.fromtimestamp(now.timestamp() - ago, UTC)
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        problem = f"{text!r} is not a time; write 10m, 2h, 2026-11-18 or 2026-11-18T12:00+01:00."
        raise typer.BadParameter(problem, param_hint=option) from None


def as_iso(moment: float) -> str:
    """Return a time as JSON output has it: ISO 8601, in UTC."""
    try:
        found = datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError, OSError):
        # Further away than this system can write down.
        found = _LAST
    return f"{found.replace(tzinfo=None).isoformat()}Z"


def shown(moment: float | None, *, nothing: str) -> str:
    """Return a time in UTC, as people read it; on a terminal in its shortest form."""
    if moment is None:
        return nothing
    try:
        found = datetime.fromtimestamp(moment, UTC)
        return found.strftime(_form(found) if sys.stdout.isatty() else "%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        # Further away than this system can write down.
        return f"{moment:.0f} s since 1970"


def _form(moment: datetime) -> str:
    today = datetime.now(UTC)
    if moment.date() == today.date():
        return "%H:%M"
    return "%b %d" if moment.year == today.year else "%Y-%m-%d"
