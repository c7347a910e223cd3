"""Commands that are given a pipe: they read it if a process writes to it, and never wait."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.own_machine import Run, in_process
from tests.config.own_folders import use_own_folders

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")

SERVERS = b'{"mcpServers": {"time": {"command": "uvx"}}}'
TOOL = b'{"name": "pay_invoice", "description": "Pay an invoice."}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


@pytest.fixture
def piped() -> Iterator[Callable[[bytes], str]]:
    """Names pipes with something in them, as a shell makes of ``<(…)``."""
    opened: list[int] = []

    def name(content: bytes) -> str:
        reading, writing = os.pipe()
        opened.append(reading)
        os.write(writing, content)
        os.close(writing)
        return f"/dev/fd/{reading}"

    yield name
    for it in opened:
        os.close(it)


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--config"),
        ("remove", "time", "--config"),
        ("search", "pay", "--catalog"),
        ("store", "import"),
        ("import",),
    ],
    ids=" ".join,
)
def test_a_pipe_to_which_nobody_writes_is_an_error(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    said = run(*words, str(path))
    assert said.code != 0
    assert "no process writes to it" in said.err


def test_what_only_reads_takes_a_pipe_of_the_shell(
    run: Run, tmp_path: Path, piped: Callable[[bytes], str]
) -> None:
    assert "time" in run("list", "--config", piped(SERVERS)).out
    assert "pay_invoice" in run("search", "pay", "--catalog", piped(TOOL)).out
    target = tmp_path / "taken.json"
    assert run("import", piped(SERVERS), "--yes", "--config", str(target)).code == 0
    assert list(json.loads(target.read_bytes())["mcpServers"]) == ["time"]
