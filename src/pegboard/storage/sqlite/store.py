"""The SQLite store: one file, safe for many threads and processes."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Self

from pegboard.errors import StoreDamagedError
from pegboard.model import Tool, Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import (
    check_key,
    check_tenant,
)
from pegboard.storage.leases import LEASES, lease
from pegboard.storage.sqlite.database import SqliteDatabase
from pegboard.storage.sqlite.key_values import SqliteKeyValues
from pegboard.storage.sqlite.usage import SqliteUsage
from pegboard.storage.store import ANY, OnProgress, Revision, StoreChange, StoredTool, Use
from pegboard.storage.tool_rows import look_at_schemas, read_row, row_of
from pegboard.storage.urls import path_of
from pegboard.storage.watchers import Watchers

__all__ = ["SqliteStore", "open_url"]

BATCH = 500

# As bytes: that is what is decoded.
_LOAD_ALL = """SELECT name, CAST(body AS BLOB), revision, extras FROM tools
    WHERE tenant = ? AND body IS NOT NULL ORDER BY name"""
_LOAD = """SELECT name, CAST(body AS BLOB), revision, extras FROM tools
    WHERE tenant = ? AND name = ? AND body IS NOT NULL"""
_REVISION = "SELECT revision FROM tools WHERE tenant = ? AND name = ? AND body IS NOT NULL"
_SAVE = """INSERT INTO tools (tenant, name, revision, body, extras) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (tenant, name) DO UPDATE
    SET revision = excluded.revision, body = excluded.body,
        extras = coalesce(excluded.extras, extras), deleted_at = NULL"""
_DELETE = """UPDATE tools SET revision = ?, body = NULL, extras = NULL, deleted_at = ?
    WHERE tenant = ? AND name = ?"""
_USED = "SELECT name, use_frequency FROM usage WHERE tenant = ? AND use_frequency > 0"
_FORGET_USAGE = "DELETE FROM usage WHERE tenant = ? AND name = ?"
_NAMESPACES = """SELECT DISTINCT namespace FROM entries
    WHERE tenant = ? AND value IS NOT NULL ORDER BY namespace"""


def open_url(url: str, tenant: str) -> "SqliteStore":
    """Open the file that a URL names, ready for use; it is made when there is none.

    Raises:
        StorageError: when it cannot be opened.
    """
    return SqliteStore(url, tenant=tenant)


class SqliteStore:
    """What one tenant keeps in an SQLite file."""

    def __init__(self, url: str, *, tenant: str) -> None:
        self._url = url
        self._database = SqliteDatabase(path_of(url), url=url, tenant=check_tenant(tenant))
        self._usage = SqliteUsage(self._database)
        self._watchers = Watchers(self._database.look)

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url

    @property
    def tenant(self) -> str:
        """Whose data it is."""
        return self._database.tenant

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used ones first, then by name."""
        tenant = (self.tenant,)
        with self._database.reading as connection:
            connection.execute("BEGIN")
            found = connection.execute(_LOAD_ALL, tenant).fetchall()
            used: dict[str, int] = dict(connection.execute(_USED, tenant).fetchall())
            connection.execute("COMMIT")
        tools = [self._stored(*row) for row in found]
        if used:
            tools.sort(key=lambda it: -used.get(it.tool.name, 0))
        return tools

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools of these names."""
        wanted = [check_name(name) for name in names]
        with self._database.reading as connection:
            connection.execute("BEGIN")
            found = [
                row
                for name in wanted
                for row in connection.execute(_LOAD, (self.tenant, name)).fetchall()
            ]
            connection.execute("COMMIT")
        tools = (self._stored(*row) for row in found)
        return {it.tool.name: it for it in tools}

    def save(self, tool: Tool | StoredTool, *, expected: Revision = ANY) -> int:
        """Keep a tool and return its revision."""
        name, body, extras = _entry(tool)
        with self._database.writing as connection:
            if expected is not ANY:
                self._compare(connection, name, expected)
            revision = self._database.next_revision(connection)
            connection.execute(_SAVE, (self.tenant, name, revision, body, extras))
        return revision

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Keep many tools, all or none, and return their revisions by name."""
        entries = {entry[0]: entry for entry in map(_entry, tools)}
        with self._database.writing as connection:
            if expected is not ANY:
                for name in entries:
                    self._compare(connection, name, expected)
            revision = self._database.next_revision(connection)
            rows = ((self.tenant, it[0], revision, it[1], it[2]) for it in entries.values())
            done = 0
            while batch := list(islice(rows, BATCH)):
                connection.executemany(_SAVE, batch)
                done += len(batch)
                if on_progress is not None:
                    on_progress(done, len(entries))
        return dict.fromkeys(entries, revision)

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Forget a tool and its usage, and tell whether there was one."""
        place = (self.tenant, check_name(name))
        with self._database.writing as connection:
            found = connection.execute(_REVISION, place).fetchone()
            self._database.compare(name, None if found is None else found[0], expected)
            connection.execute(_FORGET_USAGE, place)
            if found is not None:
                revision = self._database.next_revision(connection)
                connection.execute(_DELETE, (revision, int(time.time()), *place))
        return found is not None

    def add_usage(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools."""
        self._usage.add(uses)

    def set_usage(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        self._usage.replace(usage)

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        return self._usage.get(names)

    def namespace(self, name: str) -> SqliteKeyValues:
        """Return the values of one room."""
        return SqliteKeyValues(self._database, check_key("namespace", name))

    def namespaces(self) -> list[str]:
        """Return the rooms that have values, in order."""
        with self._database.reading as connection:
            return [name for [name] in connection.execute(_NAMESPACES, (self.tenant,)).fetchall()]

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Tell a watcher, in a thread of the store, what changed; call the result to stop."""
        with self._database.reading:
            pass
        return self._watchers.add(watcher, before_first=self._database.start_looking)

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context that is True for one holder at a time."""
        return lease(self.namespace(LEASES), check_key("job", job))

    def check(self) -> None:
        """Read everything there is.

        Raises:
            StoreDamagedError: when something cannot be read.
        """
        with self._database.reading as connection:
            problems = [it for [it] in connection.execute("PRAGMA integrity_check").fetchall()]
        if problems != ["ok"]:
            raise self._database.damaged(f"The database is inconsistent: {problems[0]}.")
        for it in self.load_all():
            try:
                look_at_schemas(it)
            except ValueError as error:
                raise self._unreadable(it.tool.name, error) from error
        self.usage()
        for name in self.namespaces():
            self.namespace(name).items()

    def close(self) -> None:
        """Let go of the file; any number of times."""
        self._watchers.close()
        self._database.close()

    def _compare(self, connection: sqlite3.Connection, name: str, expected: Revision) -> None:
        found = connection.execute(_REVISION, (self.tenant, name)).fetchone()
        self._database.compare(name, None if found is None else found[0], expected)

    def _stored(self, name: str, body: bytes, revision: int, extras: str | None) -> StoredTool:
        try:
            return read_row(body, revision, extras)
        except (TypeError, ValueError) as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, error: Exception) -> StoreDamagedError:
        return self._database.damaged(f"The tool {name!r} cannot be read: {error}.")


def _entry(tool: object) -> tuple[str, str, str | None]:
    name, body, extras = row_of(tool)
    # As text, so that people can read it with any SQLite tool.
    return name, body.decode(), None if extras is None else extras.decode()
