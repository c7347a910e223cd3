"""What became of calls, per tool."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from pegboard.model import CallRecord
from pegboard.observe import History
from pegboard.observe.call_entry import CallEntry
from pegboard.observe.call_totals import CallTotals
from pegboard.observe.usage_totals import ToolTotal, usage_report
from pegboard.storage import Use
from pegboard.testing import Memory

NOW = datetime.now(UTC)


def call(tool: str, *, days_ago: float = 0, took: float = 0.1, outcome: str = "ok") -> CallRecord:
    started = (NOW - timedelta(days=days_ago)).timestamp()
    return CallRecord(tool=tool, started=started, duration=took, outcome=outcome)  # pyright: ignore[reportArgumentType]


def kept(*calls: CallEntry) -> Callable[[date], dict[str, ToolTotal]]:
    """Return the totals that a gateway keeps of calls."""

    def since(first: date) -> dict[str, ToolTotal]:
        return CallTotals(Path("/nowhere")).of("red", first, lambda _: calls)

    return since


def entry(tool: str, *, days_ago: float = 0, **fields: object) -> CallEntry:
    given = {"tenant": "red", "outcome": "ok", "seconds": 0.5, "attempts": 1, **fields}
    return CallEntry(id="0", started=NOW - timedelta(days=days_ago), tool=tool, **given)  # pyright: ignore[reportArgumentType]


def test_calls_of_both_kinds_count_together_and_the_most_used_comes_first() -> None:
    store = Memory().open("red")
    store.add_usage({"a": Use(7, NOW)})
    history = History(store)
    for record in (call("a"), call("a", took=0.3, outcome="timeout"), call("b", days_ago=40)):
        history(record)
    history.flush()
    failed = entry("a", outcome="tool_error", error_code="tool_error")
    calls = kept(failed, entry("c"), entry("c", days_ago=31))
    [first, second] = usage_report(store, days=30, calls=calls)
    assert (first.tool, first.calls, first.failed, first.calls_ever) == ("a", 3, 2, 7)
    assert first.failures == {"timeout": 1, "tool_error": 1}
    assert first.mean_seconds == pytest.approx(0.3)
    assert first.slowest_seconds == 0.5
    assert (second.tool, second.calls, second.calls_ever) == ("c", 1, 1)
    assert second.last_used is not None
    assert [it.tool for it in usage_report(store, days=60, calls=calls)] == ["a", "c", "b"]
    history.close()


def test_calls_of_other_tenants_are_left_out() -> None:
    calls = kept(entry("mine"), entry("theirs", tenant="blue"))
    found = usage_report(Memory().open("red"), days=1, calls=calls)
    assert [(it.tool, it.calls) for it in found] == [("mine", 1)]


def test_calls_ever_are_never_fewer_than_the_calls_of_some_days() -> None:
    store = Memory().open("red")
    store.add_usage({"a": Use(5, NOW)})
    refused = entry("a", outcome="refused", error_code="rate_limited", attempts=0, count=4)
    [found] = usage_report(store, days=1, calls=kept(refused, *[entry("a")] * 5))
    assert (found.calls, found.failed, found.calls_ever) == (9, 4, 9)


def test_there_is_no_usage_of_no_days() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        usage_report(Memory().open(), days=0)
