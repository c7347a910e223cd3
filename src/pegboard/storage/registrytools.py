"""RegistryTools's data files: read and write them, take them over, and export a store to one."""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from pegboard.config.atomic_write import replace_file, sync_folder
from pegboard.errors import StorageError
from pegboard.model import Tool, Usage
from pegboard.model.call import HOT_USES, WARM_USES
from pegboard.storage.encoding import decode_tool, encode_tool
from pegboard.storage.file_lock import LockedFile
from pegboard.storage.json_file.format import ShapeError, read_entry
from pegboard.storage.json_file.paths import paths_of
from pegboard.storage.sqlite.file import LOG_LIMIT, SqliteFile
from pegboard.storage.sqlite.migrations import APPLICATION_ID
from pegboard.storage.store import OnProgress, Store, StoredTool, Use

__all__ = [
    "ImportedTools",
    "PegboardFileError",
    "RegistryToolsData",
    "RegistryToolsDatabase",
    "RegistryToolsError",
    "RegistryToolsJson",
    "entry_in_row",
    "entry_of",
    "insert",
    "read_data",
    "take_over",
    "written_data",
]

Entry = dict[str, Any]
"""The fields of a tool, as the JSON file has them."""

PATIENCE = 10.0
"""Seconds to wait for another process that writes to the database."""
_DATABASE = b"SQLite format 3\0"
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


class RegistryToolsData(msgspec.Struct, frozen=True, kw_only=True):
    """What a data file of RegistryTools holds."""

    tools: dict[str, Tool]
    usage: dict[str, Usage]
    skipped: dict[str, str]
    """What Pegboard cannot store, by name, and why."""


class ImportedTools(msgspec.Struct, frozen=True, kw_only=True):
    """What a store took over."""

    tools: int
    used: int
    """Tools whose usage was not known here."""
    present: int
    """Tools that were there already, exactly so."""
    differing: list[str]
    """Tools that are there with another definition, and were kept."""


class RegistryToolsJson:
    """A JSON file with one object for each tool by its name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Any:
        """Return what is in the file; no tools if there is none.

        Raises:
            PegboardFileError: when it is a store of Pegboard.
            OSError, ValueError: when it cannot be read, or is not JSON.
        """
        with suppress(OSError):
            if paths_of(self.path).journal.stat().st_size:
                # The newest changes of a store.
                raise PegboardFileError
        if not self.path.exists():
            return {}
        found: Any = json.loads(self.path.read_text("utf-8"))
        if _is_store(found):
            raise PegboardFileError
        return found

    def check_owner(self) -> None:
        """Check that the file is not a store of Pegboard, whatever else it is.

        Raises:
            PegboardFileError: when it is one.
        """
        with suppress(OSError, ValueError, RecursionError):
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


class RegistryToolsDatabase:
    """An SQLite database with one table; any thread may use it, one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._opened: sqlite3.Connection | None = None
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
        with self._lock:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            try:
                with self._connection() as connection:
                    yield connection
            except sqlite3.Error as error:
                raise RegistryToolsError(
                    f"{self.path} cannot be used as a database of RegistryTools: {error}."
                ) from error

    def _connection(self) -> sqlite3.Connection:
        # SQLite would go on with a file that was deleted or replaced.
        if self._opened is None or _identity_of(self.path) != self._identity:
            self.close()
            self._opened = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                self._opened.row_factory = sqlite3.Row
                # `SqliteFile.checkpoint` says why.
                self._opened.execute("PRAGMA wal_autocheckpoint = 0")
                self._opened.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
                _refuse_store(self._opened)
                self._opened.execute("PRAGMA journal_mode = WAL")
                self._identity = _identity_of(self.path)
            except BaseException:
                self.close()
                raise
        return self._opened


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


def entry_in_row(row: sqlite3.Row) -> Entry:
    """Return the fields in a row of the table.

    Raises:
        ValueError: when some of them are not JSON.
    """
    entry: Entry = {name: row[name] for name in row.keys() if name in _COLUMNS}  # noqa: SIM118 - it has no other iterator
    for name in ("tags", "input_schema", "output_schema"):
        entry[name] = json.loads(entry[name]) if entry.get(name) else None
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


def read_data(content: bytes, path: Path) -> RegistryToolsData | None:
    """Return the tools in a data file of RegistryTools; ``None`` if the file is another one.

    Args:
        content: of the file; a database is read again by SQLite, which finds its newest changes.
        path: where it is. RegistryTools may have it open. It is not changed.

    Raises:
        StorageError: when a database cannot be read, or the file is one that people mix up with it.
    """
    try:
        if content.startswith(_DATABASE):
            return _data(_rows_in(path), entry_in_row)
        entries = _entries_in(content)
        return None if entries is None else _data(entries, dict)
    except PegboardFileError:
        raise StorageError(
            f"{path} is a store of Pegboard, not an export. Copy it with `pegboard store migrate "
            f"URL --store {path}`.",
            url=str(path),
        ) from None
    except sqlite3.Error as error:
        raise StorageError(
            f"{path} cannot be read: {error}. Nothing was changed. Stop RegistryTools and try "
            "again, or restore the file from a backup.",
            url=str(path),
        ) from error


