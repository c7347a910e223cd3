"""How often tools were called, kept in every kind of store."""

import random
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count, islice
from typing import IO

import pytest

from pegboard.model import CallRecord
from pegboard.observe import History
from pegboard.observe.usage_totals import DAILY_USAGE, DailyTotals
from pegboard.storage import Store, open_store
from tests.observe.steps import Killed, step_by_step
from tests.storage.conftest import KINDS

FOR_EVER = 10**9
MIDNIGHT = 1_794_787_200.0
EACH = 40


def fill(store: Store) -> None:
    """Write twelve calls around midnight; ten of them are too many."""
    history = History(store)
    for number in range(12):
        history(CallRecord(f"tool-{number % 2}", MIDNIGHT - 4 + number, number, "ok"))
    history.close()


def usage_of(store: Store) -> list[tuple[str, str, int, float, float]]:
    return [
        (it.day.isoformat(), it.tool, it.calls, it.seconds, it.slowest)
        for it in History(store).usage(FOR_EVER)
    ]


FILLED = [
    ("2026-11-16", "tool-0", 4, 28.0, 10.0),
    ("2026-11-16", "tool-1", 4, 32.0, 11.0),
    ("2026-11-15", "tool-0", 2, 2.0, 2.0),
    ("2026-11-15", "tool-1", 2, 4.0, 3.0),
]


def forget(store: Store) -> None:
    DailyTotals(store, store.namespace("calls")).forget(2)


def check_all_is_folded(store: Store) -> None:
    assert usage_of(store) == FILLED
    assert len(store.namespace("calls").items()) == 2
    days = store.namespace(DAILY_USAGE).items()
    assert {key: it.value["folded"] for key, it in days.items()} == {
        "2026-11-15": [],
        "2026-11-16": [],
    }


@pytest.mark.parametrize("fate", ["killed", "overtaken"])
def test_totals_are_exact_whenever_their_process_is_killed_or_overtaken(
    place: Callable[[str], Store], fate: str
) -> None:
    for moment in count(1):
        with place(str(uuid.uuid4())) as store:
            fill(store)
            was_disturbed = forget_disturbed(store, moment, fate)
            assert usage_of(store) == FILLED
            forget(store)
            check_all_is_folded(store)
        if not was_disturbed:
            # It was done before that moment.
            assert moment > 6
            return


def forget_disturbed(store: Store, moment: int, fate: str) -> bool:
    moments = list[int]()

    def before(number: int) -> None:
        moments.append(number)
        if number == moment and fate == "killed":
            raise Killed
        if number == moment:
            forget(store)

    with suppress(Killed):
        forget(step_by_step(store, before))
    return moment in moments


@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_count_together_and_die_miss_no_call_and_count_none_twice(
    kind: str, new_url: Callable[[str], str]
) -> None:
    url = new_url(kind)
    with ExitStack() as stack:
        processes = [stack.enter_context(calling(url, f"tool-{me}")) for me in range(3)]
        told = b"".join(islice(pipe(processes[0]), random.Random(kind).randrange(1, EACH)))
        processes[0].kill()
        told += pipe(processes[0]).read()
        assert [len(pipe(it).readlines()) for it in processes[1:]] == [EACH, EACH]
    with open_store(url) as store:
        found = {it.tool: it.calls for it in History(store).usage()}
    done = told.count(b"\n")
    # What was under way when it died may be there, too.
    assert found.pop("tool-0") in (done, done + 1)
    assert found == {"tool-1": EACH, "tool-2": EACH}


def calling(url: str, tool: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.storage.calling", url, tool, str(EACH)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def pipe(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout
