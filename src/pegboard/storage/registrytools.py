"""RegistryTools's data files: read and write them, and export a store to one."""

import json
import os
import sqlite3
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import msgspec

from pegboard.config.atomic_write import replace_file, sync_folder
from pegboard.model import Usage
from pegboard.model.call import HOT_USES, WARM_USES
from pegboard.model.fork_guard import GuardedLock
from pegboard.storage.file_lock import LockedFile
from pegboard.storage.json_file.journal import read_header
from pegboard.storage.json_file.paths import paths_of
from pegboard.storage.sqlite.connections import ForkSafeConnection
from pegboard.storage.sqlite.file import LOG_LIMIT, SqliteFile
from pegboard.storage.sqlite.migrations import APPLICATION_ID
from pegboard.storage.store import Store, StoredTool

__all__ = [
    "PATIENCE",
    "Entry",
    "PegboardFileError",
    "RegistryToolsContentError",
    "RegistryToolsDatabase",
    "RegistryToolsError",
    "RegistryToolsJson",
    "entry_in_row",
    "entry_of",
    "insert",
    "is_store",
    "named",
    "refuse_store",
    "written_data",
]

Entry = dict[str, Any]
"""The fields of a tool, as the JSON file has them."""

PATIENCE = 10.0
"""Seconds to wait for another process that writes to the database."""
_LONGEST_HEADER = 10_000
"""Bytes: no first line of a journal is that long."""
_COLUMNS = {
    "name": "TEXT PRIMARY KEY",
    "description": "TEXT NOT NULL",
    "mcp_server": "TEXT",
    "defer_loading": "INTEGER DEFAULT 1",
    "tags": "TEXT",
    "category": "TEXT",
    "use_frequency": "INTEGER DEFAULT 0",
    "last_used": "TEXT",
    "temperature": "TEXT DEFAULT 'cold'",
    "input_schema": "TEXT",
    "output_schema": "TEXT",
}
"""Of the one table. RegistryTools relies on their order."""


class PegboardFileError(Exception):
    """The file is a store of Pegboard, which the gateway may have open."""


class RegistryToolsError(OSError):
    """A data file of RegistryTools cannot be read or written."""


class RegistryToolsContentError(
    RegistryToolsError, TypeError, ValueError, RecursionError, OverflowError
):
    """A value cannot be read or written; RegistryTools raises one of the other errors then."""


class RegistryToolsJson:
    """A JSON file with one object for each tool by its name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Any:
        """Return what is in the file; no tools if there is none.

        Raises:
            PegboardFileError: when it is a store of Pegboard.
            OSError, json.JSONDecodeError: when it cannot be read, or is not JSON.
        """
        with suppress(OSError, ValueError):
            # The newest changes of a store.
            with paths_of(self.path).journal.open("rb") as journal:
                header, _ = read_header(journal.readline(_LONGEST_HEADER))
            if header is not None:
                raise PegboardFileError
        if not self.path.exists():
            return {}
        try:
            found: Any = json.loads(self.path.read_text("utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise
        except (ValueError, RecursionError) as error:
            raise RegistryToolsContentError(
                f"{self.path} is not a file of RegistryTools: {error}. Correct it, or restore it "
                "from a backup."
            ) from error
        if is_store(found):
            raise PegboardFileError
        return found

    def check_owner(self) -> None:
        """Check that the file is not a store of Pegboard, whatever else it is.

        Raises:
            PegboardFileError: when it is one.
        """
        with suppress(OSError, ValueError):
            self.read()

    def write(self, entries: Mapping[str, Any]) -> None:
        """Replace the file, durably; the caller is `alone`."""
        replace_file(self.path, _json_text(entries))
        sync_folder(self.path.parent)

    @contextmanager
    def alone(self) -> Generator[None]:
        """Hold the lock of the file, which is also that of Pegboard's store."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        journal = paths_of(self.path).journal
        lock = LockedFile(journal)
        try:
            with lock.locked(alone=True) as handle:
                try:
                    yield
                finally:
                    if not os.fstat(handle).st_size:
                        with suppress(OSError):
                            journal.unlink()
        finally:
            lock.close()


class RegistryToolsDatabase(ForkSafeConnection):
    """An SQLite database with one table; any thread may use it, one at a time.

    A forked child may use it, too: it connects anew.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(Path(os.path.realpath(path)))
        self.path = path
        self._identity: tuple[int, int] | None = None

    def create(self) -> None:
        """Make the file and its table, unless they are there.

        Raises:
            PegboardFileError: when the file is a store of Pegboard.
            RegistryToolsError: when that is not possible.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        # SQLite itself removes the log of a file that was deleted.
        if not self.path.exists() and not log.exists():
            # Whole, so that another process never finds a file without the table. Where there are
            # no hard links, it may.
            new = self.path.with_name(f".{self.path.name}.{uuid4().hex}.tmp")
            with suppress(OSError, sqlite3.Error):
                with closing(sqlite3.connect(new)) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                    _create_table(connection)
                os.link(new, self.path)
            with suppress(OSError):
                new.unlink()
        with self._connected() as connection:
            _create_table(connection)

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return the rows that a query finds.

        Raises:
            PegboardFileError: when the file is a store of Pegboard.
            RegistryToolsError: when it cannot be read.
        """
        with self._connected() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Give a connection with a transaction; after an error, nothing is changed.

        Raises:
            PegboardFileError: when the file is a store of Pegboard.
            RegistryToolsError: when it cannot be written.
        """
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            file = SqliteFile(self.path, url=str(self.path))
            if file.log_size() > LOG_LIMIT:
                file.checkpoint()
                # The next transaction finds an empty log and restarts it.
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
            yield connection

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if not self._lock.in_child:
            with self._lock:
                self._disconnect()

    def after_fork_in_child(self) -> None:
        """Let the child connect anew, unless a thread that it does not have was too slow."""
        super().after_fork_in_child()
        if self._forking:
            self._forking = False
            self._lock = GuardedLock("storage")

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            try:
                with self._current() as connection:
                    yield connection
            except OverflowError as error:
                raise RegistryToolsContentError(
                    f"{self.path} cannot hold such a number: {error}."
                ) from error
            except sqlite3.Error as error:
                raise RegistryToolsError(
                    f"{self.path} cannot be used as a database of RegistryTools: {error}."
                ) from error

    def _current(self) -> sqlite3.Connection:
        # SQLite would go on with a file that was deleted or replaced.
        if self._connection is None or _identity_of(self.path) != self._identity:
            self.close()
            self.will_fork()
            self._connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                self._connection.row_factory = sqlite3.Row
                # `SqliteFile.checkpoint` says why.
                self._connection.execute("PRAGMA wal_autocheckpoint = 0")
                self._connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
                refuse_store(self._connection)
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._identity = _identity_of(self.path)
            except BaseException:
                self.close()
                raise
        return self._connection


