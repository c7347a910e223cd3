"""Break each requirement on purpose, and see that a test tied to it fails; `make mutants`.

A file of `tests/mutants` holds the mutations of one design document. A mutation replaces a piece
of text that occurs once in its file. In a copy of the checkout, a test with the requirement's id
must then fail, and the witness, another test of the same room, must still pass.

Arguments are ids (`R-SAGE-1`) or documents (`sage`); without any, all. `--check` runs no test: it
says whether every requirement has a mutation that still applies.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import msgspec
from tests.requirements import REQUIRED
from tests.requirements.ties import tied_tests

from scripts.places import ROOT

_DATA = ROOT / "tests" / "mutants"
_LIMIT = 300
"""Seconds for the tests of one mutation."""
_NOT_COPIED = (".git", ".venv", ".tools", ".envs", "site", "dist", "__pycache__", ".*_cache")
_OWN_TESTS = ("-m", "not interop and not interop_full")
_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
_FAILED = 1
"""The exit code of pytest when tests ran and failed; a file that cannot be imported has another."""


class Mutation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of the stated behaviour, and of nothing else."""

    path: str
    """From the root of the checkout."""
    old: str
    new: str
    witness: str
    """The node id of a test that still passes."""


class Case(NamedTuple):
    """A mutation of a requirement, and the tests that must notice it."""

    id: str
    mutation: Mutation
    tests: Sequence[str]


class Verdict(NamedTuple):
    """What became of a mutation; without `fault` it was caught."""

    case: Case
    fault: str
    output: str
    seconds: float

    @property
    def line(self) -> str:
        """Return one line for the terminal."""
        word = self.fault or "caught"
        return f"{self.case.id:12} {self.seconds:5.1f} s  {word}: {REQUIRED[self.case.id]}"


