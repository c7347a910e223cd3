"""The JSON store when its writers are killed."""

from pathlib import Path

import pytest

from tests.storage.crashes import RUNS, WRITER, crash_runs


@pytest.mark.timeout(20 + 5 * RUNS)
@pytest.mark.covers("R-REG-40")
@pytest.mark.parametrize("writer", [WRITER, "tests.storage.json_crash_writer"])
def test_a_killed_writer_loses_nothing_it_was_told_is_kept_and_leaves_nothing_behind(
    tmp_path: Path, writer: str
) -> None:
    crash_runs(lambda _: str(tmp_path / "tools.json"), writer=writer)
    left = {path.name for path in tmp_path.iterdir()}
    known = {f"tools.run-{run}{part}.json" for run in range(RUNS) for part in ("", ".state")}
    assert left <= known
