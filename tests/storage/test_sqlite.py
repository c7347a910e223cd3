import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from typing import Any, cast

import pytest

from pegboard.errors import RevisionConflictError, StorageError, StoreUnavailableError
from pegboard.model import Tool, Usage
from pegboard.storage import Store, StoreChange, StoredTool, Use, open_store
from pegboard.storage.sqlite.database import SqliteDatabase
from pegboard.testing import Memory

ROOT = Path(__file__).parents[2]
WHEN = datetime(2026, 11, 16, 2, tzinfo=UTC)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
# Newer Pythons warn of what these tests are about.
quietly = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.db"


def names(store: Store) -> list[str]:
    return [it.tool.name for it in store.load_all()]


def test_files_and_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "tools.db"
    before = os.umask(0)
    try:
        with open_store(path) as store:
            store.save(Tool(name="secret"))
            modes = {it.name: it.stat().st_mode & 0o777 for it in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"tools.db": 0o600, "tools.db-wal": 0o600, "tools.db-shm": 0o600}
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_last_to_close_leaves_one_file(path: Path) -> None:
    one, other = open_store(path), open_store(path, tenant="other")
    stop = one.watch(print)
    one.save(Tool(name="first"))
    one.close()
    other.save(Tool(name="second"))
    assert names(other) == ["second"]
    other.close()
    other.close()
    stop()
    assert list(path.parent.iterdir()) == [path]
    with open_store(path) as store:
        assert names(store) == ["first"]


def test_odd_names_of_files_are_just_names(tmp_path: Path) -> None:
    for name in ("with space.db", "what?mode=ro.db", "a#b%20c.db", "ünï\N{SNOWMAN}.db", "'\".db"):
        with open_store(tmp_path / name) as store:
            store.save(Tool(name="one"))
        assert (tmp_path / name).exists()


def test_a_path_through_a_link_is_the_file_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "there" / "real.db")
    with (
        open_store(tmp_path / "link.db") as one,
        open_store(tmp_path / "there" / "real.db") as other,
    ):
        one.save(Tool(name="seen"))
        assert names(other) == ["seen"]


def test_a_relative_path_stays_where_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with open_store("tools.db") as store:
        monkeypatch.chdir("/")
        store.save(Tool(name="here"))
        assert names(store) == ["here"]
    assert path.exists()


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "file").write_text("not a folder", "utf-8")
    for path in (tmp_path / "folder.db", tmp_path / "file" / "tools.db"):
        with pytest.raises(StoreUnavailableError):
            open_store(path)
    assert (tmp_path / "file").read_text("utf-8") == "not a folder"


@pytest.mark.parametrize("way", ["removed", "folder removed", "moved"])
def test_a_file_that_vanished_is_neither_read_nor_written(tmp_path: Path, way: str) -> None:
    path = tmp_path / "folder" / "tools.db"
    with open_store(path) as store:
        store.save(Tool(name="kept"))
        match way:
            case "removed":
                path.unlink()
            case "folder removed":
                shutil.rmtree(path.parent)
            case _:
                path.rename(tmp_path / "elsewhere.db")
        for attempt in attempts(store):
            with pytest.raises(StoreUnavailableError):
                attempt()
        assert not path.exists()
        if way == "moved":
            (tmp_path / "elsewhere.db").rename(path)
            store.save(Tool(name="more"))
            assert names(store) == ["kept", "more"]


def test_a_file_that_was_replaced_is_neither_read_nor_written(path: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "new.db") as new:
        new.save(Tool(name="of another file"))
    with open_store(path) as store:
        store.save(Tool(name="kept"))
        (tmp_path / "new.db").replace(path)
        before = path.read_bytes()
        for attempt in attempts(store):
            with pytest.raises(StoreUnavailableError):
                attempt()
        assert path.read_bytes() == before


def attempts(store: Store) -> list[Callable[[], object]]:
    return [
        store.load_all,
        store.usage,
        lambda: store.save(Tool(name="late")),
        lambda: store.save_many([Tool(name="late"), Tool(name="later")]),
        lambda: store.delete("kept"),
        lambda: store.add_usage({"kept": Use(1, WHEN)}),
        lambda: store.namespace("room").put("key", 1),
        lambda: store.namespace("room").get("key"),
        lambda: store.watch(print),
    ]


