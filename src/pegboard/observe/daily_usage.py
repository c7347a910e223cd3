"""Daily usage: how often each tool was called on each day, also by calls that are forgotten."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta

import msgspec

from pegboard.errors import RevisionConflictError, StorageError
from pegboard.model import freeze
from pegboard.storage import KeyValues, Store, StoredValue

__all__ = ["DAILY_USAGE", "DailyTotals", "DailyUsage", "check_day"]

DAILY_USAGE = "daily-usage"
"""The namespace of a store in which the totals are kept, one value per day."""
KEPT_DAYS = 400
"""So many days on which something was called; older ones are dropped."""
_DAY = 24 * 60 * 60
_EPOCH = date(1970, 1, 1)
_LONGEST = 10.0**9
"""Seconds; a duration beyond was not measured by any clock."""


class DailyUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool was used on one day."""

    day: date
    """By UTC, of the moment at which a call started."""
    tool: str
    calls: int
    failures: Mapping[str, int]
    """How many of them did not end ``ok``, by their outcome."""
    seconds: float
    """How long all calls took together."""
    slowest: float
    """How many seconds the longest one took."""

    @property
    def failed(self) -> int:
        """How many calls did not end ``ok``."""
        return sum(self.failures.values())


class _Call(msgspec.Struct):
    """What counts of a record; any outcome, also one that only a newer Pegboard knows."""

    tool: str
    started: float
    duration: float
    outcome: str


class _Total(msgspec.Struct):
    # Whole numbers, so that it does not matter in which order calls are added.
    calls: int = 0
    failures: dict[str, int] = {}
    microseconds: int = 0
    slowest: int = 0

    def add(self, call: _Call) -> None:
        took = round(min(max(call.duration, 0), _LONGEST) * 1_000_000)
        self.calls += 1
        if call.outcome != "ok":
            self.failures[call.outcome] = self.failures.get(call.outcome, 0) + 1
        self.microseconds += took
        self.slowest = max(self.slowest, took)


class _Day(msgspec.Struct):
    tools: dict[str, _Total] = {}
    folded: list[str] = []
    """Keys of calls that are in these totals, and may not have been forgotten yet."""

    def add(self, call: _Call) -> None:
        self.tools.setdefault(call.tool, _Total()).add(call)


def check_day(name: str, value: object) -> None:
    """Refuse what is kept under the name of a day and is none.

    Raises:
        ValueError: then.
    """
    date.fromisoformat(name)
    msgspec.convert(value, _Day)


class DailyTotals:
    """The totals of a store, in which every call counts exactly once.

    It counts in its day when the day says so, or when it has been forgotten; else by itself. A day
    is one value, so its totals and what is to be forgotten change together, and only if nobody
    changed them meanwhile: who is killed in the middle, or overtaken, spoils nothing.
    """

    def __init__(self, store: Store, calls: KeyValues) -> None:
        self._url = store.url
        self._totals = store.namespace(DAILY_USAGE)
        self._calls = calls

    def forget(self, keep: int) -> None:
        """Fold all calls but the last ones into the totals of their day, and forget them.

        Raises:
            StorageError: when the store cannot be read or written.
        """
        # When somebody else is at it, too, one of the two is enough.
        with suppress(RevisionConflictError):
            self._forget(keep)

    def since(self, first: date) -> list[DailyUsage]:
        """Return the usage from one day on, the newest day and the most used tool first.

        Raises:
            StorageError: when the store cannot be read.
        """
        stored, calls = self._read_together()
        days = {name: self._day(name, it) for name, it in stored.items()}
        folded = _folded(days)
        for name, _, call in _by_day(calls, (key for key in calls if key not in folded)):
            days.setdefault(name, _Day()).add(call)
        found = [
            _usage(name, tool, total)
            for name, day in days.items()
            if name >= first.isoformat()
            for tool, total in day.tools.items()
        ]
        return sorted(found, key=lambda it: (-it.day.toordinal(), -it.calls, it.tool))

    def _forget(self, keep: int) -> None:
        # The days before the calls: a call that is still there was not folded before its day was
        # read, unless the day says so, and if it is folded after, the revision is another.
        stored = self._totals.items()
        calls = self._calls.items()
        days = {name: self._day(name, it) for name, it in stored.items()}
        revisions: dict[str, int | None] = {name: it.revision for name, it in stored.items()}
        folded = _folded(days)
        old = [key for key in sorted(calls) if key not in folded][:-keep]
        if not (old or folded):
            return
        grown = dict[str, _Day]()
        for name, key, call in _by_day(calls, old):
            grown[name] = days.setdefault(name, _Day())
            grown[name].add(call)
            grown[name].folded.append(key)
        for name, day in grown.items():
            revisions[name] = self._put(name, day, revisions.get(name))
        self._calls.delete([*folded, *old])
        for name, day in days.items():
            if day.folded:
                day.folded.clear()
                self._put(name, day, revisions[name])
        self._totals.delete(sorted(days)[:-KEPT_DAYS])

    def _read_together(self) -> tuple[Mapping[str, StoredValue], Mapping[str, StoredValue]]:
        """Return days and calls of one moment, at which nobody was between the two."""
        before = self._totals.items()
        while True:
            calls = self._calls.items()
            after = self._totals.items()
            if before == after:
                return after, calls
            before = after

    def _day(self, name: str, stored: StoredValue) -> _Day:
        try:
            date.fromisoformat(name)
            return msgspec.convert(stored.value, _Day)
        except ValueError as error:
            raise StorageError(
                f"{self._url}: the usage of {name!r} in {DAILY_USAGE!r} cannot be read: {error}. "
                "Mend that value, or delete it.",
                url=self._url,
            ) from error

    def _put(self, name: str, day: _Day, expected: int | None) -> int:
        return self._totals.put(name, msgspec.to_builtins(day), expected=expected)


def _folded(days: Mapping[str, _Day]) -> set[str]:
    return {key for day in days.values() for key in day.folded}


def _by_day(
    calls: Mapping[str, StoredValue], keys: Iterable[str]
) -> Iterator[tuple[str, str, _Call]]:
    for key in keys:
        # What somebody else left there, or of no day that has a name, counts for nothing.
        with suppress(msgspec.ValidationError, OverflowError):
            call = msgspec.convert(calls[key].value, _Call)
            day = _EPOCH + timedelta(days=call.started // _DAY)
            yield day.isoformat(), key, call


def _usage(day: str, tool: str, total: _Total) -> DailyUsage:
    return DailyUsage(
        day=date.fromisoformat(day),
        tool=tool,
        calls=total.calls,
        failures=freeze(total.failures),
        seconds=total.microseconds / 1_000_000,
        slowest=total.slowest / 1_000_000,
    )
