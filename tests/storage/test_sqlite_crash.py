from pathlib import Path

import pytest

from pegboard.storage import open_store
from tests.storage.crashes import RUNS, crash_runs


@pytest.mark.timeout(20 + 5 * RUNS)
def test_what_was_acknowledged_survives_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "tools.db"
    # One file for all: each run also opens what the one before left.
    crash_runs(lambda _: str(path))
    with open_store(path) as store:
        store.check()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.timeout(20 + 5 * RUNS)
def test_a_writer_killed_early_leaves_a_file_that_opens(tmp_path: Path) -> None:
    crash_runs(lambda run: str(tmp_path / f"{run}.db"))
    assert sorted(it.name for it in tmp_path.iterdir()) == sorted(f"{it}.db" for it in range(RUNS))
