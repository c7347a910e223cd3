"""Streams that are closed, or that take no more."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.own_machine import ENTRY
from tests.config.own_folders import use_own_folders

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="redirections and /dev/full")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_folders(tmp_path, monkeypatch)


def run(words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    # Redirections are the shell's.
    command = f"{shlex.join(ENTRY)} {words} {redirection}"
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, encoding="utf-8", timeout=50, check=False
    )


@pytest.mark.parametrize(
    "redirection", [">&-", "2>&-", "<&-", "2>/dev/full", "2>&- >&-", "<&- >&- 2>&-"]
)
@pytest.mark.parametrize(("words", "code"), [("list", 3), ("enable x", 3), ("keys list", 0)])
def test_a_closed_stream_that_is_not_needed_changes_nothing(
    words: str, code: int, redirection: str
) -> None:
    ended = run(words, redirection)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    assert "AttributeError" not in ended.stderr


def test_a_command_that_writes_files_writes_none_of_its_words_into_them(home: Path) -> None:
    ended = run("keys create --store it.db", "<&- >&- 2>&-")
    assert ended.returncode == 1
    assert run("keys create --store it.db --json", "<&- 2>&-").returncode == 0
    assert run("keys list --store it.db", "").stdout.count("valid") == 1
    assert (home.parent / "it.db").read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--version", "list --json", "add --help", "config schema"])
@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")],
)
def test_a_result_that_cannot_be_written_is_told(
    words: str, redirection: str, reason: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    run("add a", "-- x")
    ended = run(words, redirection)
    assert ended.returncode == 1
    assert ended.stderr == f"error: The output cannot be written: {reason}.\n"


def test_whoever_reads_no_more_hears_nothing() -> None:
    ended = run("--help", "| true")
    assert ended.stderr == ""
