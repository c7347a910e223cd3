import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import IO

import pytest

from pegboard.storage import open_store
from tests.storage.conftest import KINDS

PROCESSES = 4
EACH = 1_000 if os.environ.get("PEGBOARD_STRESS") else 100


@pytest.mark.covers("R-REG-40")
@pytest.mark.timeout(300 if EACH > 100 else 60)
@pytest.mark.parametrize("kind", KINDS)
def test_four_processes_lose_nothing_and_hear_of_each_other(
    kind: str, new_url: Callable[[str], str]
) -> None:
    url = new_url(kind)
    with ExitStack() as stack:
        processes = [stack.enter_context(registering(url, me)) for me in range(PROCESSES)]
        # Together from one line to the next, so that no process is done before the last has begun.
        for line in ("ready", "saved"):
            assert [answer(it) for it in processes] == [line] * PROCESSES
            for process in processes:
                tell(process)
        heard = [answer(it) for it in processes]
        assert [it.wait(timeout=15) for it in processes] == [0] * PROCESSES
    assert heard == [str(PROCESSES * EACH)] * PROCESSES
    with open_store(url, tenant="many") as store:
        kept = {it.tool.name for it in store.load_all()}
    assert kept == {f"{who}-{number}" for who in range(PROCESSES) for number in range(EACH)}


@contextmanager
def registering(url: str, me: int) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.storage.registering", url, "many"]
    with subprocess.Popen(
        [*command, str(me), str(PROCESSES), str(EACH)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str]) -> str:
    return pipe(process.stdout).readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    pipe(process.stdin).write("\n")
    pipe(process.stdin).flush()


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
