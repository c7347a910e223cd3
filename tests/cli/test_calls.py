"""`pegboard calls`, and times in the JSON of all commands."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pegboard.cli.commands.calls import MOST_AT_ONCE, _following  # pyright: ignore[reportPrivateUsage] - no process needed
from pegboard.model import CallRecord, Phases
from pegboard.model.call import HoldingRecord
from pegboard.observe.call_entry import CallEntry, CallFilter
from pegboard.observe.call_files import CallFiles
from pegboard.observe.call_reporter import caller_of
from tests.cli.handy import ENTRY, Home
from tests.cli.test_running_gateway import gateway


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def keep(home: Home, *calls: CallRecord) -> None:
    """Keep calls as a gateway does."""
    files = CallFiles(home.folder / "data" / "pegboard" / "pegboard.db.calls")
    for it in calls:
        files(it)
    files.close()


def ended(tool: str, outcome: Any = "ok", *, tenant: str = "default", ago: float = 0) -> CallRecord:
    return HoldingRecord(
        tool,
        time.time() - ago,
        2.0,
        outcome,
        None if outcome == "ok" else "boom",
        1,
        meta=caller_of(tenant, "pb_1", "cursor"),
        server="files",
        phases=Phases(at_server=1.5),
    )


def tools_in(said: str) -> list[str]:
    return [it["tool"] for it in json.loads(said)]


def test_calls_are_shown_without_a_gateway_the_newest_last(home: Home) -> None:
    keep(home, ended("old", ago=7200), ended("bad", "timeout"), ended("theirs", tenant="blue"))
    shown = home.main("calls")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert [it[-7] for it in lines[1:]] == ["old", "bad", "theirs"]
    assert "blue/pb_1" in shown.stdout
    assert tools_in(home.main("calls", "--json", "--failed").stdout) == ["bad"]
    assert tools_in(home.main("calls", "--json", "--since", "1h").stdout) == ["bad", "theirs"]
    assert tools_in(home.main("calls", "--json", "--tenant", "blue").stdout) == ["theirs"]
    assert tools_in(home.main("calls", "--json", "--tool", "o*").stdout) == ["old"]
    assert tools_in(home.main("calls", "--json", "--key", "pb_2").stdout) == []
    one = home.main("calls", "--json", "--limit", "1")
    assert tools_in(one.stdout) == ["theirs"]
    assert one.stderr == "(2 older calls not shown; `--limit 3` shows more)\n"
    assert home.main("calls", "--limit", "3").stderr == ""


def test_a_call_that_is_not_ok_says_why_and_names_no_phase_where_it_waited_for_nothing(
    home: Home,
) -> None:
    def refused(tool: str, seconds: float) -> CallRecord:
        spent = Phases(connecting=seconds * 0.9)
        return HoldingRecord(tool, time.time(), seconds, "refused", "not_found", phases=spent)

    keep(home, refused("misspelt", 0.0004), refused("awaited", 2.0), ended("slow", "timeout"))
    misspelt, awaited, slow = home.main("calls").stdout.splitlines()[-3:]
    assert re.search(r"refused not_found +misspelt +0\.4 ms$", misspelt.rstrip())
    assert re.search(r"refused not_found +awaited +2,000\.0 ms +connecting$", awaited.rstrip())
    assert re.search(r"timeout boom +slow +2,000\.0 ms +at server", slow)


def test_one_call_is_shown_in_full(home: Home) -> None:
    keep(home, ended("one"))
    [found] = json.loads(home.main("calls", "--json").stdout)
    assert json.loads(home.main("calls", found["id"], "--json").stdout) == found
    shown = home.main("calls", found["id"]).stdout
    assert "client:         cursor" in shown
    assert re.search(r"at_server\s+1,500.0 ms  #{30}\n", shown)
    absent = home.main("calls", "nothing")
    assert (absent.returncode, absent.stdout) == (3, "")
    assert "No call 'nothing' is kept" in absent.stderr


def test_where_no_calls_are_kept_nothing_is_made(home: Home) -> None:
    said = home.main("calls")
    assert (said.returncode, said.stdout) == (0, "")
    assert "No calls are kept.\n" in said.stderr
    # "Such" needs something that was asked for.
    assert "No such calls are kept.\n" in home.main("calls", "--failed").stderr
    assert not (home.folder / "data").exists()


def test_a_gateway_shows_calls_at_once_and_follows_them(home: Home) -> None:
    with gateway(home):
        assert home.main("call", "mcp_handy_echo", "text=hi").returncode == 0
        assert tools_in(home.main("calls", "--json").stdout) == ["mcp_handy_echo"]
        following = subprocess.Popen(
            [*ENTRY, "calls", "-f", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env=home.environ,
            cwd=home.folder,
        )
        try:
            assert following.stdout is not None
            assert json.loads(following.stdout.readline())["tool"] == "mcp_handy_echo"
            home.main("call", "mcp_handy_fail")
            latest = json.loads(following.stdout.readline())
            assert (latest["tool"], latest["outcome"]) == ("mcp_handy_fail", "tool_error")
            following.send_signal(signal.SIGINT)
            following.wait(20)
        finally:
            following.kill()
            following.communicate()
        [server] = json.loads(home.main("status", "--json").stdout)["servers"]
        assert (server["calls"], server["failed_calls"]) == (2, 1)
    # The gateway is gone, and its calls are still there.
    assert tools_in(home.main("calls", "--json").stdout) == ["mcp_handy_echo", "mcp_handy_fail"]
    used = {it["tool"]: it for it in json.loads(home.main("usage", "--json").stdout)["tools"]}
    assert {tool: it["calls"] for tool, it in used.items()} == {
        "mcp_handy_echo": 1,
        "mcp_handy_fail": 1,
    }


TIMES = {"started", "created", "expires", "revoked", "last_used", "time", "at", "ended", "since"}
LISTINGS = (
    "calls",
    "usage",
    "status",
    "list",
    "tools",
    "categories",
    "cost",
    "keys list",
    "store info",
    "logs",
    "config path",
    "config check",
    "doctor",
    "import --dry-run",
)


def test_following_shows_every_call_however_many_end_between_two_looks(tmp_path: Path) -> None:
    files = CallFiles(tmp_path)
    files(ended("first"))
    looks: list[CallFilter] = []

    def find(wanted: CallFilter) -> list[CallEntry]:
        looks.append(wanted)
        assert len(looks) < 20, "the calls never come"
        return files.find(wanted)

    wanted = CallFilter(limit=20)
    following = _following(find, wanted, files.find(wanted))
    assert next(following).tool == "first"
    number = 2 * MOST_AT_ONCE + 500
    for it in range(number):
        files(ended(str(it)))
    assert [it.tool for it in islice(following, number)] == [str(it) for it in range(number)]
    files(ended("last"))
    assert next(following).tool == "last"
    files.close()


def fields_in(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, it in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield name, it  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from fields_in(it)
    elif isinstance(value, list):
        for it in value:  # pyright: ignore[reportUnknownVariableType]
            yield from fields_in(it)


def test_every_time_in_json_is_iso_8601_with_its_zone(home: Home) -> None:
    keep(home, ended("one"))
    assert home.main("keys", "create", "--expires", "90d").returncode == 0
    assert home.main("call", "mcp_handy_echo", "text=hi").returncode == 0
    seen: set[str] = set()
    for words in LISTINGS:
        said = home.main(*words.split(), "--json").stdout
        documents = said.splitlines() if words == "logs" else [said]
        for name, value in (it for doc in documents if doc for it in fields_in(json.loads(doc))):
            looks_like_epoch = isinstance(value, int | float) and 1e9 < value < 1e10
            assert not looks_like_epoch, (words, name, value)
            if name in TIMES and isinstance(value, str):
                assert datetime.fromisoformat(value).tzinfo is not None, (words, name, value)
                seen.add(name)
    assert seen >= {"started", "created", "expires", "last_used"}
