import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.errors import (
    StorageError,
    StoreDamagedError,
    StoreUnavailableError,
    StoreVersionError,
)
from pegboard.model import Tool, Usage
from pegboard.storage import Store, StoredTool, open_store
from pegboard.storage.sqlite.file import SqliteFile
from pegboard.storage.sqlite.recovery import recover

PAGE = 4096
COUNT = 400


def tool(number: int) -> Tool:
    return Tool(
        name=f"tool-{number:03}",
        # A few are larger than a page.
        description=f"{number} \N{SNOWMAN} " + "x" * (12_000 if number % 50 == 0 else 800),
        input_schema={"type": "object", "properties": {"a": {"type": "string"}}},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with something of everything."""
    path = tmp_path_factory.mktemp("whole") / "tools.db"
    with open_store(path) as store:
        for start in range(0, COUNT, 50):
            store.save_many(tool(number) for number in range(start, start + 50))
        store.save(StoredTool(tool=Tool(name="extra"), extras={"color": ["blue"]}))
        store.save(Tool(name="deleted"))
        store.delete("deleted")
        store.set_usage({tool(number).name: Usage(use_frequency=number) for number in range(9)})
        store.namespace("room").put_many({f"key-{number}": [number] for number in range(200)})
    with open_store(path, tenant="other") as store:
        store.save(Tool(name="extra", description="of another tenant"))
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "tools.db"))


def page_with(path: Path, text: bytes) -> int:
    """Where the page begins that holds a text."""
    return path.read_bytes().index(text) // PAGE * PAGE


def first_page_of(path: Path, table: str) -> int:
    """Where the page begins from which SQLite finds all others of a table."""
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    [number] = connection.execute(query, [table]).fetchone()
    connection.close()
    return (number - 1) * PAGE


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut in half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut by a byte": lambda path: os.truncate(path, path.stat().st_size - 1),
    "cut in the header": lambda path: os.truncate(path, 60),
    "not a database": lambda path: path.write_bytes(b"Dear diary, " * 1_000),
    "random": lambda path: path.write_bytes(random.Random(1).randbytes(20_000)),
    "blank": lambda path: path.write_bytes(bytes(20_000)),
    "header blank": lambda path: overwrite(path, 0, bytes(100)),
    "first page blank": lambda path: overwrite(path, 0, bytes(PAGE)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_and_not_touched(path: Path, damage: str) -> None:
    DAMAGES[damage](path)
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError) as refused:
        open_store(path)
    assert refused.value.remedy == f"pegboard store recover --store {path}"
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("damage", DAMAGES)
def test_recovery_keeps_the_damaged_file_and_gives_one_that_works(path: Path, damage: str) -> None:
    DAMAGES[damage](path)
    before = path.read_bytes()
    recovered = recover(path)
    assert recovered.lost
    assert recovered.saved_as is not None
    assert recovered.saved_as.read_bytes() == before
    assert sorted(path.parent.iterdir()) == sorted([path, recovered.saved_as])
    with open_store(path) as store:
        store.check()
        found = {it.tool.name: it.tool for it in store.load_all()}
        assert set(found) <= set(recovered.kept)
        store.save(Tool(name="works"))
    for name, it in found.items():
        if name.startswith("tool-"):
            assert it == tool(int(name.removeprefix("tool-")))
    assert path.stat().st_mode & 0o777 == 0o600


def test_recovery_needs_no_header_to_keep_everything(path: Path) -> None:
    overwrite(path, 0, random.Random(2).randbytes(PAGE))
    recovered = recover(path)
    assert len(recovered.lost) == 1
    assert_everything_is_there(path)


def test_recovery_of_a_file_without_damage_leaves_it_alone(path: Path) -> None:
    before = path.read_bytes()
    recovered = recover(path)
    assert (recovered.lost, recovered.saved_as) == ((), None)
    assert len(recovered.kept) == COUNT + 2
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    assert_everything_is_there(path)
    path.write_bytes(b"")
    assert recover(path).saved_as is None


def test_recovery_of_a_sound_file_in_use_loses_nothing_that_is_written(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="before"))
        recovered = recover(path)
        assert recovered.saved_as is None
        assert "before" in recovered.kept
        store.save(Tool(name="after"))
    with open_store(path) as store:
        assert set(store.load(["before", "after"])) == {"before", "after"}


USING = """
import sys
from pegboard.storage import open_store
with open_store(sys.argv[1]) as store:
    store.load_all()
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_damaged_file_is_not_recovered_while_a_process_uses_it(path: Path) -> None:
    with (
        open_store(path) as store,
        subprocess.Popen(
            [sys.executable, "-c", USING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other,
    ):
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"open\n"
        overwrite(path, PAGE * 2, bytes(PAGE))
        before = path.read_bytes()
        names = sorted(path.parent.iterdir())
        with pytest.raises(StoreUnavailableError, match="in use"):
            recover(path)
        store.close()
        with pytest.raises(StoreUnavailableError, match="another process"):
            recover(path)
        assert path.read_bytes() == before
        assert sorted(path.parent.iterdir()) == names
        other.stdin.close()
        other.wait(timeout=10)
    assert recover(path).saved_as is not None


@pytest.mark.parametrize("logged", [False, True])
def test_a_recovery_that_was_killed_before_its_end_is_finished_by_the_next(
    path: Path, *, logged: bool
) -> None:
    if logged:
        subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    overwrite(path, page_with(path, b'"name":"tool-123"'), bytes(PAGE))
    first = recover(path)
    assert first.saved_as is not None
    log, kept_log = (it.with_name(f"{it.name}-wal") for it in (path, first.saved_as))
    # As if it had been killed right after it moved the damaged file aside.
    path.rename(f"{path}.recovering")
    if logged:
        kept_log.rename(log)
    with pytest.raises(StoreDamagedError) as refused:
        open_store(path)
    assert refused.value.remedy == f"pegboard store recover --store {path}"
    assert not path.exists()
    assert recover(path) == first
    assert kept_log.exists() is logged
    assert not log.exists()
    assert ("in the log" in first.kept) is logged
    with open_store(path) as store:
        store.check()
        assert {it.tool.name for it in store.load_all()} == set(first.kept)


def test_what_a_killed_recovery_had_not_finished_writing_counts_for_nothing(path: Path) -> None:
    part = path.with_name("tools.db.recovering-part")
    part.write_bytes(path.read_bytes()[: PAGE * 3])
    overwrite(path, 0, random.Random(2).randbytes(PAGE))
    recover(path)
    assert not part.exists()
    assert_everything_is_there(path)


def test_a_file_that_is_replaced_while_it_is_opened_is_not_used(path: Path) -> None:
    class Interrupted(SqliteFile):
        def _prepare(self, connection: sqlite3.Connection) -> None:
            super()._prepare(connection)
            Path(shutil.copy(path, path.with_name("other.db"))).replace(path)

    with pytest.raises(StoreUnavailableError, match="replaced"):
        Interrupted(path, url=str(path)).open()
    assert_everything_is_there(path)


def assert_everything_is_there(path: Path) -> None:
    with open_store(path) as store:
        assert [it.tool for it in sorted_tools(store) if it.tool.name != "extra"] == [
            tool(number) for number in range(COUNT)
        ]
        assert store.load(["extra"])["extra"].extras == {"color": ["blue"]}
        assert store.usage()["tool-008"] == Usage(use_frequency=8)
        assert len(store.namespace("room").items()) == 200
        newest = max(it.revision for it in store.load_all())
        assert store.save(Tool(name="new")) > newest
        store.check()
    with open_store(path, tenant="other") as store:
        assert [it.tool.description for it in store.load_all()] == ["of another tenant"]


def sorted_tools(store: Store) -> list[StoredTool]:
    return sorted(store.load_all(), key=lambda it: it.tool.name)


@pytest.mark.parametrize("seed", range(6))
def test_a_page_lost_in_the_middle_costs_only_what_was_on_it(path: Path, seed: int) -> None:
    pick = random.Random(seed)
    pages = path.stat().st_size // PAGE
    # Not the pages from which SQLite finds all others of a table.
    for number in pick.sample(range(11, pages), 3):
        overwrite(path, number * PAGE, pick.choice([bytes(PAGE), pick.randbytes(PAGE)]))
    before = path.read_bytes()
    # It may open, and some of it may be read; but what is read is right, or it is an error.
    try:
        with open_store(path) as store:
            store.check()
    except StoreDamagedError:
        pass
    else:
        raise AssertionError("The damage was not noticed.")
    assert path.read_bytes() == before
    recovered = recover(path)
    assert len(recovered.kept) >= COUNT - 50
    with open_store(path) as store:
        store.check()
        for it in store.load_all():
            if it.tool.name.startswith("tool-"):
                assert it.tool == tool(int(it.tool.name.removeprefix("tool-")))


def test_the_tools_that_are_lost_are_named(path: Path) -> None:
    overwrite(path, page_with(path, b'"name":"tool-123"'), bytes(PAGE))
    recovered = recover(path)
    assert recovered.lost[0] == ("Table `tools` (registered tools): 1 row range could not be read.")
    assert "The tool 'tool-123' of tenant 'default' could not be read." in recovered.lost
    assert "tool-123" not in recovered.kept
    assert len(recovered.kept) + sum("The tool" in it for it in recovered.lost) == COUNT + 2
    # A page holds four of them.
    assert len(recovered.kept) >= COUNT + 2 - 5


def test_the_row_ranges_that_are_lost_are_counted(path: Path) -> None:
    for name in (b"tool-123", b"tool-222", b"tool-321"):
        overwrite(path, page_with(path, b'"name":"%s"' % name), bytes(PAGE))
    overwrite(path, page_with(path, b"[150]"), random.Random(3).randbytes(PAGE))
    recovered = recover(path)
    assert recovered.lost[:2] == (
        "Table `tools` (registered tools): 3 row ranges could not be read.",
        "Table `entries` (API keys, audit and other values): 1 row range could not be read.",
    )
    assert "The value of 'key-150' in 'room' of tenant 'default' could not be read." in (
        recovered.lost
    )
    with open_store(path) as store:
        found = store.namespace("room").items()
        assert found["key-0"].value == [0]
        assert len(found) + sum("The value" in it for it in recovered.lost) == 200


def test_where_a_large_row_ends_is_lost_only_that_row_is(path: Path) -> None:
    content = path.read_bytes()
    at = content.index(b"x" * (PAGE - 100))
    overwrite(path, at // PAGE * PAGE, random.Random(4).randbytes(PAGE))
    recovered = recover(path)
    assert len(recovered.kept) == COUNT + 1
    assert sum("The tool" in it for it in recovered.lost) == 1


def test_work_that_is_bounded_leaves_the_rest_to_the_index(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.storage.sqlite.recovery_reader.MOST_ATTEMPTS", 1)
    overwrite(path, page_with(path, b'"name":"tool-123"'), bytes(PAGE))
    recovered = recover(path)
    assert len(recovered.kept) >= COUNT + 2 - 5
    assert len(recovered.kept) + sum("The tool" in it for it in recovered.lost) == COUNT + 2


def test_a_lost_beginning_of_a_table_costs_that_table_and_nothing_else(path: Path) -> None:
    overwrite(path, first_page_of(path, "tools"), bytes(PAGE))
    recovered = recover(path)
    assert recovered.kept == ()
    assert sum("The tool" in it for it in recovered.lost) == COUNT + 3
    with open_store(path) as store:
        assert len(store.namespace("room").items()) == 200
        assert store.usage()["tool-008"] == Usage(use_frequency=8)


def test_a_lost_index_costs_nothing(path: Path) -> None:
    overwrite(path, first_page_of(path, "tools_by_name"), bytes(PAGE))
    overwrite(path, first_page_of(path, "entries_by_revision"), bytes(PAGE))
    recovered = recover(path)
    assert recovered.lost == (
        "Index `tools_by_name` could not be read to its end: not every lost row is named here.",
    )
    assert_everything_is_there(path)


def test_the_first_page_of_a_file_after_vacuum_is_known_too(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")
    connection.close()
    overwrite(path, 0, bytes(PAGE))
    assert len(recover(path).lost) == 1
    assert_everything_is_there(path)


def test_that_usage_is_lost_is_told(path: Path) -> None:
    overwrite(path, first_page_of(path, "usage"), bytes(PAGE))
    recovered = recover(path)
    assert recovered.lost == (
        "Table `usage` (how often tools were used): 1 row range could not be read.",
    )
    assert len(recovered.kept) == COUNT + 2


def test_usage_between_two_lost_pages_is_found_by_the_names_of_the_tools(path: Path) -> None:
    tools = [f"tool-{number:03}" for number in range(COUNT)]
    others = [f"{server}.{number:04}" for server in ("server", "zone") for number in range(1_000)]
    with open_store(path) as store:
        store.set_usage({name: Usage(use_frequency=7) for name in tools + others})
    for name in (b"server.0500", b"zone.0500"):
        overwrite(path, page_with(path, name), bytes(PAGE))
    assert len(recover(path).lost) == 1
    with open_store(path) as store:
        found = store.usage()
    assert {"server.0000", "zone.0999", *tools} <= found.keys()
    assert set(found.values()) == {Usage(use_frequency=7)}


def test_a_row_that_is_not_a_tool_is_damage(path: Path) -> None:
    for body in ('{"name": 1}', "no json", '["a"]', '{"name":"other"'):
        connection = sqlite3.connect(path)
        connection.execute("UPDATE tools SET body = ? WHERE name = 'tool-007'", (body,))
        connection.commit()
        connection.close()
        with open_store(path) as store:
            for attempt in (store.load_all, store.check, lambda: store.load(["tool-007"])):
                with pytest.raises(StoreDamagedError, match="tool-007"):
                    attempt()
            assert set(store.load(["tool-008"])) == {"tool-008"}
    assert "tool-007" not in recover(path).kept


def test_a_value_that_is_not_json_is_damage(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE entries SET value = 'no json' WHERE key = 'key-7'")
    connection.commit()
    connection.close()
    with open_store(path) as store:
        values = store.namespace("room")
        for attempt in (values.items, store.check, lambda: values.get("key-7")):
            with pytest.raises(StoreDamagedError, match="key-7"):
                attempt()
    assert len(recover(path).lost) == 1


def test_a_file_whose_tables_are_gone_is_damaged(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE tools")
    connection.commit()
    connection.close()
    with open_store(path) as store:
        for attempt in (store.load_all, lambda: store.save(Tool(name="one"))):
            with pytest.raises(StoreDamagedError):
                attempt()


KILLED = """
import os, sys
from pegboard.model import Tool
from pegboard.storage import open_store
store = open_store(sys.argv[1])
store.save(Tool(name="in the log", description="x" * 9_000))
os.kill(os.getpid(), 9)
"""


def test_what_is_only_in_the_log_of_changes_is_recovered_too(path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    log = path.with_name("tools.db-wal")
    before = path.read_bytes(), log.read_bytes()
    overwrite(path, page_with(path, b'"name":"tool-123"'), bytes(PAGE))
    recovered = recover(path)
    assert recovered.saved_as is not None
    kept_log = recovered.saved_as.with_name(recovered.saved_as.name + "-wal")
    assert kept_log.read_bytes() == before[1]
    assert "in the log" in recovered.kept
    with open_store(path) as store:
        [found] = store.load(["in the log"]).values()
        assert found.tool.description == "x" * 9_000


def test_a_log_of_changes_beside_an_empty_file_is_not_thrown_away(tmp_path: Path) -> None:
    path = tmp_path / "tools.db"
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    os.truncate(path, 0)
    log = path.with_name("tools.db-wal")
    before = log.read_bytes()
    with pytest.raises(StoreDamagedError):
        open_store(path)
    assert log.read_bytes() == before
    assert "in the log" in recover(path).kept


def test_only_our_own_files_are_recovered(tmp_path: Path, path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        recover(tmp_path / "missing.db")
    with pytest.raises(StoreUnavailableError):
        recover(tmp_path)
    foreign = tmp_path / "foreign.db"
    for file, statement in ((foreign, "CREATE TABLE t (x)"), (path, "PRAGMA user_version = 99")):
        connection = sqlite3.connect(file)
        connection.execute(statement)
        connection.close()
    before = foreign.read_bytes(), path.read_bytes()
    with pytest.raises(StorageError, match="another program"):
        recover(foreign)
    with pytest.raises(StoreVersionError):
        recover(path)
    assert (foreign.read_bytes(), path.read_bytes()) == before
    assert sorted(tmp_path.iterdir()) == [foreign, path]


def test_a_second_recovery_keeps_the_first_ones_file(path: Path) -> None:
    places: set[Path | None] = set()
    for _ in range(2):
        overwrite(path, PAGE * 2, bytes(PAGE))
        places.add(recover(path).saved_as)
    assert len(places) == 2
    assert all(it is not None and it.exists() for it in places)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("small") / "tools.db"
    with open_store(path) as store:
        store.save_many(tool(number) for number in range(0, 60, 10))
        store.set_usage({"tool-000": Usage(use_frequency=1)})
        store.namespace("room").put("key", [1])
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(0, 80_000),
    flips=st.lists(st.tuples(st.integers(0, 80_000), st.integers(0, 255)), max_size=12),
)
def test_any_damage_ends_in_an_error_of_ours_and_in_a_sound_file(
    small: bytes,
    tmp_path_factory: pytest.TempPathFactory,
    length: int,
    flips: list[tuple[int, int]],
) -> None:
    content = bytearray(small[:length])
    for place, byte in flips:
        if place < len(content):
            content[place] = byte
    path = tmp_path_factory.mktemp("damaged") / "tools.db"
    path.write_bytes(content)
    try:
        with open_store(path) as store:
            store.check()
            store.save(Tool(name="more"))
    except StorageError:
        pass
    try:
        recover(path)
    except StorageError:
        # A flip in the header makes it a newer one, or another program's.
        return
    with open_store(path) as store:
        store.check()


def with_log(path: Path) -> Path:
    """Make a store whose last write is only in the write-ahead log, as after `kill -9`."""
    store = open_store(path)
    store.save(Tool(name="in-the-log"))
    copy = path.with_name("killed.db")
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    store.close()
    return copy


def test_a_write_ahead_log_that_is_whole_is_read(tmp_path: Path) -> None:
    with open_store(with_log(tmp_path / "new.db")) as store:
        store.check()
        assert [it.tool.name for it in store.load_all()] == ["in-the-log"]


@pytest.mark.parametrize(("start", "end"), [(0, 4), (0, 32), (16, 20), (0, 4096)])
@pytest.mark.parametrize("filling", [b"\0", b"x"])
def test_a_write_ahead_log_whose_header_is_gone_is_damage_and_can_be_recovered(
    tmp_path: Path, start: int, end: int, filling: bytes
) -> None:
    path = with_log(tmp_path / "new.db")
    log = path.with_name("killed.db-wal")
    content = log.read_bytes()
    spoiled = content[:start] + filling * (end - start) + content[end:]
    log.write_bytes(spoiled)
    with pytest.raises(StoreDamagedError) as caught:
        open_store(path)
    assert caught.value.remedy == f"pegboard store recover --store {path}"
    assert log.read_bytes() == spoiled
    recovered = recover(path)
    assert recovered.saved_as is not None
    assert any("write-ahead log" in it for it in recovered.lost)
    kept_log = recovered.saved_as.with_name(f"{recovered.saved_as.name}-wal")
    assert kept_log.read_bytes() == spoiled
    with open_store(path) as store:
        store.check()
