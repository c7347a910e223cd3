"""What became of calls, per tool."""

from datetime import UTC, datetime, timedelta

import pytest

from pegboard.model import CallRecord
from pegboard.observe import AuditRecord, History
from pegboard.observe.usage_totals import usage_report
from pegboard.storage import Use
from pegboard.testing import Memory

NOW = datetime.now(UTC)


def call(tool: str, *, days_ago: float = 0, took: float = 0.1, outcome: str = "ok") -> CallRecord:
    started = (NOW - timedelta(days=days_ago)).timestamp()
    return CallRecord(tool=tool, started=started, duration=took, outcome=outcome)  # pyright: ignore[reportArgumentType]


def act(tool: str, *, days_ago: float = 0, **fields: object) -> AuditRecord:
    at = (NOW - timedelta(days=days_ago)).timestamp()
    given = {"outcome": "done", "duration": 0.5, "action": "tools/call", **fields}
    return AuditRecord(at=at, target=tool, **given)  # pyright: ignore[reportArgumentType]


def test_calls_of_both_kinds_count_together_and_the_most_used_comes_first() -> None:
    store = Memory().open()
    store.add_usage({"a": Use(7, NOW)})
    history = History(store)
    for record in (call("a"), call("a", took=0.3, outcome="timeout"), call("b", days_ago=40)):
        history(record)
    history.flush()
    acts = [act("a", outcome="failed", reason="tool_error"), act("c"), act("c", days_ago=31)]
    [first, second] = usage_report(store, days=30, audit=acts)
    assert (first.tool, first.calls, first.failed, first.calls_ever) == ("a", 3, 2, 7)
    assert first.failures == {"timeout": 1, "tool_error": 1}
    assert first.mean_seconds == pytest.approx(0.3)
    assert first.slowest_seconds == 0.5
    assert (second.tool, second.calls, second.calls_ever) == ("c", 1, 0)
    assert second.last_used is not None
    assert [it.tool for it in usage_report(store, days=60, audit=acts)] == ["a", "c", "b"]
    history.close()


def test_acts_of_others_and_other_acts_are_left_out() -> None:
    red = Memory().open("red")
    acts = [
        act("mine", tenant="red"),
        act("theirs", tenant="blue"),
        act("everybodys"),
        act("", tenant="red", outcome="refused", reason="rate_limited"),
        act("mine", tenant="red", action="tools/list"),
    ]
    assert [(it.tool, it.calls) for it in usage_report(red, days=1, audit=acts)] == [("mine", 1)]


def test_what_was_refused_is_no_use_of_a_tool() -> None:
    acts = [
        act("a", outcome="refused", reason="access_denied", count=50, duration=None),
        act("made up", outcome="refused", reason="rate_limited"),
        act("b", outcome="failed", reason="tool_error"),
    ]
    [found] = usage_report(Memory().open(), days=1, audit=acts)
    assert (found.tool, found.calls, found.failures) == ("b", 1, {"tool_error": 1})


def test_there_is_no_usage_of_no_days() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        usage_report(Memory().open(), days=0)