def take_over(
    data: RegistryToolsData,
    store: Store,
    *,
    replaces: bool = False,
    on_progress: OnProgress | None = None,
) -> ImportedTools:
    """Save tools and usage in a store that may be in use; a second time, nothing changes.

    Args:
        data: the tools.
        store: where to.
        replaces: whether they replace tools of the same name with another definition.
        on_progress: is told how many tools are written.

    Raises:
        RevisionConflictError: when another program registers one of the tools at this moment.
        StorageError: when the store cannot be read or written.
    """
    there = store.load(data.tools)
    new = [tool for name, tool in data.tools.items() if name not in there]
    differing = [name for name, it in there.items() if it.tool != data.tools[name]]
    if new:
        store.save_many(new, expected=None, on_progress=on_progress)
    if differing and replaces:
        store.save_many([data.tools[name] for name in differing], on_progress=on_progress)
    return ImportedTools(
        tools=len(new) + (len(differing) if replaces else 0),
        used=_add_usage(data.usage, store),
        present=len(there) - len(differing),
        differing=[] if replaces else differing,
    )


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


def _is_store(document: object) -> bool:
    match document:
        # A tool that is called `version` is an object.
        case {"version": int(), "tools": dict()}:
            return True
        case _:
            return False


def _refuse_store(connection: sqlite3.Connection) -> None:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION_ID:
        raise PegboardFileError


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _rows_in(path: Path) -> list[sqlite3.Row]:
    if not path.exists():
        raise StorageError("A database has to be a file: name it.", url=str(path))
    file = SqliteFile(path, url=str(path))
    with closing(file.connect_read_only(logged=file.log_size() > 0)) as connection:
        connection.row_factory = sqlite3.Row
        _refuse_store(connection)
        columns = {row["name"] for row in connection.execute("PRAGMA table_info(tools)")}
        if not {"name", "description"} <= columns:
            raise StorageError(
                f"{path} is a database, but has no tools of RegistryTools. Name its `tools.db`.",
                url=str(path),
            )
        return connection.execute("SELECT * FROM tools").fetchall()


def _entries_in(content: bytes) -> list[Entry] | None:
    """Return the tools in a JSON document; ``None`` if there is anything else in it."""
    try:
        found: Any = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if _is_store(found):
        raise PegboardFileError
    try:
        entries = [{"name": name, **entry} for name, entry in found.items()]
    except (AttributeError, TypeError):
        return None
    return entries if not entries or any("description" in it for it in entries) else None


def _data(found: Iterable[Any], read: Callable[[Any], Entry]) -> RegistryToolsData:
    tools: dict[str, Tool] = {}
    usage: dict[str, Usage] = {}
    skipped: dict[str, str] = {}
    for it in found:
        name = str(it["name"])
        try:
            entry = read(it)
            # The order of tags is another one each time that RegistryTools writes.
            text = msgspec.json.encode(entry | {"tags": sorted(entry.get("tags") or [])})
            definition, _, used = read_entry(name, text, local=True)
            tool = decode_tool(definition)
            # Decodes the schemas, too.
            encode_tool(tool)
        except ShapeError as error:
            skipped[name] = error.problem
        except (TypeError, ValueError) as error:
            skipped[name] = str(error)
        else:
            tools[name] = tool
            if used is not None:
                usage[name] = used
    return RegistryToolsData(tools=tools, usage=usage, skipped=skipped)


def _add_usage(usage: Mapping[str, Usage], store: Store) -> int:
    """Bring the counts of a store up to these; it may be counting at the same time."""
    there = store.usage(usage)
    sums: dict[str, Usage] = {}
    uses: dict[str, Use] = {}
    for name, theirs in usage.items():
        ours = there.get(name, Usage())
        missing = max(theirs.use_frequency - ours.use_frequency, 0)
        moments = [it.last_used for it in (theirs, ours) if it.last_used is not None]
        latest = max(moments, default=None)
        if not missing and latest == ours.last_used:
            continue
        if latest is None:
            sums[name] = theirs
        else:
            uses[name] = Use(missing, latest)
    if sums:
        store.set_usage(sums)
    if uses:
        store.add_usage(uses)
    return len(sums) + len(uses)
