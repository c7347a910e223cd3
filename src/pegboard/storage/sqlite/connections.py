"""Connections to an SQLite file: one thread at a time uses each, and none survives a fork."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from pegboard.errors import StorageError
from pegboard.model.fork_guard import GuardedLock
from pegboard.storage.sqlite.file import LOG_LIMIT, SqliteFile

__all__ = ["ForkSafeConnection", "ReadConnection", "WriteTransaction", "is_in_use"]

# How long a fork waits for what other threads are doing.
FORK_SECONDS = 10.0


class ForkSafeConnection:
    """A connection that a process lets go of before it forks."""

    def __init__(self, path: Path, first: sqlite3.Connection | None = None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = first
        self._forking = False
        self._lock = GuardedLock("store")
        self.will_fork()

    def will_fork(self) -> None:
        """Take part in the forks of this process."""
        _open.add(self)

    def uses(self, path: Path) -> bool:
        """Tell whether this is connected to a file."""
        return self._connection is not None and self._path == path

    def before_fork(self) -> None:
        """Wait until no thread uses the connection, and let go of it.

        SQLite remembers in memory which locks a process has. A child that opens the file for
        itself would believe that it has them, too.
        """
        if self._lock.acquire(timeout=FORK_SECONDS):
            self._forking = True
            if self._connection is not None and not self._connection.in_transaction:
                self._disconnect()

    def after_fork_in_parent(self) -> None:
        """Let others use the connection again."""
        if self._forking:
            self._forking = False
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Keep a connection that was in use from being closed by the garbage collector."""
        if self._connection is not None:
            _not_ours.append(self._connection)
            self._connection = None

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # On a full disk the write-ahead log stays where it is; nothing is lost.
            with suppress(sqlite3.Error):
                connection.close()


class ReadConnection(ForkSafeConnection):
    """A connection for one thread at a time, opened when first needed; use it as a context.

    The context translates SQLite's errors into storage errors.
    """

    def __init__(self, file: SqliteFile, first: sqlite3.Connection | None = None) -> None:
        super().__init__(file.path, first)
        self._file = file
        self._closed = False

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        try:
            self._check_open()
            if self._connection is None:
                self._file.check_same()
                self._connection = self._file.connect()
            self._begin(self._connection)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.Error):
                raise self._file.error(error) from error
            raise
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if self._connection is not None:
                self._end(self._connection, failed=kind is not None)
            elif kind is None:
                # Closed by the caller, inside the context.
                self._check_open()
        except sqlite3.Error as trouble:
            raise self._file.error(trouble) from trouble
        finally:
            self._lock.release()
        if isinstance(error, sqlite3.Error):
            raise self._file.error(error) from error

    def close(self) -> None:
        """Close the connection for good; a forked child leaves it to its parent."""
        if self._lock.in_child:
            return
        with self._lock:
            self._closed = True
            self._disconnect()

    def _begin(self, connection: sqlite3.Connection) -> None:
        self._file.check_same()

    def _end(self, connection: sqlite3.Connection, *, failed: bool) -> None:
        """Finish it; the connection may be in a transaction of the caller's."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def _check_open(self) -> None:
        if self._closed:
            url = self._file.url
            raise StorageError(f"The store {url} is closed. Open it again.", url=url)


class WriteTransaction(ReadConnection):
    """A transaction of one thread at a time: committed, or rolled back after an exception."""

    _checkpoint_above = LOG_LIMIT

    def _begin(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            raise StorageError(
                f"This thread is already writing to {self._file.url}. Do not write in the "
                "callback that reports the progress.",
                url=self._file.url,
            )
        size = self._file.log_size()
        if size > self._checkpoint_above:
            # If readers of an older state prevent it, it is not tried again at every write.
            self._checkpoint_above = size + LOG_LIMIT
            self._checkpoint(connection)
        elif size <= LOG_LIMIT:
            self._checkpoint_above = LOG_LIMIT
        connection.execute("BEGIN IMMEDIATE")

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        # In a transaction of its own: the next one finds an empty log and restarts it.
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._file.checkpoint()
        finally:
            connection.execute("ROLLBACK")

    def _end(self, connection: sqlite3.Connection, *, failed: bool) -> None:
        if not failed:
            try:
                self._file.check_same()
                connection.execute("COMMIT")
            except BaseException:
                super()._end(connection, failed=True)
                raise
        else:
            super()._end(connection, failed=True)


def is_in_use(path: Path) -> bool:
    """Tell whether this process is connected to a file."""
    return any(it.uses(path) for it in list(_open))


_open: "WeakSet[ForkSafeConnection]" = WeakSet()
_not_ours: list[sqlite3.Connection] = []


def _before_fork() -> None:
    for it in list(_open):
        it.before_fork()


def _after_fork_in_parent() -> None:
    for it in list(_open):
        # Another thread may fork at the same time.
        with suppress(RuntimeError):
            it.after_fork_in_parent()


def _after_fork_in_child() -> None:
    for it in list(_open):
        it.after_fork_in_child()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