FULL_DISK = """
import resource, sys
from pegboard.errors import StoreUnavailableError
from pegboard.model import Tool
from pegboard.storage import open_store
def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
def tool(number): return Tool(name=f"{number:03}", description="x" * 5_000)
with open_store(sys.argv[1]) as store:
    done = []
    limit(400_000)
    try:
        for number in range(1_000):
            store.save(tool(number))
            done.append(f"{number:03}")
    except StoreUnavailableError as error:
        assert error.__cause__ is not None
    assert 10 < len(done) < 1_000, done
    assert [it.tool.name for it in store.load_all()] == done
    for attempt in range(2):
        try:
            store.save_many(tool(number) for number in range(1_000))
        except StoreUnavailableError:
            pass
        else:
            raise AssertionError("It was full.")
        assert [it.tool.name for it in store.load_all()] == done
    limit(resource.RLIM_INFINITY)
    store.save(tool(999))
    print(len(done))
"""


def test_on_a_full_disk_nothing_changes_and_later_it_goes_on(path: Path) -> None:
    done = int(run(FULL_DISK, path))
    with open_store(path) as store:
        store.check()
        assert len(names(store)) == done + 1
    assert list(path.parent.iterdir()) == [path]


READ_ONLY = """
import os, sys
from pathlib import Path
from pegboard.errors import StoreUnavailableError
from pegboard.model import Tool
from pegboard.storage import open_store, sqlite
path = Path(sys.argv[1])
path.chmod(0o444)
path.parent.chmod(0o555)
if os.getuid() == 0:
    os.setuid(65534)
for attempt in (
    lambda: open_store(path).save(Tool(name="late")),
    lambda: open_store(path.with_name("new.db")),
    lambda: open_store(path.parent / "folder" / "new.db"),
):
    try:
        attempt()
    except StoreUnavailableError:
        continue
    raise AssertionError("It was written.")
"""


def test_what_may_not_be_written_is_not_written() -> None:
    # Not below `tmp_path`, where only its owner may look.
    folder = Path(subprocess.check_output(["mktemp", "-d"], encoding="utf-8").strip())
    path = folder / "tools.db"
    try:
        with open_store(path) as store:
            store.save(Tool(name="kept"))
        before = path.read_bytes()
        run(READ_ONLY, path)
        assert path.read_bytes() == before
        assert list(folder.iterdir()) == [path]
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


READER = """
import os, sys
from pathlib import Path
from pegboard.errors import StoreUnavailableError
from pegboard.model import Tool
from pegboard.storage import open_store, sqlite
path, is_open = Path(sys.argv[1]), sys.argv[2] == "open"
if os.getuid() == 0:
    os.setuid(65534)
before = sorted(path.parent.iterdir())
try:
    with open_store(path) as store:
        assert is_open, "It was not refused."
        assert [it.tool.name for it in store.load_all()] == ["kept"]
        store.check()
        store.watch(print)()
        store.save(Tool(name="late"))
except StoreUnavailableError as error:
    assert ("is not writable" if is_open else "may only read") in str(error), error
else:
    raise AssertionError("It was written.")
assert sorted(path.parent.iterdir()) == before
"""


def test_who_may_only_read_leaves_nothing_that_locks_the_owner_out() -> None:
    folder = Path(subprocess.check_output(["mktemp", "-d"], encoding="utf-8").strip())
    path = folder / "tools.db"
    try:
        folder.chmod(0o777)
        with open_store(path) as store:
            store.save(Tool(name="kept"))
            for it in folder.iterdir():
                it.chmod(0o444)
            run(READER, path, "open")
        assert list(folder.iterdir()) == [path]
        run(READER, path, "closed")
        path.chmod(0o644)
        with open_store(path) as store:
            store.save(Tool(name="more"))
            assert names(store) == ["kept", "more"]
    finally:
        shutil.rmtree(folder)


NO_DESCRIPTORS = """
import os, resource, sys
from pegboard.errors import StoreUnavailableError
from pegboard.model import Tool
from pegboard.storage import open_store
store = open_store(sys.argv[1])
store.save(Tool(name="a"))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for attempt in (store.load_all, lambda: open_store(sys.argv[1])):
    try:
        attempt()
    except StoreUnavailableError as error:
        assert "ulimit -n" in str(error), error
    else:
        raise AssertionError("There was one left.")
for it in taken:
    os.close(it)
assert len(store.load_all()) == 1
store.close()
"""


def test_without_a_descriptor_left_the_error_says_so(path: Path) -> None:
    run(NO_DESCRIPTORS, path)


def test_what_is_not_a_tool_is_refused_in_words(path: Path) -> None:
    with open_store(path) as file, Memory().open() as memory:
        for store in (file, memory):
            for attempt in (store.save, lambda it, store=store: store.save_many([it])):
                with pytest.raises(TypeError, match="A store saves tools, not 'str'"):
                    attempt(cast("Any", "x"))
            assert names(store) == []


