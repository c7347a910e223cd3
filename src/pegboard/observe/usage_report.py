"""Usage report: how each tool did over some days, put together from all that is kept of calls."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime

import msgspec

from pegboard.model import freeze
from pegboard.observe.audit import AuditRecord
from pegboard.observe.daily_usage import DailyTotals
from pegboard.observe.history import CALLS
from pegboard.storage import DEFAULT_TENANT, Store

__all__ = ["ToolUsage", "usage_report"]

_DAY = 24 * 60 * 60


class ToolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How one tool did."""

    tool: str
    calls: int
    failed: int
    """How many of them did not end well; refused ones count."""
    failures: Mapping[str, int]
    """Those by how they ended, or by the code of the error."""
    mean_seconds: float | None
    """How long a call took; ``None`` where nobody measured it."""
    slowest_seconds: float | None
    last_used: datetime | None
    """When it was last called, as far as that is kept; also before these days."""
    calls_ever: int
    """Calls that reached it since the store was made."""


def usage_report(
    store: Store, *, days: int, audit: Iterable[AuditRecord] = (), now: datetime | None = None
) -> list[ToolUsage]:
    """Return the tools that were called on the last days (UTC, today included), most used first.

    What a `History` keeps in the store counts, and what the audit of a gateway says. Of a tool that
    neither knows, but the store says was used on these days, all calls ever are taken for theirs.

    Args:
        store: the tenant's.
        days: how many days to look back on.
        audit: the records of all tenants; those of others, and what is no call of a tool,
            are left out.
        now: the end of the days.

    Raises:
        StorageError: when the store cannot be read.
        ValueError: when there are no days to look back on.
    """
    if days < 1:
        raise ValueError(f"`days` is how many days to look back on, at least 1, not {days}.")
    today = (now or datetime.now(UTC)).date().toordinal()
    first = date.fromordinal(max(1, today - days + 1))
    found: dict[str, _Total] = {}
    for it in DailyTotals(store, store.namespace(CALLS)).since(first):
        total = found.setdefault(it.tool, _Total())
        total.add(it.calls, it.failures, seconds=it.seconds, measured=it.calls, slowest=it.slowest)
    since = datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()
    for it in audit:
        # What was refused was not used, and callers may make up what to ask for.
        is_call = it.action == "tools/call" and it.target and it.outcome != "refused"
        if is_call and it.at >= since and _is_of(it, store.tenant):
            found.setdefault(it.target, _Total()).note(it)
    ever = store.usage()
    for name, used in ever.items():
        if name not in found and used.last_used is not None and used.last_used.timestamp() >= since:
            found[name] = _Total(used.use_frequency)
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


class _Total:
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
        # Of refusals that were written down as one, one was measured.
        measured = 0 if record.duration is None else 1
        self.add(record.count, failures, seconds=took, measured=measured, slowest=took)
        self.last = _latest(self.last, datetime.fromtimestamp(record.at, UTC))


def _is_of(record: AuditRecord, tenant: str) -> bool:
    # Who is on the same machine and says nothing belongs to the default tenant.
    return (record.tenant or DEFAULT_TENANT) == tenant


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((it for it in (one, other) if it is not None), default=None)
