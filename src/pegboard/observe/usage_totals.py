"""Usage of tools: daily totals of calls in a store, and the usage report over some days."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import msgspec

from pegboard.errors import RevisionConflictError, StorageError
from pegboard.model import Usage, freeze
from pegboard.storage import KeyValues, Store, StoredValue

__all__ = [
    "CALLS",
    "DAILY_USAGE",
    "DailyTotals",
    "DailyUsage",
    "ToolTotal",
    "ToolUsage",
    "check_day",
    "usage_report",
]

CALLS = "calls"
"""The namespace of a store in which `History` keeps calls."""
DAILY_USAGE = "daily-usage"
"""The namespace of a store in which the totals are kept, one value per day."""
KEPT_DAYS = 400
"""How many days with calls are kept; older ones are dropped."""
_DAY = 24 * 60 * 60
_EPOCH = date(1970, 1, 1)
_LONGEST = 10.0**9
"""Seconds; a duration beyond was not measured by any clock."""


class DailyUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool was used on one day."""

    day: date
    """In UTC, of the moment at which a call started."""
    tool: str
    calls: int
    failures: Mapping[str, int]
    """How many of them did not end ``ok``, by their outcome."""
    seconds: float
    """The total duration of all calls."""
    slowest: float
    """The seconds of the slowest call."""

    @property
    def failed(self) -> int:
        """How many calls did not end ``ok``."""
        return sum(self.failures.values())


class ToolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one tool over the days of a report."""

    tool: str
    calls: int
    failed: int
    """How many calls did not end ``ok``; refused ones count."""
    failures: Mapping[str, int]
    """The failed calls by outcome, or by the code of the error."""
    mean_seconds: float | None
    """The mean duration of a call; ``None`` if it was not measured."""
    slowest_seconds: float | None
    last_used: datetime | None
    """When the tool was last called, as far as that is known; also before these days."""
    calls_ever: int
    """The calls since the store was created; never less than ``calls``."""


class DailyTotals:
    """The daily totals of a store, in which every call counts exactly once.

    A call counts in the total of its day if the day lists it or it has been deleted; otherwise it
    counts by itself. A day is one value: its totals and the list of calls to delete change
    together, and only if no other process changed them meanwhile. So a process that is killed half
    way, or overtaken, does no harm.
    """

    def __init__(self, store: Store, calls: KeyValues) -> None:
        self._url = store.url
        self._totals = store.namespace(DAILY_USAGE)
        self._calls = calls

    def forget(self, keep: int) -> None:
        """Fold all calls but the last ``keep`` into the totals of their day, and delete them.

        Raises:
            StorageError: when the store cannot be read or written.
        """
        # If another process does the same at this moment, one of the two is enough.
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
        """Return days and calls of one moment, at which no other process was folding."""
        before = self._totals.items()
        while True:
            calls = self._calls.items()
            after = self._totals.items()
            if before == after:
                return after, calls
            before = after

    def _day(self, name: str, stored: StoredValue) -> "_Day":
        try:
            date.fromisoformat(name)
            return msgspec.convert(stored.value, _Day)
        except ValueError as error:
            raise StorageError(
                f"{self._url}: the usage of {name!r} in {DAILY_USAGE!r} cannot be read: {error}. "
                "Correct that value, or delete it.",
                url=self._url,
            ) from error

    def _put(self, name: str, day: "_Day", expected: int | None) -> int:
        return self._totals.put(name, msgspec.to_builtins(day), expected=expected)


def check_day(name: str, value: object) -> None:
    """Check the stored value of a day.

    Raises:
        ValueError: when the name or the value is not valid.
    """
    date.fromisoformat(name)
    msgspec.convert(value, _Day)


def usage_report(
    store: Store,
    *,
    days: int,
    calls: Callable[[date], Mapping[str, "ToolTotal"]] | None = None,
    now: datetime | None = None,
) -> list[ToolUsage]:
    """Return the tools that were called on the last days (UTC, today included), most used first.

    The report counts the calls that a `History` keeps in the store, and those that a gateway keeps.
    A tool that appears in neither, but was used on these days according to the store's usage
    counts, is reported with all of its calls ever.

    Args:
        store: the tenant's store.
        days: how many days to look back.
        calls: returns the totals of the tenant's calls that a gateway keeps, since a day.
        now: the end of the days.

    Raises:
        OSError: when those calls cannot be read.
        StorageError: when the store cannot be read.
        ValueError: when ``days`` is less than 1.
    """
    if days < 1:
        raise ValueError(f"`days` is the number of days to look back, at least 1, not {days}.")
    today = (now or datetime.now(UTC)).date().toordinal()
    first = date.fromordinal(max(1, today - days + 1))
    found: dict[str, ToolTotal] = {}
    for it in DailyTotals(store, store.namespace(CALLS)).since(first):
        found.setdefault(it.tool, ToolTotal()).add_day(it)
    if calls is not None:
        for name, total in calls(first).items():
            found.setdefault(name, ToolTotal()).add_total(total)
    since = datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()
    ever = store.usage()
    report = [_reported(name, total, ever.get(name, Usage())) for name, total in found.items()]
    report += [
        _reported(name, None, used)
        for name, used in ever.items()
        if name not in found and used.last_used is not None and used.last_used.timestamp() >= since
    ]
    return sorted(report, key=lambda it: (-it.calls, it.tool))


def _reported(name: str, total: "ToolTotal | None", ever: Usage) -> ToolUsage:
    measured = ToolTotal() if total is None else total
    last = datetime.fromtimestamp(measured.last, UTC) if measured.last else None
    return ToolUsage(
        tool=name,
        calls=ever.use_frequency if total is None else total.calls,
        failed=sum(measured.failures.values()),
        failures=freeze(measured.failures),
        mean_seconds=measured.microseconds / 1e6 / measured.calls if measured.calls else None,
        slowest_seconds=measured.slowest / 1e6 if measured.calls else None,
        last_used=_latest(last, ever.last_used),
        # The store counts those that reached the tool, some moments after they are over.
        calls_ever=max(ever.use_frequency + measured.unreached, measured.calls),
    )


class _Call(msgspec.Struct):
    """The relevant fields of a call record; the outcome may be one of a newer Pegboard."""

    tool: str
    started: float
    duration: float
    outcome: str


class ToolTotal(msgspec.Struct, omit_defaults=True):
    """The calls of one tool on one day or more."""

    # Whole numbers, so that it does not matter in which order calls are added.
    calls: int = 0
    failures: dict[str, int] = {}
    microseconds: int = 0
    slowest: int = 0
    """Microseconds."""
    unreached: int = 0
    """How many of the calls did not reach the tool."""
    last: float = 0.0
    """When the last one started, in seconds since the epoch."""

    def add_calls(
        self,
        reason: str,
        seconds: float,
        *,
        is_ok: bool,
        reached: bool = True,
        last: float = 0.0,
        count: int = 1,
    ) -> None:
        """Add equal calls; ``reason`` says why they failed."""
        took = round(min(max(seconds, 0), _LONGEST) * 1_000_000)
        self.calls += count
        if not is_ok:
            self.failures[reason] = self.failures.get(reason, 0) + count
        if not reached:
            self.unreached += count
        self.microseconds += took * count
        self.slowest = max(self.slowest, took)
        self.last = max(self.last, last)

    def add_total(self, other: "ToolTotal") -> None:
        """Add what another total has."""
        self.calls += other.calls
        for reason, number in other.failures.items():
            self.failures[reason] = self.failures.get(reason, 0) + number
        self.microseconds += other.microseconds
        self.slowest = max(self.slowest, other.slowest)
        self.unreached += other.unreached
        self.last = max(self.last, other.last)

    def add_day(self, day: DailyUsage) -> None:
        """Add one day that a `History` has kept."""
        self.add_total(
            ToolTotal(
                calls=day.calls,
                failures=dict(day.failures),
                microseconds=round(day.seconds * 1_000_000),
                slowest=round(day.slowest * 1_000_000),
                unreached=day.failures.get("refused", 0),
            )
        )


class _Day(msgspec.Struct):
    tools: dict[str, ToolTotal] = {}
    folded: list[str] = []
    """Keys of calls that are in these totals, and may not have been deleted yet."""

    def add(self, call: _Call) -> None:
        total = self.tools.setdefault(call.tool, ToolTotal())
        total.add_calls(call.outcome, call.duration, is_ok=call.outcome == "ok")


def _folded(days: Mapping[str, _Day]) -> set[str]:
    return {key for day in days.values() for key in day.folded}


def _by_day(
    calls: Mapping[str, StoredValue], keys: Iterable[str]
) -> Iterator[tuple[str, str, _Call]]:
    for key in keys:
        # A value of another program, or of a day outside the calendar, does not count.
        with suppress(msgspec.ValidationError, OverflowError):
            call = msgspec.convert(calls[key].value, _Call)
            day = _EPOCH + timedelta(days=call.started // _DAY)
            yield day.isoformat(), key, call


def _usage(day: str, tool: str, total: ToolTotal) -> DailyUsage:
    return DailyUsage(
        day=date.fromisoformat(day),
        tool=tool,
        calls=total.calls,
        failures=freeze(total.failures),
        seconds=total.microseconds / 1_000_000,
        slowest=total.slowest / 1_000_000,
    )


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((it for it in (one, other) if it is not None), default=None)