def insert(connection: sqlite3.Connection, entries: Iterable[Mapping[str, Any]]) -> None:
    """Write tools to the table; they replace tools of the same names."""
    there = [row[1] for row in connection.execute("PRAGMA table_info(tools)")]
    # An old database has no temperature.
    names = [name for name in _COLUMNS if name in there] or list(_COLUMNS)
    into = f"INTO tools ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    command = f"INSERT OR REPLACE {into}"
    if set(there) - set(_COLUMNS):
        # A newer one: what is in columns that we do not know stays.
        news = ", ".join(f"{name} = excluded.{name}" for name in names)
        command = f"INSERT {into} ON CONFLICT (name) DO UPDATE SET {news}"
    for entry in entries:
        values = {
            **entry,
            "defer_loading": int(entry["defer_loading"]),
            "tags": json.dumps(list(entry["tags"]), ensure_ascii=False),
        }
        for name in ("input_schema", "output_schema"):
            values[name] = json.dumps(entry[name]) if entry[name] else None
        connection.execute(command, [values[name] for name in names])


def named(found: object) -> dict[str, Any]:
    """Return the tools by name that are in a file.

    Raises:
        RegistryToolsContentError: when something else is there.
    """
    if not isinstance(found, dict):
        raise RegistryToolsContentError("The file is not a JSON object with tools by their names.")
    return cast("dict[str, Any]", found)


def entry_in_row(row: sqlite3.Row) -> Entry:
    """Return the fields in a row of the table.

    Raises:
        ValueError: when some of them are not JSON.
    """
    entry: Entry = {name: row[name] for name in row.keys() if name in _COLUMNS}  # noqa: SIM118 - it has no other iterator
    for name in ("tags", "input_schema", "output_schema"):
        try:
            entry[name] = json.loads(entry[name]) if entry.get(name) else None
        except RecursionError:
            raise ValueError(f"The `{name}` are nested too deeply.") from None
    temperature = entry.get("temperature")
    known = ("hot", "warm", "cold")
    return entry | {
        "tags": entry["tags"] or [],
        "defer_loading": bool(entry.get("defer_loading")),
        "last_used": entry.get("last_used") or None,
        "temperature": temperature if temperature in known else "cold",
    }


def entry_of(found: StoredTool, usage: Usage) -> Entry:
    """Return the fields of a stored tool."""
    tool, uses, moment = found.tool, usage.use_frequency, usage.last_used
    return {
        "name": tool.name,
        "description": tool.description,
        "mcp_server": tool.server,
        "defer_loading": tool.defer_loading,
        "tags": list(tool.tags),
        "category": tool.category,
        "use_frequency": uses,
        # Local time: RegistryTools compares it with `datetime.now()`.
        "last_used": moment and moment.astimezone().replace(tzinfo=None).isoformat(),
        "temperature": "hot" if uses >= HOT_USES else "warm" if uses >= WARM_USES else "cold",
        "input_schema": deepcopy(tool.input_schema) or None,
        "output_schema": deepcopy(tool.output_schema),
    }


def written_data(store: Store, *, database: bool) -> tuple[bytes, int]:
    """Return the tools of a store as a data file for RegistryTools, and their number."""
    usage = store.usage()
    entries = [entry_of(it, usage.get(it.tool.name, Usage())) for it in store.load_all()]
    if not database:
        return _json_text({it["name"]: it for it in entries}), len(entries)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _create_table(connection)
        insert(connection, entries)
        return connection.serialize(), len(entries)


def _json_text(entries: Mapping[str, Any]) -> bytes:
    text = json.dumps(entries, ensure_ascii=False, sort_keys=True).encode()
    try:
        # The same as `json.dumps` with an indent, but ten times as fast.
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        # RegistryTools writes and reads what JSON does not have, such as NaN.
        return json.dumps(entries, ensure_ascii=False, indent=2, sort_keys=True).encode()


def _create_table(connection: sqlite3.Connection) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    connection.execute(f"CREATE TABLE IF NOT EXISTS tools ({columns})")


def is_store(document: object) -> bool:
    """Tell whether a JSON document is a store of Pegboard."""
    match document:
        # A tool that is called `version` is an object.
        case {"version": int(), "tools": dict()}:
            return True
        case _:
            return False


def refuse_store(connection: sqlite3.Connection) -> None:
    """Raise a `PegboardFileError` for the database of a store."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION_ID:
        raise PegboardFileError


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
