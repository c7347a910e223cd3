"""Kills writers with signal 9 at random moments, and looks at what they leave."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from pegboard.storage import open_store
from tests.storage.crash_writer import Content, content_of, operations

RUNS = int(os.environ.get("PEGBOARD_CRASH_RUNS", "4"))
"""How many runs a test of crashes does; give it ``pytest.mark.timeout(20 + 5 * RUNS)``."""

ROOT = Path(__file__).parents[2]


WRITER = "tests.storage.crash_writer"


def crash_runs(url_of_run: Callable[[int], str], runs: int = RUNS, *, writer: str = WRITER) -> None:
    """Kill one writer after the other; all may write to the same store, each for its tenant."""
    for run in range(runs):
        crash_run(url_of_run(run), run, writer=writer)


def crash_run(url: str, run: int, *, writer: str = WRITER) -> None:
    """Kill one writer, and compare what is there with what it was told is there."""
    tenant = f"run-{run}"
    done = acknowledged([writer, url, tenant], run)
    expected = Content()
    for operation in islice(operations(run), done):
        expected.change(operation)
    found = settled(url, tenant)
    if found != expected:
        # The one under way when the writer died may be there too: all of it.
        expected.change(next(islice(operations(run), done, None)))
        assert found == expected, f"run {run}, after {done} acknowledged operations"


def acknowledged(command: Sequence[str], seed: int) -> int:
    """Let a writer run for a while, kill it, and return how many operations it said were done."""
    moment = random.Random(seed)
    wanted = moment.randrange(1, 60)
    extra = moment.randrange(0, 30_000)
    writer = subprocess.Popen(
        [sys.executable, "-m", *command, str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    with writer:
        assert writer.stdout is not None
        told = b"".join(islice(writer.stdout, wanted))
        for _ in range(extra):
            pass
        writer.kill()
        told += writer.stdout.read()
    lines = told.split(b"\n")[:-1]
    assert lines == [b"%d" % number for number in range(1, len(lines) + 1)]
    assert len(lines) >= wanted, f"The writer stopped by itself with {writer.returncode}."
    return len(lines)


def settled(url: str, tenant: str) -> Content:
    """What is in the store, once a server has finished what the dead writer asked it to do."""
    with open_store(url, tenant=tenant) as store:
        found = content_of(store)
        while found != (found := content_of(store)):
            pass
        return found
