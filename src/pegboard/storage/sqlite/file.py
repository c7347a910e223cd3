"""The file of an SQLite store: create it, check its format, connect, and checkpoint the WAL."""

import os
import sqlite3
import struct
import time
from contextlib import closing, suppress
from pathlib import Path

from pegboard.errors import StorageError, StoreDamagedError, StoreVersionError
from pegboard.storage.sqlite.errors import BUSY, damaged, translated, unavailable, words_of
from pegboard.storage.sqlite.migrations import APPLICATION_ID, VERSION, migrate

__all__ = ["LOG_LIMIT", "RECOVERING", "SIDE_FILES", "SqliteFile"]

SIDE_FILES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite puts beside a database in use, and leaves after a crash."""
RECOVERING = ".recovering"
"""The suffix of the file that a recovery writes before it replaces the damaged one."""
BUSY_SECONDS = 60.0
_LOG_HEADER = 32
_LOG_MAGIC = (0x377F0682, 0x377F0683)
_LOG_READINGS = 5
LOG_LIMIT = 4 * 1024 * 1024
"""The size in bytes at which the write-ahead log is checkpointed into the file."""


class SqliteFile:
    """A database file, without knowledge of its tables."""

    def __init__(self, path: Path, *, url: str) -> None:
        # SQLite puts its other files beside the real one.
        self.path: Path = Path(os.path.realpath(path))
        self.url: str = url
        self._log = self.beside("-wal")
        self._identity: tuple[int, int] | None = None

    def open(self) -> sqlite3.Connection:
        """Create or migrate the file, and return the first connection.

        Raises:
            StorageError: when that fails; nothing was changed.
        """
        try:
            self._make()
            self.inspect()
            found = self.path.stat()
            self._identity = found.st_dev, found.st_ino
            connection = self.connect()
            try:
                self._prepare(connection)
                # A recovery may have held the lock meanwhile, and replaced the file.
                self.check_same()
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self.error(error) from error
        except StorageError:
            raise
        except OSError as error:
            raise unavailable(words_of(error), self.url) from error
        return connection

    def connect(self) -> sqlite3.Connection:
        """Return a connection that waits for locks, and whose commits are durable."""
        connection = self._connect(self._mode())
        try:
            connection.execute("PRAGMA synchronous = FULL")
            # Deleted data is overwritten, so that no recovery brings it back.
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
        except BaseException:
            connection.close()
            raise
        return connection

    def connect_read_only(self, *, logged: bool) -> sqlite3.Connection:
        """Return a connection that changes nothing, not even when it is closed.

        Args:
            logged: whether a write-ahead log exists; without one, SQLite must not create it.
        """
        # In the second mode SQLite creates no files, but ignores the log.
        mode = self._mode().replace("=rw", "=ro") if logged else "mode=ro&immutable=1"
        return self._connect(mode)

    def log_size(self) -> int:
        """Return the size of the write-ahead log in bytes."""
        return _size(self._log)

    def is_log_readable(self) -> bool:
        """Tell whether the write-ahead log begins as it should.

        SQLite takes a log with a damaged header for an empty one, and the writes in it for none.
        """
        for _ in range(_LOG_READINGS):
            try:
                with self._log.open("rb") as log:
                    header = log.read(_LOG_HEADER)
            except FileNotFoundError:
                return True
            # A log that is shorter holds no write yet.
            if len(header) < _LOG_HEADER or _is_log_header(header):
                return True
            # Another process may be writing it at this moment.
            time.sleep(0.01)
        return False

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file; the caller holds the write lock.

        Without the lock, SQLite before 3.51.3 may lose writes of another connection that restarts
        the log at the same moment (https://www.sqlite.org/wal.html#walresetbug). Automatic
        checkpoints are off for the same reason.
        """
        # A checkpoint that fails, for example on a full disk, is done later.
        with suppress(sqlite3.Error), closing(self.connect()) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def check_same(self) -> None:
        """Check that the file is still the one that was opened.

        SQLite itself goes on writing to a file that was deleted or replaced.

        Raises:
            StoreUnavailableError: when the file was deleted or replaced.
        """
        try:
            found = self.path.stat()
        except OSError as error:
            raise unavailable(
                "The file is gone. Put it back, or open the store again.", self.url
            ) from error
        if (found.st_dev, found.st_ino) != self._identity:
            raise unavailable("The file was replaced while in use. Open the store again.", self.url)

    def inspect(self) -> None:
        """Check that the file is a Pegboard store, without changing it or creating other files.

        Raises:
            StorageError: when it belongs to another program, is damaged or too new.
        """
        try:
            known = self._header()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self.error(error) from error
        if known is not None:
            self._refuse_others(*known)

    def error(self, error: sqlite3.Error | UnicodeDecodeError) -> StorageError:
        """Return the storage error for an error of SQLite, or of decoding its text."""
        return translated(error, self.url)

    def damaged(self, problem: str) -> StoreDamagedError:
        """Return the error to raise when the file is damaged."""
        return damaged(problem, self.url)

    def beside(self, suffix: str) -> Path:
        """Return one of the files that SQLite puts beside this one."""
        return self.path.with_name(self.path.name + suffix)

    def _make(self) -> None:
        _make_private_folders(self.path.parent)
        if self.path.is_dir():
            raise unavailable("It is a folder. Name a file in it.", self.url)
        if not self.path.exists() and self.beside(RECOVERING).exists():
            raise self.damaged("The file is gone because its recovery was interrupted.")
        # Only a new file is opened here: opening and closing a file that another connection of
        # this process uses would release that connection's locks.
        with suppress(FileExistsError):
            made = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                if hasattr(os, "fchmod"):
                    os.fchmod(made, 0o600)
            finally:
                os.close(made)

    def _refuse_others(self, application: int, version: int, tables: int) -> None:
        if application == APPLICATION_ID:
            if version > VERSION:
                raise StoreVersionError(url=self.url, found=version, known=VERSION)
        elif application or version or tables:
            raise StorageError(
                f"{self.url} is an SQLite database of another program. Nothing was changed. "
                "Choose another file. `pegboard store import` copies a database of RegistryTools.",
                url=self.url,
            )

    def _header(self) -> tuple[int, int, int] | None:
        """Return the application id, the version and the number of tables, if the file has them."""
        while True:
            # In this order: a new file gets its first page before there is a log.
            logged = _size(self._log) > 0
            if _size(self.path) == 0:
                if logged:
                    raise self.damaged("The database is empty, but its write-ahead log is not.")
                return None
            if _size(self.beside("-journal")) > 0:
                # After a crash during its creation, SQLite has to roll back first.
                return None
            if logged and not self.is_log_readable():
                raise self.damaged("The header of its write-ahead log is not what SQLite wrote.")
            try:
                return self._read_header(logged=logged)
            except (sqlite3.DatabaseError, StoreDamagedError):
                # The error is real unless another process began to write at this moment.
                if logged or _size(self._log) == 0:
                    raise

    def _read_header(self, *, logged: bool) -> tuple[int, int, int]:
        with closing(self.connect_read_only(logged=logged)) as connection:
            [page] = connection.execute("PRAGMA page_size").fetchone()
            # SQLite would read the rest of the last page as zeros.
            if not logged and _size(self.path) % page:
                raise self.damaged("The database ends in the middle of a page.")
            return _identify(connection)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._refuse_others(*_identify(connection))
        connection.execute("PRAGMA page_size = 4096")
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                # SQLite refuses two connections that do this at once, without waiting.
                if error.sqlite_errorcode & 0xFF not in BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        migrate(connection)

    def _mode(self) -> str:
        if _is_writable(self.path) or not self.path.exists():
            return "mode=rw"
        # A reader would become the owner of the missing files, and lock out the file's owner.
        if not all(self.beside(it).exists() for it in ("-wal", "-shm")):
            raise unavailable(
                "You may only read it, which works only while a process that may write has it "
                "open. Check the permissions.",
                self.url,
            )
        return "mode=ro&readonly_shm=1"

    def _connect(self, mode: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.path.as_uri()}?{mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )


def _identify(connection: sqlite3.Connection) -> tuple[int, int, int]:
    # In one transaction: another process may be creating the file at this moment.
    connection.execute("BEGIN")
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("COMMIT")
    return application, version, tables


def _is_log_header(header: bytes) -> bool:
    magic = int.from_bytes(header[:4], "big")
    if magic not in _LOG_MAGIC:
        return False
    order = ">" if magic & 1 else "<"
    words = struct.unpack(f"{order}6I", header[:24])
    one = two = 0
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return struct.unpack(">2I", header[24:]) == (one, two)


def _make_private_folders(folder: Path) -> None:
    if not folder.exists():
        _make_private_folders(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
