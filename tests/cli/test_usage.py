"""`pegboard usage`."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pegboard import Tool
from pegboard.cli.main import main
from pegboard.model import CallRecord
from pegboard.observe.call_files import CallFiles
from pegboard.storage import Use, open_store
from pegboard.storage.open_store import calls_place

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)

    def running(*words: str) -> tuple[int, str, str]:
        code = main(["usage", "--store", str(tmp_path / "it.db"), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return running


@pytest.fixture
def called(tmp_path: Path) -> None:
    """A gateway was used for a while."""
    url = str(tmp_path / "it.db")
    with open_store(url) as store:
        store.save_many(Tool(name=name) for name in ("send", "wait", "idle_one", "idle_two"))
        moment = datetime.now(UTC)
        store.add_usage({"send": Use(3, moment), "wait": Use(1, moment)})
    place = calls_place(url)
    assert place is not None
    calls = CallFiles(place)
    for tool, took, outcome in (
        ("send", 0.01, "ok"),
        ("send", 0.02, "ok"),
        ("send", 0.03, "tool_error"),
        ("wait", 12.0, "ok"),
    ):
        calls(CallRecord(tool, time.time(), took, outcome, attempts=1))  # pyright: ignore[reportArgumentType]
    calls.close()


@pytest.mark.usefixtures("called")
def test_it_says_what_is_used_slow_failing_and_idle(run: Run) -> None:
    code, out, told = run()
    assert (code, told) == (0, "")
    most, slow, failing, idle = out.strip().split("\n\n")
    assert most.splitlines()[2].split()[:3] == ["send", "3", "33%"]
    assert slow.splitlines()[2].split()[:2] == ["wait", "1"]
    assert "12.0 s" in slow
    assert failing.splitlines()[2:] == [failing.splitlines()[-1]]
    assert "tool_error 1" in failing
    assert idle == "Never used (2): idle_one, idle_two"
    assert "idle_one, and 1 more" in run("--limit", "1")[1]


@pytest.mark.usefixtures("called")
def test_json_has_all_of_it(run: Run) -> None:
    found = json.loads(run("--json", "--days", "7", "--limit", "1")[1])
    assert found["days"] == 7
    assert found["never_used"] == ["idle_one", "idle_two"]
    assert [it["tool"] for it in found["tools"]] == ["send", "wait"]
    first = found["tools"][0]
    assert (first["calls"], first["failed"], first["calls_ever"]) == (3, 1, 3)
    assert first["mean_seconds"] == pytest.approx(0.02)


def test_where_nothing_is_kept_nothing_is_made(tmp_path: Path, run: Run) -> None:
    code, out, told = run()
    assert (code, out, "no store" in told) == (0, "", True)
    assert json.loads(run("--json")[1]) == {"days": 30, "tools": [], "never_used": []}
    assert told.count("no calls are recorded") == len(told.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("called")
def test_a_broken_configuration_costs_only_what_servers_offer(tmp_path: Path, run: Run) -> None:
    (tmp_path / "mcp.json").write_text("{", encoding="utf-8")
    code, out, told = run()
    assert (code, "send" in out, "left out" in told) == (0, True, True)


def test_no_days_are_misuse(run: Run) -> None:
    assert run("--days", "0")[0] == 2


def test_a_tool_that_only_the_store_knows_of_is_not_missing(tmp_path: Path, run: Run) -> None:
    with open_store(str(tmp_path / "it.db")) as store:
        store.save_many(Tool(name=name) for name in ("send", "idle"))
        store.add_usage({"send": Use(3, datetime.now(UTC))})
    found = json.loads(run("--json")[1])
    [tool] = found["tools"]
    assert (tool["tool"], tool["calls"], tool["calls_ever"]) == ("send", 3, 3)
    assert tool["last_used"] is not None
    assert found["never_used"] == ["idle"]


@pytest.mark.usefixtures("called")
def test_a_damaged_record_counts_for_nothing(run: Run, tmp_path: Path) -> None:
    before = run("--json")
    (path,) = tmp_path.glob("it.db.calls/*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"junk": 1}\n{"id"')
    assert run("--json") == before
    assert before[0] == 0
