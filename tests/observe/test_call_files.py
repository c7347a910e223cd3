"""Calls are kept in files for some days, within a size, and counted for ever."""

import logging
import os
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pegboard.model import CallRecord, Phases
from pegboard.model.call import HoldingRecord
from pegboard.observe.call_entry import CallFilter, entry_as_json
from pegboard.observe.call_files import (
    MOST_PENDING,
    MOST_REFUSALS,
    MOST_UNWRITTEN,
    CallFiles,
    all_calls,
    find_calls,
)
from pegboard.observe.call_reporter import MOST_RECORDED, caller_of
from pegboard.observe.call_totals import MOST_NOT_STARTED, CallTotals

NOW = datetime.now(UTC).timestamp()
EVERYTHING = CallFilter()
ANN = caller_of("default", "ann", "cursor", "s1")
BOB = caller_of("blue", "bob")


def record(tool: str = "a", outcome: Any = "ok", **fields: Any) -> CallRecord:
    given: dict[str, Any] = {"started": NOW, "duration": 0.5, "attempts": 1, "meta": ANN, **fields}
    return HoldingRecord(tool=tool, outcome=outcome, **given)


def counted(folder: Path, tenant: str = "default") -> dict[str, int]:
    totals = CallTotals(folder).of(tenant, date(2000, 1, 1), partial(all_calls, folder))
    return {tool: it.calls for tool, it in totals.items()}


def keep(calls: CallFiles, *records: CallRecord) -> None:
    for it in records:
        calls(it)
    calls.flush()


def test_a_call_is_kept_with_what_people_ask_of_it(tmp_path: Path) -> None:
    calls = CallFiles(tmp_path / "calls")
    phases = Phases(queued=0.1, at_server=0.25)
    keep(calls, record(server="files", error_code=None, result_size=7, phases=phases))
    [found] = calls.find(EVERYTHING)
    shown = entry_as_json(found)
    assert shown.pop("id")
    assert len(shown.pop("session")) == 12
    assert shown == {
        "started": datetime.fromtimestamp(NOW, UTC),
        "seconds": 0.5,
        "tool": "a",
        "outcome": "ok",
        "tenant": "default",
        "caller": "ann",
        "client": "cursor",
        "server": "files",
        "error_code": None,
        "attempts": 1,
        "count": 1,
        "arguments_size": None,
        "result_size": 7,
        "phases": {
            "queued": 0.1,
            "connecting": 0.0,
            "at_server": 0.25,
            "waiting": 0.0,
            "caching": 0.0,
        },
    }
    assert calls.find(CallFilter(id=found.id)) == [found]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "calls").iterdir())
    calls.close()


@pytest.mark.parametrize(
    ("wanted", "tools"),
    [
        (CallFilter(), ["d", "c", "b", "a"]),
        (CallFilter(limit=2), ["d", "c"]),
        (CallFilter(failed=True), ["d", "b"]),
        (CallFilter(outcome="timeout"), ["b"]),
        (CallFilter(tool="[ab]"), ["b", "a"]),
        (CallFilter(server="fil*"), ["c"]),
        (CallFilter(caller="bo"), ["d"]),
        (CallFilter(client="CURS"), ["c", "b", "a"]),
        (CallFilter(tenant="blue"), ["d"]),
        (CallFilter(since=datetime.fromtimestamp(NOW - 60, UTC)), ["d", "c", "b"]),
        (CallFilter(until=datetime.fromtimestamp(NOW - 60, UTC)), ["a"]),
    ],
)
def test_a_filter_chooses_calls_and_the_newest_comes_first(
    tmp_path: Path, wanted: CallFilter, tools: list[str]
) -> None:
    calls = CallFiles(tmp_path)
    keep(
        calls,
        record("a", started=NOW - 3600),
        record("b", "timeout"),
        record("c", server="files"),
        record("d", "raised", meta=BOB),
    )
    assert [it.tool for it in calls.find(wanted)] == tools
    calls.close()


def test_pages_follow_each_other_across_the_files_of_several_processes(tmp_path: Path) -> None:
    one, other = CallFiles(tmp_path), CallFiles(tmp_path)
    for number in range(30):
        keep(other if number % 3 else one, record(str(number)))
    seen: list[str] = []
    before = ""
    while page := find_calls(tmp_path, CallFilter(limit=7, before=before)):
        seen += [it.tool for it in page]
        before = page[-1].id
    assert seen == [str(it) for it in reversed(range(30))]
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    latest = find_calls(tmp_path, CallFilter(limit=3))
    assert find_calls(tmp_path, CallFilter(after=latest[2].id)) == latest[:2]
    one.close()
    other.close()


def test_a_page_has_calls_that_ended_before_their_file_was_made(tmp_path: Path) -> None:
    calls = CallFiles(tmp_path, size=1)
    keep(calls, record("a"), record("b"), record("c"))
    latest = find_calls(tmp_path, CallFilter(limit=1))
    assert [it.tool for it in latest] == ["c"]
    before = find_calls(tmp_path, CallFilter(before=latest[0].id))
    assert [it.tool for it in before] == ["b", "a"]
    calls.close()


def test_files_that_are_too_many_or_too_old_go_and_their_calls_still_count(tmp_path: Path) -> None:
    calls = CallFiles(tmp_path, size=20_000)
    for _ in range(300):
        keep(calls, record("often"), record("seldom", meta=BOB))
    assert sum(it.stat().st_size for it in tmp_path.glob("*.jsonl")) < 22_000
    assert len(calls.find(CallFilter(limit=1000))) < 200
    assert (counted(tmp_path), counted(tmp_path, "blue")) == ({"often": 300}, {"seldom": 300})
    calls.close()
    old = (datetime.now(UTC) - timedelta(days=8)).timestamp()
    for path in tmp_path.glob("*.jsonl"):
        os.utime(path, (old, old))
    later = CallFiles(tmp_path)
    keep(later, record("often"))
    assert [it.tool for it in later.find(EVERYTHING)] == ["often"]
    assert counted(tmp_path) == {"often": 301}
    later.close()


def test_a_process_that_dies_between_totals_and_removal_counts_no_call_twice(
    tmp_path: Path,
) -> None:
    calls = CallFiles(tmp_path)
    keep(calls, record(), record())
    calls.close()
    [path] = tmp_path.glob("*.jsonl")
    content = path.read_bytes()
    CallTotals(tmp_path).add_and_remove([path], lambda it: all_calls(it.parent))
    totals = tmp_path / "totals.json"
    # As it was before the file was removed.
    named = totals.read_bytes().replace(b'"folded":[]', b'"folded":["%s"]' % path.name.encode())
    totals.write_bytes(named)
    path.write_bytes(content)
    assert counted(tmp_path) == {"a": 2}
    CallTotals(tmp_path).add_and_remove([path], lambda it: all_calls(it.parent))
    assert (counted(tmp_path), path.exists()) == ({"a": 2}, False)


def test_names_that_callers_make_up_do_not_fill_the_totals(tmp_path: Path) -> None:
    calls = CallFiles(tmp_path, size=20_000)
    for number in range(0, 2000, 50):
        many = range(number, number + 50)
        made_up = [record(f"made up {it}", "refused", attempts=0) for it in many]
        keep(calls, *made_up, record(f"tool {number}"), record("tool 0"))
    calls.close()
    totals = CallTotals(tmp_path).of("default", date(2000, 1, 1), lambda _: ())
    names = {it for it in totals if it.startswith("made up")}
    assert len(names) == MOST_NOT_STARTED
    assert len([it for it in totals if it.startswith("tool")]) > 30
    assert totals[""].calls > 1000
    assert sum(counted(tmp_path).values()) == 2000 + 2 * 40


def test_what_cannot_be_written_is_logged_once_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "calls"
    place.write_bytes(b"no folder")
    calls = CallFiles(place)
    with caplog.at_level(logging.WARNING):
        keep(calls, record("a"))
        keep(calls, record("b"))
    assert [it.message.split(":")[0] for it in caplog.records] == ["calls_not_kept"]
    place.unlink()
    assert [it.tool for it in calls.find(EVERYTHING)] == ["b", "a"]
    assert "0 were lost" in caplog.text
    calls.close()


def test_calls_that_come_faster_than_they_are_written_are_lost_and_their_number_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = CallFiles(tmp_path)
    calls._flushing.close()  # pyright: ignore[reportPrivateUsage] - so that nothing is written meanwhile
    for _ in range(MOST_PENDING + 5):
        calls(record())
    calls.flush()
    assert "5 were lost" in caplog.text
    assert counted(tmp_path) == {"a": MOST_PENDING}


def test_a_full_disk_does_not_fill_the_memory_with_recorded_results(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "calls"
    place.write_bytes(b"no folder")
    calls = CallFiles(place)
    large = msgspec.Raw(b'"%s"' % (b"x" * MOST_RECORDED))
    number = MOST_UNWRITTEN // MOST_RECORDED
    for _ in range(10):
        keep(calls, *[record(arguments=large, result=large) for _ in range(number // 10)])
    keep(calls, record("last"))
    place.unlink()
    found = calls.find(CallFilter(limit=number))
    assert found[0].tool == "last"
    assert number // 2 - 10 < len(found) <= number // 2
    assert f"{number + 1 - len(found)} were lost" in caplog.text
    calls.close()


def test_a_caller_that_is_refused_fills_no_files_and_every_refusal_counts(tmp_path: Path) -> None:
    calls = CallFiles(tmp_path)
    for number in range(1000):
        calls(record(f"made up {number}", "refused", error_code="rate_limited", attempts=0))
    calls(record("mine", "refused", error_code="rate_limited", attempts=0, meta=BOB))
    calls.flush()
    found = calls.find(CallFilter(limit=5000))
    assert len(found) <= 3 * MOST_REFUSALS
    assert sum(it.count for it in found) == 1001
    assert sum(counted(tmp_path).values()) == 1000
    calls.close()


def test_half_a_line_and_a_line_of_another_program_are_no_calls(tmp_path: Path) -> None:
    calls = CallFiles(tmp_path)
    keep(calls, record())
    [path] = tmp_path.glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"mine": true}\n{"id": "0')
    assert [it.tool for it in calls.find(EVERYTHING)] == ["a"]
    calls.close()


def test_a_secret_in_a_name_is_not_kept(tmp_path: Path) -> None:
    calls = CallFiles(tmp_path)
    keep(calls, record("ghp_" + "a1B2" * 9), record("x" * 10_000))
    text = b"".join(it.read_bytes() for it in tmp_path.glob("*.jsonl"))
    assert b"a1B2a1B2" not in text
    assert len(text) < 2000
    calls.close()
