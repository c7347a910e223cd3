"""The SQLite store: the tools and usage counts of one tenant in one file."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Self

from pegboard.errors import StoreDamagedError
from pegboard.model import Tool, Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.buckets import BUCKETS, fill
from pegboard.storage.encoding import (
    check_key,
    check_schemas,
    check_tenant,
    read_row,
    row_of,
)
from pegboard.storage.leases import LEASES, lease
from pegboard.storage.open_store import path_of
from pegboard.storage.sqlite.database import SqliteDatabase
from pegboard.storage.sqlite.key_values import SqliteKeyValues
from pegboard.storage.store import ANY, OnProgress, Revision, StoreChange, StoredTool, Use
from pegboard.storage.usage_counts import checked_count, checked_usage, checked_uses
from pegboard.storage.watchers import Watchers

__all__ = ["SqliteStore", "open_url"]

BATCH = 500

# As bytes, which the decoder takes.
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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_COUNTED = """SELECT name, use_frequency, last_used FROM usage
    WHERE tenant = ? AND (use_frequency <> 0 OR last_used IS NOT NULL)"""
_ALL_USAGE = f"{_COUNTED} ORDER BY name"
_USAGE_OF = f"{_COUNTED} AND name = ?"
_REPLACE_USAGE = """INSERT INTO usage (tenant, name, use_frequency, last_used) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant, name) DO UPDATE
    SET use_frequency = excluded.use_frequency, last_used = excluded.last_used"""
# The sum stays a whole number, and a slow clock does not turn back the last use.
_ADD_USAGE = """INSERT INTO usage (tenant, name, use_frequency, last_used) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant, name) DO UPDATE
    SET use_frequency = use_frequency
            + min(excluded.use_frequency, 9223372036854775807 - use_frequency),
        last_used = coalesce(max(last_used, excluded.last_used), last_used, excluded.last_used)"""


def open_url(url: str, tenant: str) -> "SqliteStore":
    """Open the file that a URL names; it is created if it does not exist.

    Raises:
        StorageError: when the file cannot be opened.
    """
    return SqliteStore(url, tenant=tenant)


class SqliteStore:
    """The data of one tenant in an SQLite file; safe for many threads and processes."""

    def __init__(self, url: str, *, tenant: str) -> None:
        self._url = url
        self._database = SqliteDatabase(path_of(url), url=url, tenant=check_tenant(tenant))
        self._usage = _Usage(self._database)
        self._watchers = Watchers(self._database.poll)

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._url

    @property
    def tenant(self) -> str:
        """The tenant whose data this is."""
        return self._database.tenant

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used first, then by name."""
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
        """Return the tools with these names."""
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
        """Save a tool and return its revision."""
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
        """Save many tools, all or none, and return their revisions by name."""
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
        """Delete a tool and its usage, and tell whether the tool existed."""
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
        """Return the values of one namespace."""
        return SqliteKeyValues(self._database, check_key("namespace", name))

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces that hold values, in order."""
        with self._database.reading as connection:
            return [name for [name] in connection.execute(_NAMESPACES, (self.tenant,)).fetchall()]

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Call a watcher with every change, in a thread of the store; call the result to stop."""
        with self._database.reading:
            pass
        return self._watchers.add(watcher, before_first=self._database.start_polling)

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context manager that gives True to one holder at a time."""
        return lease(self.namespace(LEASES), check_key("job", job))

    def fill_buckets(self, amounts: Mapping[str, float], *, most: float) -> dict[str, float]:
        """Add to leaky buckets, and return the level of each."""
        return fill(self.namespace(BUCKETS), amounts, most=most)

    def check(self) -> None:
        """Read all data of the tenant.

        Raises:
            StoreDamagedError: when something cannot be read.
        """
        with self._database.reading as connection:
            problems = [it for [it] in connection.execute("PRAGMA integrity_check").fetchall()]
        if problems != ["ok"]:
            raise self._database.damaged(f"The database is inconsistent: {problems[0]}.")
        for it in self.load_all():
            try:
                check_schemas(it)
            except ValueError as error:
                raise self._unreadable(it.tool.name, error) from error
        self.usage()
        for name in self.namespaces():
            self.namespace(name).items()

    def close(self) -> None:
        """Close the file; may be called more than once."""
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


class _Usage:
    """The counts of one tenant."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def add(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools."""
        self._write(_ADD_USAGE, checked_uses(uses))

    def replace(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        self._write(_REPLACE_USAGE, checked_usage(usage))

    def get(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        tenant = self._database.tenant
        wanted = None if names is None else [check_name(name) for name in names]
        with self._database.reading as connection:
            if wanted is None:
                rows = connection.execute(_ALL_USAGE, (tenant,)).fetchall()
            else:
                connection.execute("BEGIN")
                found = (
                    connection.execute(_USAGE_OF, (tenant, name)).fetchone() for name in wanted
                )
                rows = [row for row in found if row is not None]
                connection.execute("COMMIT")
        return {name: self._usage(name, count, moment) for name, count, moment in rows}

    def _write(self, statement: str, counts: Mapping[str, Usage]) -> None:
        tenant = self._database.tenant
        rows = [
            (tenant, name, it.use_frequency, _microseconds(it.last_used))
            for name, it in counts.items()
        ]
        with self._database.writing as connection:
            connection.executemany(statement, rows)

    def _usage(self, name: str, count: int, moment: int | None) -> Usage:
        try:
            last = None if moment is None else _EPOCH + moment * _MICROSECOND
            checked_count(count)
        except (OverflowError, TypeError, ValueError) as error:
            raise self._database.damaged(
                f"The usage of {name!r} cannot be read: {error}."
            ) from error
        return Usage(use_frequency=count, last_used=last)


def _entry(tool: object) -> tuple[str, str, str | None]:
    name, body, extras = row_of(tool)
    # As text, so that people can read it with any SQLite tool.
    return name, body.decode(), None if extras is None else extras.decode()


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND
