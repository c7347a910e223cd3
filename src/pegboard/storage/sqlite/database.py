"""One tenant's part of an SQLite file: its connections, revisions, change feed and tombstones."""

import sqlite3
import time
from pathlib import Path

from pegboard.errors import StoreDamagedError
from pegboard.storage.sqlite.connections import ReadConnection, WriteTransaction
from pegboard.storage.sqlite.file import SqliteFile
from pegboard.storage.store import Revision, StoreChange, check_revision

__all__ = ["SqliteDatabase"]

DAY = 24 * 60 * 60

# There is no separate counter: a write costs one page less, and the indexes give the answer.
_REVISIONS = """SELECT
    (SELECT max(revision) FROM tools WHERE tenant = ?),
    (SELECT max(revision) FROM entries WHERE tenant = ?),
    (SELECT horizon FROM tenants WHERE tenant = ?)"""
_CHANGED_TOOLS = "SELECT name FROM tools WHERE tenant = ? AND revision > ?"
_CHANGED_NAMESPACES = "SELECT DISTINCT namespace FROM entries WHERE tenant = ? AND revision > ?"
_RAISE_HORIZON = """INSERT INTO tenants (tenant, horizon) VALUES (?, ?)
    ON CONFLICT (tenant) DO UPDATE SET horizon = max(horizon, excluded.horizon)"""
_OLD_TOMBSTONES = (
    (
        "SELECT max(revision) FROM tools WHERE tenant = ? AND deleted_at < ?",
        "DELETE FROM tools WHERE tenant = ? AND deleted_at < ?",
    ),
    (
        "SELECT max(revision) FROM entries WHERE tenant = ? AND deleted_at < ?",
        "DELETE FROM entries WHERE tenant = ? AND deleted_at < ?",
    ),
)


class SqliteDatabase:
    """What a store and its namespaces share; each write of the tenant has its own revision."""

    def __init__(self, path: Path, *, url: str, tenant: str) -> None:
        self._file = SqliteFile(path, url=url)
        self.url = url
        self.tenant = tenant
        self.writing: WriteTransaction = WriteTransaction(self._file, self._file.open())
        self.reading: ReadConnection = ReadConnection(self._file)
        self._watching = ReadConnection(self._file)
        self._seen = 0
        self._polled: tuple[sqlite3.Connection, int] | None = None
        self._clean_at = 0.0
        self._given: tuple[tuple[sqlite3.Connection, int] | None, int] = None, 0

    def close(self) -> None:
        """Close the connections; SQLite tidies up when the last one closes."""
        for it in (self._watching, self.reading, self.writing):
            it.close()

    def next_revision(self, connection: sqlite3.Connection) -> int:
        """Return the revision of this transaction."""
        if time.monotonic() >= self._clean_at:
            self._clean_at = time.monotonic() + DAY
            self._clean_up(connection)
        # It changes only when another connection writes, and is read faster than the revision.
        [version] = connection.execute("PRAGMA data_version").fetchone()
        before, last = self._given
        if before != (connection, version):
            last, _ = self._revision(connection)
        # Used up even if the write is rolled back: the next number is as good.
        self._given = (connection, version), last + 1
        return last + 1

    def compare(self, key: str, found: int | None, expected: Revision) -> None:
        """Compare the stored revision with the expected one.

        Raises:
            RevisionConflictError: when they differ.
        """
        check_revision(key, url=self.url, expected=expected, found=found)

    def damaged(self, problem: str) -> StoreDamagedError:
        """Return the error to raise when a row is damaged."""
        return self._file.damaged(problem)

    def start_polling(self) -> None:
        """Let the next poll report what changes from now on."""
        with self._watching as connection:
            self._seen, _ = self._revision(connection)
            self._polled = None

    def poll(self) -> StoreChange | None:
        """Return what changed since the last poll."""
        with self._watching as connection:
            [version] = connection.execute("PRAGMA data_version").fetchone()
            # Each connection counts its own version.
            if self._polled == (connection, version):
                return None
            connection.execute("BEGIN")
            revision, horizon = self._revision(connection)
            change = self._change(connection, revision, horizon)
            connection.execute("COMMIT")
        self._polled = connection, version
        self._seen = revision
        return change

    def _change(
        self, connection: sqlite3.Connection, revision: int, horizon: int
    ) -> StoreChange | None:
        if revision == self._seen:
            return None
        # Tombstones are gone, or an older copy replaced the file.
        if horizon > self._seen or revision < self._seen:
            return StoreChange(everything=True)
        since = (self.tenant, self._seen)
        return StoreChange(
            tools=frozenset(name for [name] in connection.execute(_CHANGED_TOOLS, since)),
            namespaces=frozenset(name for [name] in connection.execute(_CHANGED_NAMESPACES, since)),
        )

    def _revision(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Return the last revision, and the last one whose tombstones may be gone."""
        found = connection.execute(_REVISIONS, (self.tenant,) * 3).fetchone()
        tools, entries, horizon = (it or 0 for it in found)
        try:
            return max(tools, entries, horizon), horizon
        except TypeError as error:
            raise self.damaged(f"A revision is not a number: {error}.") from error

    def _clean_up(self, connection: sqlite3.Connection) -> None:
        """Remove old tombstones; the transaction makes sure that only one process does."""
        old = (self.tenant, int(time.time()) - DAY)
        for newest, delete in _OLD_TOMBSTONES:
            [revision] = connection.execute(newest, old).fetchone()
            if revision is not None:
                connection.execute(delete, old)
                connection.execute(_RAISE_HORIZON, (self.tenant, revision))
