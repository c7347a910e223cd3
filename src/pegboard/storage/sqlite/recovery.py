"""Recovery of a damaged SQLite file: a new file takes its place with all rows that can be read."""

import os
import shutil
import sqlite3
import sys
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pegboard.errors import StorageError, StoreDamagedError, StoreUnavailableError
from pegboard.storage.sqlite.connections import is_in_use
from pegboard.storage.sqlite.file import RECOVERING, SIDE_FILES, SqliteFile
from pegboard.storage.sqlite.recovery_reader import COLUMNS, RecoveredRows, Row, read_damaged
from pegboard.storage.store import Recovered

__all__ = ["recover"]

_LOST_LOG = "{}: The header of the write-ahead log is damaged, so the latest writes are lost."


def recover(path: Path) -> Recovered:
    """Move a damaged file aside, and put a new file with all readable rows in its place.

    The data of every tenant is rescued. A file without damage is left as it is. If an earlier
    recovery was interrupted after it had moved the file aside, this completes it.

    Raises:
        StorageError: when the file belongs to another program, is in use, or cannot be read or
            written.
    """
    file = SqliteFile(path, url=str(path))
    try:
        if not file.path.exists():
            return _finish(file)
        if not file.path.is_file():
            raise _unavailable(file, "it is not a file")
        sound = _rows_if_sound(file)
        if sound is not None:
            return Recovered(kept=sound.names(), lost=(), saved_as=None)
        with _held(file) as content:
            lost = () if file.is_log_readable() else (_LOST_LOG.format(file.beside("-wal")),)
            rows = _rows_of_damaged(file, content, file.beside("-wal"))
            _write(rows, file)
            saved_as = _new_place(file)
            if sys.platform == "win32":
                # On Windows no process can move a file that is open.
                content.close()
            file.path.rename(saved_as)
            _put_in_place(file, saved_as)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise _unavailable(file, str(error)) from error
    return Recovered(kept=rows.names(), lost=(*lost, *rows.lost()), saved_as=saved_as)


def _finish(file: SqliteFile) -> Recovered:
    """Complete a recovery that was interrupted."""
    if not file.beside(RECOVERING).exists():
        raise _unavailable(file, "the file does not exist")
    found = _last_place(file)
    _put_in_place(file, found or _new_place(file))
    kept = _rows_if_sound(file)
    lost: tuple[str, ...] = ()
    if found is not None:
        with found.open("rb") as content:
            lost = _rows_of_damaged(file, content, found.with_name(f"{found.name}-wal")).lost()
    return Recovered(kept=kept.names() if kept else (), lost=lost, saved_as=found)


def _rows_if_sound(file: SqliteFile) -> RecoveredRows | None:
    """Return the rows of a file if it is not damaged, so that nothing needs to be done.

    Raises:
        StorageError: when the file belongs to another program, or cannot be read now.
    """
    try:
        file.inspect()
        logged = file.log_size() > 0
        journal = file.beside("-journal")
        if journal.exists() and journal.stat().st_size:
            return None
        if not logged and file.path.stat().st_size == 0:
            return RecoveredRows()
        with closing(file.connect_read_only(logged=logged)) as connection:
            return _everything(connection)
    except StoreDamagedError:
        return None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        found = file.error(error)
        if isinstance(found, StoreDamagedError):
            return None
        raise found from error


def _everything(connection: sqlite3.Connection) -> RecoveredRows | None:
    # In one transaction: other processes may be writing.
    connection.execute("BEGIN")
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        return None
    found = RecoveredRows()
    count = 0
    for table, columns in COLUMNS.items():
        for row in connection.execute(f"SELECT {columns} FROM {table}"):  # noqa: S608
            found.add(table, row)
            count += 1
    return found if len(found) == count else None


def _rows_of_damaged(file: SqliteFile, content: BinaryIO, log: Path) -> RecoveredRows:
    """Return the readable rows of a damaged file from a copy, so that the file is not changed."""
    path = file.beside(f"{RECOVERING}-copy")
    copy = SqliteFile(path, url=str(path))
    _remove(copy)
    try:
        _write_private(copy.path, content)
        if log.exists():
            with log.open("rb") as logged:
                _write_private(copy.beside("-wal"), logged)
        return read_damaged(copy)
    except sqlite3.Error as error:
        raise copy.error(error) from error
    finally:
        _remove(copy)


