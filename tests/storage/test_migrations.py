import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from pegboard.errors import StorageError, StoreVersionError
from pegboard.model import Tool, Usage
from pegboard.storage import open_store
from pegboard.storage.sqlite.migrations import APPLICATION_ID, STEPS, VERSION, Step, migrate

MADE_UP: list[Step] = [
    (1, ["CREATE TABLE things (name TEXT)", "INSERT INTO things VALUES ('first')"]),
    (2, ["ALTER TABLE things ADD COLUMN size INTEGER", "UPDATE things SET size = 7"]),
]


def version_1(path: Path) -> None:
    """Make a file as the first version made it; this is history and does not change."""
    connection = sqlite3.connect(path)
    connection.executescript("""
        PRAGMA journal_mode = WAL;
        CREATE TABLE tenants (tenant TEXT NOT NULL PRIMARY KEY, horizon INTEGER NOT NULL)
            WITHOUT ROWID;
        CREATE TABLE tools (tenant TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL,
            body TEXT, extras TEXT, deleted_at INTEGER);
        CREATE UNIQUE INDEX tools_by_name ON tools (tenant, name);
        CREATE INDEX tools_by_revision ON tools (tenant, revision);
        CREATE INDEX tools_by_deletion ON tools (tenant, deleted_at) WHERE deleted_at IS NOT NULL;
        CREATE TABLE usage (tenant TEXT NOT NULL, name TEXT NOT NULL,
            use_frequency INTEGER NOT NULL, last_used INTEGER, PRIMARY KEY (tenant, name))
            WITHOUT ROWID;
        CREATE TABLE entries (tenant TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL,
            revision INTEGER NOT NULL, value TEXT, deleted_at INTEGER);
        CREATE UNIQUE INDEX entries_by_key ON entries (tenant, namespace, key);
        CREATE INDEX entries_by_revision ON entries (tenant, revision, namespace);
        CREATE INDEX entries_by_deletion ON entries (tenant, deleted_at)
            WHERE deleted_at IS NOT NULL;
        INSERT INTO tools (tenant, name, revision, body, extras) VALUES ('default', 'add', 1,
            '{"name":"add","description":"Adds.","defer_loading":true}', '{"color":"blue"}');
        INSERT INTO tools (tenant, name, revision, deleted_at) VALUES ('default', 'gone', 3, 9);
        INSERT INTO usage VALUES ('default', 'add', 3, NULL);
        INSERT INTO entries (tenant, namespace, key, revision, value)
            VALUES ('default', 'pins', 'add', 2, '[1]');
        PRAGMA application_id = 1346717506;
        PRAGMA user_version = 1;
    """)
    connection.close()


OLDER_VERSIONS: dict[int, Callable[[Path], None]] = {1: version_1}


@pytest.mark.parametrize("version", OLDER_VERSIONS)
def test_what_any_older_version_wrote_is_read(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.db"
    OLDER_VERSIONS[version](path)
    with open_store(path) as store:
        [kept] = store.load_all()
        assert kept.tool == Tool(name="add", description="Adds.", defer_loading=True)
        assert kept.extras == {"color": "blue"}
        assert store.usage() == {"add": Usage(use_frequency=3)}
        assert store.namespace("pins").items()["add"].value == [1]
        assert store.save(Tool(name="new")) > 3
        store.check()
    assert pragma(path, "user_version") == VERSION


def test_there_is_a_fixture_for_every_version() -> None:
    assert list(OLDER_VERSIONS) == [number for number, _ in STEPS]


def test_a_new_file_has_the_same_tables_as_one_that_was_migrated(tmp_path: Path) -> None:
    version_1(tmp_path / "old.db")
    for name in ("old.db", "new.db"):
        open_store(tmp_path / name).close()
    assert schema(tmp_path / "old.db") == schema(tmp_path / "new.db")


def test_steps_run_in_order_from_whatever_version_a_file_has(tmp_path: Path) -> None:
    for start in (0, 1, 2):
        connection = sqlite3.connect(tmp_path / f"{start}.db", isolation_level=None)
        if start:
            migrate(connection, MADE_UP[:start])
        migrate(connection, MADE_UP)
        migrate(connection, MADE_UP)
        assert connection.execute("SELECT name, size FROM things").fetchall() == [("first", 7)]
        connection.close()
        assert pragma(tmp_path / f"{start}.db", "user_version") == 2
        assert pragma(tmp_path / f"{start}.db", "application_id") == APPLICATION_ID


def test_a_step_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, MADE_UP[:1])
    before = path.read_bytes()
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, [*MADE_UP, (3, ["CREATE TABLE more (x)", "no such statement"])])
    assert not connection.in_transaction
    connection.close()
    assert pragma(path, "user_version") == 1
    assert path.read_bytes() == before


def test_many_that_open_a_new_file_at_once_make_it_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "new.db"
    all_ready = Barrier(8)

    def open_and_save(number: int) -> None:
        all_ready.wait()
        with open_store(path) as store:
            store.save(Tool(name=f"tool-{number}"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(open_and_save, range(8)))
    with open_store(path) as store:
        assert len(store.load_all()) == 8


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_newer_version_is_refused_and_not_touched(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "newer.db"
    open_store(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute(f"PRAGMA user_version = {VERSION + 41}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionError) as refused:
        open_store(path)
    assert (refused.value.found, refused.value.known) == (VERSION + 41, VERSION)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_newer_version_that_is_only_in_the_log_of_changes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    open_store(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    log = tmp_path / "newer.db-wal"
    before = path.read_bytes(), log.read_bytes()
    with pytest.raises(StoreVersionError):
        open_store(path)
    assert (path.read_bytes(), log.read_bytes()) == before
    connection.close()


def test_another_programs_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "bookmarks.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE tools (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="another program"):
        open_store(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_another_programs_database_is_not_touched_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "bookmarks.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE tools (name TEXT)")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO tools VALUES ('theirs')")
    assert path.with_name("bookmarks.db-journal").stat().st_size > 0
    with pytest.raises(StorageError, match="another program"):
        open_store(path)
    connection.execute("COMMIT")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("tools",)]
    connection.close()


def pragma(path: Path, name: str) -> int:
    connection = sqlite3.connect(path)
    [value] = connection.execute(f"PRAGMA {name}").fetchone()
    connection.close()
    return value


def schema(path: Path) -> list[tuple[str, str, str]]:
    """Tables and indexes, and the columns of each."""
    connection = sqlite3.connect(path)
    found = connection.execute("""
        SELECT m.type, m.name, group_concat(c.name || ' ' || c.type || c.pk || c."notnull")
        FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c GROUP BY m.name ORDER BY m.name
    """).fetchall()
    connection.close()
    return found
