"""The JSON store where it cannot be used: no room, no folder, closed, or interrupted."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pegboard.errors import StorageError, StoreUnavailableError
from pegboard.model import Tool
from pegboard.storage import open_store
from pegboard.storage.json_file.disk import JsonDisk
from tests.storage.test_json_file import files, names


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.json"


def test_a_full_disk_is_told_and_changes_nothing(path: Path) -> None:
    script = """
import resource, signal, sys
from pegboard.errors import StoreUnavailableError
from pegboard.model import Tool
from pegboard.storage import Use, open_store
store = open_store(sys.argv[1])
store.save(Tool(name="a"))
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
for attempt in (
    lambda: store.save(Tool(name="b", description="x" * 30_000)),
    lambda: store.save(Tool(name="a", description="x" * 30_000)),
    lambda: store.save_many([Tool(name="c"), Tool(name="d", description="x" * 30_000)]),
    lambda: store.namespace("pins").put("a", "x" * 30_000),
):
    try:
        attempt()
    except StoreUnavailableError as error:
        assert "Make room" in str(error), error
    else:
        raise SystemExit("It was written.")
    assert [it.tool.name for it in store.load_all()] == ["a"]
    assert store.load_all()[0].tool.description == ""
    assert store.namespaces() == []
# There is room for a journal, but not for the file; nothing is lost then.
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], stderr=subprocess.PIPE, check=False
    )
    assert done.returncode == 0, done.stderr
    with open_store(path) as store:
        assert names(store) == ["a"]
        store.save(Tool(name="b"))
    assert files(path) == ["tools.json"]


def test_a_folder_that_vanished_is_told(path: Path) -> None:
    folder = path.parent / "gone"
    with open_store(folder / "tools.json") as store:
        store.save(Tool(name="a"))
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        with pytest.raises(StoreUnavailableError, match="folder"):
            store.save(Tool(name="b"))
        with pytest.raises(StoreUnavailableError, match="folder"):
            store.load_all()
    assert not folder.exists()


def test_a_place_that_cannot_be_is_told(path: Path) -> None:
    path.write_text("a file", "utf-8")
    with pytest.raises(StoreUnavailableError):
        open_store(path / "tools.json")
    folder = path.with_name("folder.json")
    folder.mkdir()
    with pytest.raises(StoreUnavailableError):
        open_store(folder)
    assert files(path) == ["folder.json", "tools.json"]


def test_after_closing_everything_says_so(path: Path) -> None:
    store = open_store(path)
    values = store.namespace("pins")
    store.save(Tool(name="a"))
    store.close()
    store.close()
    attempts = (
        store.load_all,
        store.namespaces,
        store.check,
        values.items,
        lambda: store.save(Tool(name="b")),
        lambda: store.watch(print),
    )
    for attempt in attempts:
        with pytest.raises(StorageError, match="closed"):
            attempt()
    assert files(path) == ["tools.json"]


def run(script: str, path: Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.run(command, encoding="utf-8", check=True, timeout=15, **options)


def test_a_program_that_ends_without_closing_leaves_the_file_whole(path: Path) -> None:
    run(
        """
import sys
from pegboard.model import Tool
from pegboard.storage import open_store
store = open_store(sys.argv[1])
store.save(Tool(name="a"))
""",
        path,
    )
    assert files(path) == ["tools.json"]
    assert list(json.loads(path.read_bytes())["tools"]) == ["a"]


@pytest.mark.parametrize("first", ["pegboard.storage.write_behind", "pegboard.storage.json_file"])
def test_usage_that_is_written_at_the_very_end_is_in_the_file_too(path: Path, first: str) -> None:
    run(
        f"""
import {first}
import sys
from pegboard import Registry, Tool
registry = Registry(storage=sys.argv[1])
def double(number: int) -> int:
    return 2 * number
registry.register(double)
registry.register(Tool(name="a"))
registry.call("double", {{"number": 1}})
""",
        path,
    )
    assert files(path) == ["tools.json", "tools.state.json"]
    with open_store(path) as store:
        assert store.usage()["double"].use_frequency == 1


def test_a_forked_child_that_did_not_use_the_store_leaves_it_alone(path: Path) -> None:
    run(
        """
import os, sys
from pegboard.model import Tool
from pegboard.storage import open_store
store = open_store(sys.argv[1])
store.save(Tool(name="a"))
before = open(sys.argv[1] + ".journal", "rb").read()
child = os.fork()
if child == 0:
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert open(sys.argv[1] + ".journal", "rb").read() == before
assert not os.path.exists(sys.argv[1])
""",
        path,
    )
    assert files(path) == ["tools.json"]


def test_a_handler_of_a_signal_is_told_that_its_own_thread_is_writing(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))

        def plan(_: object) -> Any:
            # As a handler that runs in the middle of a write.
            with pytest.raises(StorageError, match="this very thread"):
                store.save(Tool(name="b"))
            return [], "done"

        assert store._transactions.write(plan) == "done"  # type: ignore[attr-defined]
        store.save(Tool(name="c"))
        assert names(store) == ["a", "c"]


def test_an_interrupt_changes_nothing(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))

        def interrupted(_: object) -> Any:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store._transactions.write(interrupted)  # type: ignore[attr-defined]
        store.save(Tool(name="b"))
        assert names(store) == ["a", "b"]


@pytest.mark.parametrize("interrupted", ["append", "_take"])
def test_a_write_that_is_interrupted_is_kept_as_a_whole_or_not_at_all(
    path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with open_store(path) as store, open_store(path) as other:
        store.save(Tool(name="a"))
        with monkeypatch.context() as patch:
            patch.setattr(JsonDisk, interrupted, interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.save_many([Tool(name="b"), Tool(name="c")])
        assert names(store) == names(other)
        assert names(store) == (["a"] if interrupted == "append" else ["a", "b", "c"])
        store.save(Tool(name="d"))
        assert names(other) == names(store)


def test_without_another_thread_everything_is_kept_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = open_store(path)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    store.save(Tool(name="a"))
    store.save(Tool(name="b"))
    store.close()
    assert "store_fold_failed" in caplog.text
    with open_store(path) as store:
        assert names(store) == ["a", "b"]
    assert files(path) == ["tools.json"]


def test_what_is_wrong_with_the_place_is_said(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        store.close()
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreUnavailableError, match="folder"):
        open_store(path)
    path.rmdir()
    script = """
import os, resource, sys
import pegboard.storage.json_file
from pegboard.errors import StoreUnavailableError
from pegboard.storage import open_store
resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
handles = []
try:
    while True:
        handles.append(os.open("/", os.O_RDONLY))
except OSError:
    pass
try:
    open_store(sys.argv[1])
except StoreUnavailableError as error:
    assert "other files" in str(error), error
"""
    run(script, path)
