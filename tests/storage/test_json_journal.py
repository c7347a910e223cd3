"""The room behind the last line of a journal, and what a dead writer left there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.model import Tool
from pegboard.storage import open_store
from pegboard.storage.json_file.disk import ROOM
from pegboard.storage.json_file.journal import encode_frame
from tests.storage.test_json_file import files, names


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.json"


@pytest.fixture
def journal(path: Path) -> Path:
    return path.with_name("tools.json.journal")


def left_behind(path: Path, journal: Path, *tools: str) -> bytes:
    """What the journal of a process holds that was killed after it had saved some tools."""
    with open_store(path) as store:
        for name in tools:
            store.save(Tool(name=name))
        content = journal.read_bytes().rstrip(b"\0")
    path.unlink()
    return content


def test_lines_fill_the_room_and_the_file_does_not_grow(path: Path, journal: Path) -> None:
    with open_store(path) as store, open_store(path) as other:
        store.save(Tool(name="a"))
        assert journal.read_bytes().endswith(b"}\n")
        store.save(Tool(name="b"))
        size = journal.stat().st_size
        assert journal.read_bytes().endswith(b"}\n" + b"\0" * ROOM)
        for name in "cdef":
            (store if name in "ce" else other).save(Tool(name=name))
        assert journal.stat().st_size == size
        assert names(store) == names(other) == list("abcdef")
    assert files(path) == ["tools.json"]


def test_a_line_longer_than_the_room_makes_more_of_it(path: Path, journal: Path) -> None:
    with open_store(path) as store, open_store(path) as other:
        for number in range(4):
            store.save(Tool(name=f"{number}", description="x" * ROOM))
            other.save(Tool(name=f"other {number}"))
        assert len(names(store)) == len(names(other)) == 8
        assert b"\0" not in journal.read_bytes().rstrip(b"\0")


def test_a_line_is_noticed_though_size_and_time_of_the_file_are_the_same(
    path: Path, journal: Path
) -> None:
    with open_store(path) as store, open_store(path) as other:
        store.save(Tool(name="a"))
        store.save(Tool(name="b"))
        assert names(other) == ["a", "b"]
        found = journal.stat()
        store.save(Tool(name="c"))
        # As on a file system whose clock ticks slowly.
        os.utime(journal, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert journal.stat().st_size == found.st_size
        assert names(other) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"\0" * 65_536, id="zeros"),
        pytest.param(b'{"sum":"0123', id="the start of a line"),
        pytest.param(b'{"sum":"0123' + b"\0" * 300, id="the start of a line and zeros"),
        pytest.param(b'{"sum":"00000000","do":[]}', id="a line without an end"),
        pytest.param(b"\0" * 300 + b'lost":1}', id="an end without a start"),
        pytest.param(b'{"sum"' + b"\0" * 300 + b"1}", id="a hole in a line"),
    ],
)
@pytest.mark.covers("R-REG-40")
def test_what_a_dead_writer_left_is_not_read_and_taken_away(
    path: Path, journal: Path, rest: bytes
) -> None:
    content = left_behind(path, journal, "a", "b")
    journal.write_bytes(content + rest)
    with open_store(path) as store, open_store(path) as other:
        assert names(store) == names(other) == ["a", "b"]
        for name in "cde":
            store.save(Tool(name=name))
            assert names(other) == names(store)
        written = journal.read_bytes().rstrip(b"\0")
        assert written.startswith(content)
        assert b"\0" not in written
        assert written.count(b"\n") == content.count(b"\n") + 3
    with open_store(path) as store:
        assert names(store) == list("abcde")
    assert files(path) == ["tools.json"]


@pytest.mark.parametrize("zeros", [0, 300])
def test_a_line_with_a_hole_that_was_whole_once_is_kept_aside(
    path: Path, journal: Path, zeros: int, caplog: pytest.LogCaptureFixture
) -> None:
    content = left_behind(path, journal, "a", "b", "c")
    at = content.index(b'"name":"c"')
    journal.write_bytes(content[:at] + b"\0" * 10 + content[at + 10 :] + b"\0" * zeros)
    with open_store(path) as store:
        store.save(Tool(name="d"))
        assert names(store) == ["a", "b", "d"]
    assert "store_journal_damaged" in caplog.text
    assert any(".damaged-" in name for name in files(path))


def test_a_journal_of_zeros_alone_says_nothing(path: Path, journal: Path) -> None:
    journal.write_bytes(b"\0" * 5000)
    with open_store(path) as store, open_store(path) as other:
        for name in "abc":
            store.save(Tool(name=name))
            assert names(other)[-1] == name
    assert files(path) == ["tools.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="There is no such limit.")
def test_on_a_full_disk_each_line_that_fits_is_kept(path: Path) -> None:
    script = """
import resource, sys
from pegboard.errors import StoreUnavailableError
from pegboard.model import Tool
from pegboard.storage import open_store
store = open_store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, resource.RLIM_INFINITY))
kept = []
try:
    for number in range(100):
        store.save(Tool(name=f"{number}"))
        kept.append(f"{number}")
except StoreUnavailableError:
    pass
assert 10 < len(kept) < 100, kept
assert [it.tool.name for it in store.load_all()] == kept
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.save(Tool(name="more"))
assert [it.tool.name for it in store.load_all()] == [*kept, "more"]
"""
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=15)
    assert files(path) == ["tools.json"]


@pytest.mark.parametrize("idle", [False, True])
def test_a_process_with_an_open_store_notices_that_the_journal_was_removed(
    path: Path, journal: Path, *, idle: bool
) -> None:
    with open_store(path) as store:
        if not idle:
            store.save_many([Tool(name="a"), Tool(name="b")])
        with open_store(path) as other:
            other.save(Tool(name="c"))
        assert not journal.exists()
        # As one who is killed now.
        store.save(Tool(name="d"))
        content, whole = journal.read_bytes(), path.read_bytes()
    journal.write_bytes(content)
    path.write_bytes(whole)
    with open_store(path) as store:
        assert names(store) == (["c", "d"] if idle else ["a", "b", "c", "d"])


def test_what_is_said_to_those_who_have_an_old_journal_open_changes_nothing(
    path: Path, journal: Path
) -> None:
    content = left_behind(path, journal, "a", "b")
    # As one who said it, and died before the new journal had its name.
    journal.write_bytes(content + encode_frame([]))
    with open_store(path) as store, open_store(path) as other:
        assert names(store) == ["a", "b"]
        store.save(Tool(name="c"))
        assert names(other) == ["a", "b", "c"]
    assert files(path) == ["tools.json"]