def _write_private(path: Path, content: BinaryIO) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        shutil.copyfileobj(content, target)


@contextmanager
def _held(file: SqliteFile) -> Generator[BinaryIO]:
    """Open a file that no other process can use meanwhile.

    Raises:
        StoreUnavailableError: when another process uses it.
    """
    # This process's own connections would lose their locks when this closes the file.
    if is_in_use(file.path):
        raise _unavailable(file, "it is in use; close it first")
    with file.path.open("r+b") as content:
        if not _is_locked(content) or not os.path.samestat(
            os.fstat(content.fileno()), file.path.stat()
        ):
            raise _unavailable(file, "another process uses it; close it there first")
        yield content


if sys.platform == "win32":

    def _is_locked(_: BinaryIO) -> bool:
        # On Windows a file that another process uses cannot be moved.
        return True
else:
    import fcntl

    # Where SQLite has its locks (https://www.sqlite.org/fileformat2.html#the_lock_byte_page);
    # a process that has the write-ahead log open holds one.
    _LOCKS, _LENGTH = 0x4000_0000, 512

    def _is_locked(content: BinaryIO) -> bool:
        try:
            fcntl.lockf(content, fcntl.LOCK_EX | fcntl.LOCK_NB, _LENGTH, _LOCKS)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _write(rows: RecoveredRows, file: SqliteFile) -> None:
    """Write the file that replaces the damaged one; it gets its name once it is complete."""
    path = file.beside(f"{RECOVERING}-part")
    new = SqliteFile(path, url=str(path))
    _remove(new)
    try:
        with closing(new.open()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            _insert(connection, "tools", rows.tools.values())
            _insert(connection, "entries", rows.entries.values())
            _insert(connection, "usage", rows.usage.values())
            _insert(connection, "tenants", rows.last_revisions().items())
            connection.execute("COMMIT")
            # Closing does this too, but does not report a failure.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        _give_to_owner(new.path, file.path)
        new.path.replace(file.beside(RECOVERING))
    except BaseException as error:
        _remove(new)
        if isinstance(error, sqlite3.Error):
            raise new.error(error) from error
        raise


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    columns = COLUMNS[table]
    places = ", ".join("?" for _ in columns.split(", "))
    statement = f"INSERT INTO {table} ({columns}) VALUES ({places})"  # noqa: S608 - constants only
    connection.executemany(statement, rows)


def _give_to_owner(path: Path, like: Path) -> None:
    if hasattr(os, "chown"):
        known = like.stat()
        with suppress(PermissionError):
            os.chown(path, known.st_uid, known.st_gid)
        with suppress(PermissionError):
            path.chmod(known.st_mode & 0o777)


def _put_in_place(file: SqliteFile, place: Path) -> None:
    """Move the side files of the damaged file aside, and give its name to the new file."""
    # SQLite finds side files by the name of the database.
    for suffix in SIDE_FILES:
        if file.beside(suffix).exists():
            file.beside(suffix).rename(place.with_name(place.name + suffix))
    file.beside(RECOVERING).replace(file.path)


def _remove(file: SqliteFile) -> None:
    for suffix in ("", *SIDE_FILES):
        file.beside(suffix).unlink(missing_ok=True)


def _new_place(file: SqliteFile) -> Path:
    stem = f"{file.path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    place = file.path.with_name(stem)
    number = 1
    while place.exists():
        number += 1
        place = file.path.with_name(f"{stem}-{number}")
    return place


def _last_place(file: SqliteFile) -> Path | None:
    places = [
        it
        for it in file.path.parent.iterdir()
        if it.name.startswith(f"{file.path.name}.damaged-") and not it.name.endswith(SIDE_FILES)
    ]
    return max(places, key=lambda it: it.stat().st_ctime_ns, default=None)


def _unavailable(file: SqliteFile, problem: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{file.url} cannot be recovered now: {problem}. Nothing was changed.", url=file.url
    )
