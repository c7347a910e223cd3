"""One tenant's part of an SQLite file: its connections, revisions, changes and tombstones."""

import sqlite3
import time
from pathlib import Path

from pegboard.errors import RevisionConflictError, StoreDamagedError
from pegboard.storage.sqlite.connections import ReadConnection, WriteTransaction
from pegboard.storage.sqlite.file import SqliteFile
from pegboard.storage.store import ANY, Revision, StoreChange

__all__ = ["SqliteDatabase"]

DAY = 24 * 60 * 60

# No counter of its own: a write costs one page less, and the indexes know the answer.
_REVISIONS = """SELECT
    (SELECT max(revision) FROM tools WHERE tenant = ?),
    (SELECT max(revision) FROM entries WHERE tenant = ?),
    (SELECT horizon FROM tenants WHERE tenant = ?)"""
_CHANGED_TOOLS = "SELECT name FROM tools WHERE tenant = ? AND revision > ?"
_CHANGED_NAMESPACES = "SELECT DISTINCT namespace FROM entries WHERE tenant = ? AND revision > ?"
_RAISE_HORIZON = """INSERT INTO tenants (tenant, horizon) VALUES (?, ?)
    ON CONFLICT (tenant) DO UPDATE SET horizon = max(horizon, excluded.horizon)"""
_OLD_TRACES = (
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
    """What a store and its namespaces share. A revision is the number of a write of the tenant."""

    def __init__(self, path: Path, *, url: str, tenant: str) -> None:
        self._file = SqliteFile(path, url=url)
        self.url = url
        self.tenant = tenant
        self.writing: WriteTransaction = WriteTransaction(self._file, self._file.open())
        self.reading: ReadConnection = ReadConnection(self._file)
        self._watching = ReadConnection(self._file)
        self._seen = 0
        self._looked: tuple[sqlite3.Connection, int] | None = None
        self._clean_at = 0.0
        self._given: tuple[tuple[sqlite3.Connection, int] | None, int] = None, 0

    def close(self) -> None:
        """Let go of the connections; the last one to do so tidies up."""
        for it in (self._watching, self.reading, self.writing):
            it.close()

    def next_revision(self, connection: sqlite3.Connection) -> int:
        """Return the revision of what is written in this transaction."""
        if time.monotonic() >= self._clean_at:
            self._clean_at = time.monotonic() + DAY
            self._clean_up(connection)
        # It changes only with what others write, and is known sooner than the last revision.
        [version] = connection.execute("PRAGMA data_version").fetchone()
        before, last = self._given
        if before != (connection, version):
            last, _ = self._revision(connection)
        # Given even if the write is undone: the next number is as good.
        self._given = (connection, version), last + 1
        return last + 1

    def compare(self, key: str, found: int | None, expected: Revision) -> None:
        """Refuse to write where something else than expected is.

        Raises:
            RevisionConflictError: when there is.
        """
        if expected is not ANY and expected != found:
            raise RevisionConflictError(key, url=self.url, expected=expected, found=found)

    def damaged(self, problem: str) -> StoreDamagedError:
        """Return what to raise when a row is not what was written."""
        return self._file.damaged(problem)

    def start_looking(self) -> None:
        """Report what changes from now on."""
        with self._watching as connection:
            self._seen, _ = self._revision(connection)
            self._looked = None

    def look(self) -> StoreChange | None:
        """Return what changed since the last look."""
        with self._watching as connection:
            [version] = connection.execute("PRAGMA data_version").fetchone()
            # The number is counted by each connection for itself.
            if self._looked == (connection, version):
                return None
            connection.execute("BEGIN")
            revision, horizon = self._revision(connection)
            change = self._change(connection, revision, horizon)
            connection.execute("COMMIT")
        self._looked = connection, version
        self._seen = revision
        return change

    def _change(
        self, connection: sqlite3.Connection, revision: int, horizon: int
    ) -> StoreChange | None:
        if revision == self._seen:
            return None
        # Traces are gone, or an older copy was put in the place of the file.
        if horizon > self._seen or revision < self._seen:
            return StoreChange(everything=True)
        since = (self.tenant, self._seen)
        return StoreChange(
            tools=frozenset(name for [name] in connection.execute(_CHANGED_TOOLS, since)),
            namespaces=frozenset(name for [name] in connection.execute(_CHANGED_NAMESPACES, since)),
        )

    def _revision(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Return the last revision, and the last one of which traces may be gone."""
        found = connection.execute(_REVISIONS, (self.tenant,) * 3).fetchone()
        tools, entries, horizon = (it or 0 for it in found)
        try:
            return max(tools, entries, horizon), horizon
        except TypeError as error:
            raise self.damaged(f"Revisions are not numbers: {error}.") from error

    def _clean_up(self, connection: sqlite3.Connection) -> None:
        """Forget what was deleted long ago; the transaction sees to it that one process does."""
        old = (self.tenant, int(time.time()) - DAY)
        for newest, delete in _OLD_TRACES:
            [revision] = connection.execute(newest, old).fetchone()
            if revision is not None:
                connection.execute(delete, old)
                connection.execute(_RAISE_HORIZON, (self.tenant, revision))