def test_revisions_grow_with_every_writer_and_whatever_is_undone(path: Path) -> None:
    with open_store(path) as one, open_store(path) as other:
        given = [one.save(Tool(name="a")), other.save(Tool(name="b")), one.save(Tool(name="c"))]
        with pytest.raises(KeyboardInterrupt):
            one.save_many([Tool(name="d")], on_progress=give_up)
        given += [other.namespace("room").put("key", 1), one.namespace("room").put("key", 2)]
        given += [one.save(Tool(name="d")), other.save(Tool(name="d"))]
        assert given == sorted(set(given))


def give_up(done: int, total: int) -> None:
    raise KeyboardInterrupt


def run(program: str, path: Path, *arguments: str) -> str:
    """What a program prints that has a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_threads_and_stores_of_one_process_lose_nothing(path: Path) -> None:
    with open_store(path) as one, open_store(path) as other:

        def save(number: int) -> None:
            store = one if number % 2 else other
            store.save(Tool(name=f"{number:03}"), expected=None)
            store.add_usage({"all": Use(1, WHEN)})

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(save, range(160)))
        assert names(one) == names(other) == [f"{number:03}" for number in range(160)]
        assert one.usage()["all"].use_frequency == 160


@forks
@quietly
def test_a_child_that_opens_the_file_itself_and_its_parent_both_write(path: Path) -> None:
    told: Queue[StoreChange] = Queue()
    with open_store(path) as store:
        store.watch(told.put)
        store.save(Tool(name="before"))
        assert told.get(timeout=5).tools == {"before"}
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with open_store(path) as own:
                    for number in range(20):
                        own.save(Tool(name=f"child-{number}"))
                    code = len(own.load_all()) < 21
            finally:
                os._exit(code)
        for number in range(20):
            store.save(Tool(name=f"parent-{number}"))
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert len(names(store)) == 41
        store.save(Tool(name="after"))
        seen: set[str] = set()
        while "after" not in seen:
            seen |= told.get(timeout=5).tools
        assert len(seen) == 41
    assert list(path.parent.iterdir()) == [path]


@forks
@quietly
def test_a_child_forked_amid_writes_of_other_threads_can_write(path: Path) -> None:
    stopping = threading.Event()
    saved: list[str] = []

    def keep_saving() -> None:
        while not stopping.is_set():
            name = f"parent-{len(saved)}"
            store.save(Tool(name=name))
            saved.append(name)

    with open_store(path) as store, ThreadPoolExecutor(1) as threads:
        writer = threads.submit(keep_saving)
        for number in range(5):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    with open_store(path) as own:
                        own.save(Tool(name=f"child-{number}"))
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
        stopping.set()
        writer.result()
        assert set(names(store)) == {*saved, *(f"child-{number}" for number in range(5))}
        store.check()


@forks
@quietly
def test_the_parent_may_close_while_its_child_goes_on(path: Path) -> None:
    store = open_store(path)
    store.save(Tool(name="before"))
    child_may_go, go = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = open_store(path)
            own.save(Tool(name="child-1"))
            os.read(child_may_go, 1)
            own.save(Tool(name="child-2"))
            # It ends without closing, as if it were killed.
            code = 0
        finally:
            os._exit(code)
    store.close()
    os.write(go, b"!")
    assert os.waitpid(child, 0)[1] == 0
    os.close(go)
    os.close(child_may_go)
    with open_store(path) as again:
        assert names(again) == ["before", "child-1", "child-2"]


def test_a_batch_that_is_given_up_half_way_leaves_nothing(path: Path) -> None:
    tools = [Tool(name=f"{number:04}") for number in range(1_200)]
    with open_store(path) as store:
        with pytest.raises(KeyboardInterrupt):
            store.save_many(tools, on_progress=give_up)
        assert names(store) == []
        with pytest.raises(StorageError, match="progress"):
            store.save_many(tools, on_progress=lambda *_: store.save(Tool(name="more")))
        assert names(store) == []
        told: list[tuple[int, int]] = []
        store.save_many(tools, on_progress=lambda *it: told.append(it))
        assert told == [(500, 1_200), (1_000, 1_200), (1_200, 1_200)]
        assert len(names(store)) == 1_200


@pytest.mark.parametrize("at", [500, 1_200])
def test_a_batch_during_which_the_store_is_closed_fails(path: Path, at: int) -> None:
    tools = [Tool(name=f"{number:04}") for number in range(1_200)]
    store = open_store(path)

    def close(done: int, total: int) -> None:
        if done == at:
            store.close()

    with pytest.raises(StorageError):
        store.save_many(tools, on_progress=close)
    with open_store(path) as again:
        assert names(again) == []


def test_counts_stay_whole_numbers_and_the_last_use_never_goes_back(path: Path) -> None:
    most = 2**63 - 1
    with open_store(path) as store:
        store.set_usage({"much": Usage(use_frequency=most - 1, last_used=WHEN)})
        store.add_usage({"much": Use(most, WHEN - timedelta(days=1)), "new": Use(1, WHEN)})
        store.set_usage({"never": Usage()})
        store.add_usage({"never": Use(2, WHEN)})
        assert store.usage() == {
            "much": Usage(use_frequency=most, last_used=WHEN),
            "never": Usage(use_frequency=2, last_used=WHEN),
            "new": Usage(use_frequency=1, last_used=WHEN),
        }
        for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
            store.add_usage({"edge": Use(1, moment)})
        assert store.usage(["edge"])["edge"].last_used == datetime.max.replace(tzinfo=UTC)


def test_a_deleted_tool_comes_back_without_its_past(path: Path) -> None:
    with open_store(path) as store:
        first = store.save(StoredTool(tool=Tool(name="one"), extras={"color": "blue"}))
        store.add_usage({"one": Use(3, WHEN)})
        assert store.delete("one")
        assert not store.delete("one")
        with pytest.raises(RevisionConflictError):
            store.save(Tool(name="one"), expected=first)
        second = store.save(Tool(name="one"), expected=None)
        assert second > first
        assert store.load(["one"])["one"].extras == {}
        assert store.usage() == {}


def age_traces(path: Path) -> None:
    """Let all that was deleted so far be deleted long ago."""
    connection = sqlite3.connect(path, timeout=10)
    for table in ("tools", "entries"):
        connection.execute(f"UPDATE {table} SET deleted_at = 0 WHERE deleted_at IS NOT NULL")
    connection.commit()
    connection.close()


def traces(path: Path) -> int:
    connection = sqlite3.connect(path)
    [count] = connection.execute("""SELECT (SELECT count(*) FROM tools WHERE body IS NULL)
        + (SELECT count(*) FROM entries WHERE value IS NULL)""").fetchone()
    connection.close()
    return count


def test_old_traces_of_what_was_deleted_are_removed_and_no_revision_returns(path: Path) -> None:
    with open_store(path, tenant="other") as other:
        other.save(Tool(name="not mine"))
        other.delete("not mine")
    with open_store(path) as store:
        store.save(Tool(name="kept"))
        store.save(Tool(name="gone"))
        store.namespace("room").put("key", 1)
        store.delete("gone")
        store.namespace("room").delete(["key"])
        last = store.save(Tool(name="kept"))
        store.delete("kept")
    age_traces(path)
    assert traces(path) == 4
    with open_store(path) as store:
        assert store.save(Tool(name="new")) > last + 1
    assert traces(path) == 1


def test_a_watcher_that_comes_too_late_for_the_traces_is_told_so(path: Path) -> None:
    slow = SqliteDatabase(path, url=str(path), tenant="default")
    slow.start_polling()
    with open_store(path) as store:
        store.save(Tool(name="one"))
        store.namespace("room").put("key", 1)
        store.delete("one")
        assert slow.poll() == StoreChange(tools=frozenset({"one"}), namespaces=frozenset({"room"}))
        assert slow.poll() is None
        store.add_usage({"one": Use(1, WHEN)})
        assert slow.poll() is None
        store.save(Tool(name="two"))
        store.delete("two")
    age_traces(path)
    with open_store(path) as store:
        store.save(Tool(name="three"))
    assert slow.poll() == StoreChange(everything=True)
    assert slow.poll() is None
    slow.close()


def test_a_watcher_is_told_when_a_backup_is_restored_in_place(path: Path, tmp_path: Path) -> None:
    database = SqliteDatabase(path, url=str(path), tenant="default")
    with open_store(path) as store:
        store.save(Tool(name="one"))
        connections = [sqlite3.connect(it) for it in (path, tmp_path / "backup.db")]
        connections[0].backup(connections[1])
        store.save(Tool(name="two"))
        database.start_polling()
        connections[1].backup(connections[0])
        for connection in connections:
            connection.close()
        assert database.poll() == StoreChange(everything=True)
        assert names(store) == ["one"]
    database.close()


def test_the_log_of_changes_does_not_grow_without_end(path: Path) -> None:
    with open_store(path) as store, open_store(path) as other:
        sizes: list[int] = []
        for number in range(60):
            (store if number % 2 else other).save(
                Tool(name=f"{number % 7}", description="x" * 500_000)
            )
            sizes.append(path.with_name("tools.db-wal").stat().st_size)
        assert max(sizes) < 8_000_000
        assert sizes != sorted(sizes)
        store.check()
