"""Usage of tools: daily totals of calls in a store, and the usage report over some days."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import msgspec

from pegboard.errors import RevisionConflictError, StorageError
from pegboard.model import freeze
from pegboard.observe.audit import AuditRecord
from pegboard.storage import DEFAULT_TENANT, KeyValues, Store, StoredValue

__all__ = [
    "CALLS",
    "DAILY_USAGE",
    "DailyTotals",
    "DailyUsage",
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
    """The calls that reached the tool since the store was created."""


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
    store: Store, *, days: int, audit: Iterable[AuditRecord] = (), now: datetime | None = None
) -> list[ToolUsage]:
    """Return the tools that were called on the last days (UTC, today included), most used first.

    The report counts the calls that a `History` keeps in the store, and those in the audit of a
    gateway. A tool that appears in neither, but was used on these days according to the store's
    usage counts, is reported with all of its calls ever.

    Args:
        store: the tenant's store.
        days: how many days to look back.
        audit: the audit records of all tenants; those of other tenants, and those that are not
            calls of tools, are ignored.
        now: the end of the days.

    Raises:
        StorageError: when the store cannot be read.
        ValueError: when ``days`` is less than 1.
    """
    if days < 1:
        raise ValueError(f"`days` is the number of days to look back, at least 1, not {days}.")
    today = (now or datetime.now(UTC)).date().toordinal()
    first = date.fromordinal(max(1, today - days + 1))
    found: dict[str, _ToolTotal] = {}
    for it in DailyTotals(store, store.namespace(CALLS)).since(first):
        total = found.setdefault(it.tool, _ToolTotal())
        total.add(it.calls, it.failures, seconds=it.seconds, measured=it.calls, slowest=it.slowest)
    since = datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()
    for it in audit:
        # A refused tool was not used, and callers may invent the names that they ask for.
        is_call = it.action == "tools/call" and it.target and it.outcome != "refused"
        if is_call and it.at >= since and _is_of(it, store.tenant):
            found.setdefault(it.target, _ToolTotal()).note(it)
    ever = store.usage()
    for name, used in ever.items():
        if name not in found and used.last_used is not None and used.last_used.timestamp() >= since:
            found[name] = _ToolTotal(used.use_frequency)
    report = [
        ToolUsage(
            tool=name,
            calls=total.calls,
            failed=sum(total.failures.values()),
            failures=freeze(total.failures),
            mean_seconds=total.seconds / total.measured if total.measured else None,
            slowest_seconds=total.slowest if total.measured else None,
            last_used=_latest(total.last, ever[name].last_used if name in ever else None),
            calls_ever=ever[name].use_frequency if name in ever else 0,
        )
        for name, total in found.items()
    ]
    return sorted(report, key=lambda it: (-it.calls, it.tool))


class _Call(msgspec.Struct):
    """The relevant fields of a call record; the outcome may be one of a newer Pegboard."""

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
    """Keys of calls that are in these totals, and may not have been deleted yet."""

    def add(self, call: _Call) -> None:
        self.tools.setdefault(call.tool, _Total()).add(call)


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


def _usage(day: str, tool: str, total: _Total) -> DailyUsage:
    return DailyUsage(
        day=date.fromisoformat(day),
        tool=tool,
        calls=total.calls,
        failures=freeze(total.failures),
        seconds=total.microseconds / 1_000_000,
        slowest=total.slowest / 1_000_000,
    )


class _ToolTotal:
    def __init__(self, calls: int = 0) -> None:
        self.calls = calls
        self.failures: dict[str, int] = {}
        self.seconds = 0.0
        self.measured = 0
        self.slowest = 0.0
        self.last: datetime | None = None

    def add(
        self,
        calls: int,
        failures: Mapping[str, int],
        *,
        seconds: float,
        measured: int,
        slowest: float,
    ) -> None:
        self.calls += calls
        for reason, number in failures.items():
            self.failures[reason] = self.failures.get(reason, 0) + number
        self.seconds += seconds
        self.measured += measured
        self.slowest = max(self.slowest, slowest)

    def note(self, record: AuditRecord) -> None:
        is_done = record.outcome == "done"
        failures = {} if is_done else {record.reason or record.outcome: record.count}
        took = 0.0 if record.duration is None else max(record.duration, 0.0)
        # Of several calls in one record, only one was measured.
        measured = 0 if record.duration is None else 1
        self.add(record.count, failures, seconds=took, measured=measured, slowest=took)
        self.last = _latest(self.last, datetime.fromtimestamp(record.at, UTC))


def _is_of(record: AuditRecord, tenant: str) -> bool:
    # A local caller without a credential belongs to the default tenant.
    return (record.tenant or DEFAULT_TENANT) == tenant


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((it for it in (one, other) if it is not None), default=None)
