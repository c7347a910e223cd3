"""How many threads the arithmetic of `pegboard serve` has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os
from pegboard.cli.catalogue.tool_options import calculate_on_one_core
before = dict(os.environ)
calculate_on_one_core()
import numpy
matrix = numpy.ones((2000, 2000), numpy.float32)
matrix @ matrix
print(len(os.listdir("/proc/self/task")), dict(os.environ) == before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
@pytest.mark.parametrize(("said", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")])
def test_there_is_one_unless_the_environment_says_how_many(
    said: dict[str, str], threads: str
) -> None:
    plain = {name: it for name, it in os.environ.items() if not name.endswith("_NUM_THREADS")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**plain, **said},
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    )
    assert ended.stdout.split() == [threads, "True"]
