"""Commands run on a machine of the test's own."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pegboard.cli.main import main

__all__ = ["Run", "Said", "at_a_terminal", "in_process"]

ENTRY = [sys.executable, "-m", "pegboard.cli.main"]


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


def in_process(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs commands in this process; no canary may ever be printed."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = main(list(words))
        said = capsys.readouterr()
        assert "canary" not in (said.out + said.err).lower()
        return Said(code, said.out, said.err)

    return run


def at_a_terminal(*words: str, answers: list[tuple[str, str]]) -> Said:
    """Run a command on a pseudo-terminal; each answer is typed when its question appears."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ENTRY, *words], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown, waiting = "", list(answers)
    try:
        while select.select([ours], [], [], 30)[0]:
            try:
                read = os.read(ours, 4096)
            except OSError:
                break
            if not read:
                break
            shown += read.decode("utf-8", "replace")
            if waiting and waiting[0][0] in shown:
                os.write(ours, f"{waiting.pop(0)[1]}\n".encode())
        return Said(process.wait(30), shown, "")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def golden(name: str) -> bytes:
    """Return the file of a client, as it might be on a user's machine."""
    folder = Path(__file__).parents[1] / "data" / "clients"
    return next(folder.glob(f"{name}.*")).read_bytes()