def main(arguments: Sequence[str]) -> int:
    """Check or run the chosen mutations; the exit code is 1 when one does not hold."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("chosen", nargs="*", metavar="ID|DOCUMENT")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--at-once", type=int, default=2)
    options = parser.parse_args(arguments)
    documents = {path.stem: _read(path) for path in sorted(_DATA.glob("*.toml"))}
    everything = {id_: them for document in documents.values() for id_, them in document.items()}
    wanted = set(_chosen(options.chosen, documents)) or {*everything, *_stated()}
    ties = tied_tests()
    cases = [
        Case(id_, mutation, ties.get(id_, []))
        for id_, mutations in everything.items()
        for mutation in mutations
        if id_ in wanted
    ]
    faults = [f"{it.id}: {fault}" for it in cases for fault in _faults(it)]
    if missing := [id_ for id_ in _stated() if id_ in wanted and id_ not in everything]:
        faults.append(f"Without a mutation: {', '.join(missing)}.")
    faults += [f"{id_}: there is no such requirement." for id_ in {*everything} - {*REQUIRED}]
    if faults or options.check:
        sys.stderr.writelines(f"{fault}\n" for fault in faults)
        return 1 if faults else 0
    return _run_all(cases, at_once=options.at_once)


def _read(path: Path) -> dict[str, list[Mutation]]:
    return msgspec.convert(tomllib.loads(path.read_text("utf-8")), dict[str, list[Mutation]])


def _stated() -> Iterator[str]:
    return (id_ for id_ in REQUIRED if id_.startswith("R-"))


def _chosen(words: Iterable[str], documents: dict[str, dict[str, list[Mutation]]]) -> Iterator[str]:
    for word in words:
        if word in documents:
            yield from documents[word]
        elif word in REQUIRED:
            yield word
        else:
            raise SystemExit(f"{word!r} is neither an id nor one of: {', '.join(documents)}.")


def _faults(case: Case) -> Iterator[str]:
    mutation = case.mutation
    if not case.tests:
        yield "no test is tied to it."
    module, _, name = mutation.witness.partition("::")
    function = name.partition("[")[0]
    witness = ROOT / module
    if not witness.is_file() or f"def {function}(" not in witness.read_text("utf-8"):
        yield f"there is no test {mutation.witness}."
    elif f"{module}::{function}" in case.tests:
        yield f"the witness {mutation.witness} is tied to it as well."
    path = ROOT / mutation.path
    if not path.is_file():
        yield f"there is no {mutation.path}."
        return
    count = path.read_text("utf-8").count(mutation.old)
    if count != 1:
        yield f"its `old` is in {mutation.path} {count} times, not once: {mutation.old!r}"
        return
    if path.suffix == ".py":
        try:
            compile(_mutated(path, mutation), mutation.path, "exec")
        except SyntaxError as error:
            yield f"{mutation.path} does not compile with it: {error}"


def _mutated(path: Path, mutation: Mutation) -> str:
    return path.read_text("utf-8").replace(mutation.old, mutation.new)


def _run_all(cases: Sequence[Case], *, at_once: int) -> int:
    started = time.monotonic()
    survivors: list[Verdict] = []
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        ThreadPoolExecutor(at_once) as pool,
    ):
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(at_once):
            copies.put(_copy_of_checkout(Path(folder) / str(number)))
        if broken := _failing_before(cases, copies):
            sys.stdout.write(f"{broken}\nThese tests fail without any mutation.\n")
            return 1
        for done in as_completed([pool.submit(_verdict, case, copies) for case in cases]):
            verdict = done.result()
            sys.stdout.write(f"{verdict.line}\n")
            sys.stdout.flush()
            if verdict.fault:
                survivors.append(verdict)
    for verdict in survivors:
        sys.stdout.write(f"\n{verdict.line}\n{verdict.output[-3000:]}\n")
    minutes = (time.monotonic() - started) / 60
    caught = len(cases) - len(survivors)
    sys.stdout.write(f"{caught} of {len(cases)} mutations caught, {minutes:.1f} minutes\n")
    return 1 if survivors else 0


def _copy_of_checkout(folder: Path) -> Path:
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    if (ROOT / ".tools").exists():
        (folder / ".tools").symlink_to((ROOT / ".tools").resolve())
    # An environment of its own, so that every program which a test starts imports the copy too,
    # whatever it does with its variables. The packages are those of this environment.
    environment = folder / ".venv"
    venv.create(environment, with_pip=False)
    packages = next(environment.glob("lib/python*/site-packages"))
    ours = next(Path(sys.prefix).glob("lib/python*/site-packages"))
    (packages / "mutants.pth").write_text(
        f"{folder / 'src'}\nimport site; site.addsitedir({str(ours)!r})\n", "utf-8"
    )
    command = environment / "bin" / "pegboard"
    words = f"#!{environment}/bin/python\nfrom pegboard.cli.main import main\nmain()\n"
    command.write_text(words, "utf-8")
    command.chmod(0o755)
    return folder


def _failing_before(cases: Sequence[Case], copies: SimpleQueue[Path]) -> str:
    """Return what pytest says when a test of these cases fails without a mutation, else nothing."""
    tests = {test for case in cases for test in (*case.tests, case.mutation.witness)}
    with _taken(copies) as copy:
        run = _pytest(copy, [*sorted(tests), "-n", "2", "--dist", "loadfile"], limit=None)
    return run.stdout if run.returncode else ""


def _verdict(case: Case, copies: SimpleQueue[Path]) -> Verdict:
    started = time.monotonic()
    witness = case.mutation.witness
    with _taken(copies) as copy, _applied(case.mutation, copy):
        # The witness first: the run ends with the first failure.
        try:
            run = _pytest(copy, [witness, *case.tests, "-x"], limit=_LIMIT)
        except subprocess.TimeoutExpired:
            return Verdict(case, "HUNG", "", time.monotonic() - started)
        function = witness.partition("[")[0]
        outcomes = {word for word, name in _OUTCOME.findall(run.stdout) if name == function}
        fault = _fault(run.returncode, of_witness=outcomes)
        return Verdict(case, fault, run.stdout + run.stderr, time.monotonic() - started)


def _fault(code: int, *, of_witness: set[str]) -> str:
    if code not in (0, _FAILED):
        return "NOT RUN"
    if of_witness != {"PASSED"}:
        return "WITNESS FAILED"
    return "" if code == _FAILED else "SURVIVED"


@contextmanager
def _taken(copies: SimpleQueue[Path]) -> Generator[Path]:
    copy = copies.get()
    try:
        yield copy
    finally:
        copies.put(copy)


@contextmanager
def _applied(mutation: Mutation, copy: Path) -> Generator[None]:
    path = copy / mutation.path
    before = path.read_bytes()
    _forget_bytecode(path)
    path.write_text(_mutated(path, mutation), "utf-8")
    try:
        yield
    finally:
        path.write_bytes(before)
        _forget_bytecode(path)


def _forget_bytecode(path: Path) -> None:
    # Python and pytest tell files apart by size and second, which a mutation may leave alone.
    for bytecode in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        bytecode.unlink()


def _pytest(
    copy: Path, arguments: Sequence[str], *, limit: float | None
) -> subprocess.CompletedProcess[str]:
    command = [str(copy / ".venv" / "bin" / "python"), "-m", "pytest", *arguments, *_OWN_TESTS]
    command += ["-q", "-rA", "--tb=short", "-p", "no:cacheprovider"]
    return subprocess.run(  # noqa: S603 - our own tests
        command,
        cwd=copy,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={key: it for key, it in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
        timeout=limit,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
