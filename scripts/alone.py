"""Run each file of tests by itself, its tests in a random order; `make alone` calls this.

Arguments are files or folders; without any, all of `tests`. `--at-once` says how many files run
together, `--seed` repeats an order.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from scripts.places import ROOT

_NO_TESTS = 5
"""The exit code of pytest for a file whose tests are all deselected."""


class Run(NamedTuple):
    """How one file ended."""

    path: Path
    code: int
    seconds: float
    output: str

    @property
    def has_failed(self) -> bool:
        """Say whether a test of the file failed."""
        return self.code not in (0, _NO_TESTS)

    @property
    def summary(self) -> str:
        """Return the names of the tests that failed, as pytest lists them."""
        return self.output.rpartition("short test summary info")[2].strip(" =\n")


def main(arguments: Sequence[str]) -> int:
    """Run the files, print how each ended, and which tests failed at the end."""
    parser = argparse.ArgumentParser(prog="make alone", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / "tests"])
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--seed", default=str(int(time.time())))
    chosen = parser.parse_args(arguments)
    started = time.monotonic()
    failed: list[Run] = []
    files = list(_files(chosen.paths))
    with ThreadPoolExecutor(chosen.at_once) as pool:
        runs = [pool.submit(_run, path, chosen.seed) for path in files]
        for done in as_completed(runs):
            run = done.result()
            word = "FAILED" if run.has_failed else "passed"
            sys.stdout.write(f"{word} {run.seconds:6.1f} s  {run.path}\n")
            if run.has_failed:
                failed.append(run)
                sys.stdout.write(f"{run.output}\n")
            sys.stdout.flush()
    for run in failed:
        sys.stdout.write(f"\n{run.path}\n{run.summary}\n")
    minutes = (time.monotonic() - started) / 60
    sys.stdout.write(
        f"{len(files)} files, {len(failed)} failed, {minutes:.1f} minutes, --seed {chosen.seed}\n"
    )
    return 1 if failed else 0


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        yield from (it.resolve().relative_to(ROOT) for it in found)


def _run(path: Path, seed: str) -> Run:
    marks = ["-m", "not interop and not interop_full"]
    command = [sys.executable, "-m", "pytest", "-q", *marks, "--shuffle", seed, str(path)]
    started = time.monotonic()
    done = subprocess.run(  # noqa: S603 - our own tests
        command, cwd=ROOT, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    return Run(path, done.returncode, time.monotonic() - started, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
