"""Recovery of a damaged SQLite file: what can be read goes into a new one."""

import os
import sqlite3
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pegboard.errors import StorageError, StoreDamagedError, StoreUnavailableError
from pegboard.storage.recovered import Recovered
from pegboard.storage.sqlite.connections import is_in_use
from pegboard.storage.sqlite.file import RECOVERING, SIDE_FILES, SqliteFile
from pegboard.storage.sqlite.pages import Cell, Pages
from pegboard.storage.sqlite.salvage import Salvage

__all__ = ["recover"]

_TOOL = """INSERT INTO tools (tenant, name, revision, body, extras, deleted_at)
    VALUES (?, ?, ?, ?, ?, ?)"""
_ENTRY = """INSERT INTO entries (tenant, namespace, key, revision, value, deleted_at)
    VALUES (?, ?, ?, ?, ?, ?)"""
_USAGE = "INSERT INTO usage (tenant, name, use_frequency, last_used) VALUES (?, ?, ?, ?)"
_HORIZON = "INSERT INTO tenants (tenant, horizon) VALUES (?, ?)"
_ROWS = (
    "SELECT tenant, name, revision, body, extras, deleted_at FROM tools",
    "SELECT tenant, namespace, key, revision, value, deleted_at FROM entries",
)
# Tables that are an index of themselves.
_KEYS = (
    "SELECT tenant, name, use_frequency, last_used FROM usage",
    "SELECT tenant, horizon FROM tenants",
)


def recover(path: Path) -> Recovered:
    """Move a damaged file aside, as it is; a new one with all that can be read takes its place.

    Every tenant's data is kept. A file without damage is left alone, and one that was moved aside
    by a recovery that did not live to its end gets its successor.

    Raises:
        StorageError: when the file is another program's or in use, or cannot be read or written.
    """
    file = SqliteFile(path, url=str(path))
    try:
        if not file.path.exists():
            return _finish(file)
        if not file.path.is_file():
            raise _unavailable(file, "It is not a file")
        sound = _salvage_if_sound(file)
        if sound is not None:
            return Recovered(kept=sound.names(), lost=(), saved_as=None)
        with _held(file) as content:
            pages = Pages(content.read(), _read(file.beside("-wal")))
            salvage = Salvage(pages.cells())
            _write(salvage, file)
            saved_as = _new_place(file)
            if sys.platform == "win32":
                # What is open cannot be moved there, by whomever.
                content.close()
            file.path.rename(saved_as)
            _put_in_place(file, saved_as)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise _unavailable(file, str(error)) from error
    lost = (*pages.lost(), *salvage.lost())
    return Recovered(kept=salvage.names(), lost=lost, saved_as=saved_as)


def _finish(file: SqliteFile) -> Recovered:
    """Do what a recovery did not live to do."""
    if not file.beside(RECOVERING).exists():
        raise _unavailable(file, "There is no such file")
    found = _last_place(file)
    _put_in_place(file, found or _new_place(file))
    kept = _salvage_if_sound(file)
    lost: list[str] = []
    if found is not None:
        pages = Pages(_read(found), _read(found.with_name(f"{found.name}-wal")))
        lost = [*pages.lost(), *Salvage(pages.cells()).lost()]
    return Recovered(kept=kept.names() if kept else (), lost=tuple(lost), saved_as=found)


def _salvage_if_sound(file: SqliteFile) -> Salvage | None:
    """Return what is in a file if it is all there, and nothing needs to be done.

    Raises:
        StorageError: when it is another program's, or cannot be read now.
    """
    try:
        file.look()
        logged = file.log_size() > 0
        if _read(file.beside("-journal")):
            return None
        if not logged and file.path.stat().st_size == 0:
            return Salvage([])
        with closing(file.connect_to_look(logged=logged)) as connection:
            return _everything(connection)
    except StoreDamagedError:
        return None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        found = file.error(error)
        if isinstance(found, StoreDamagedError):
            return None
        raise found from error


def _everything(connection: sqlite3.Connection) -> Salvage | None:
    # In one transaction: others may be writing.
    connection.execute("BEGIN")
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        return None
    cells: list[Cell] = [(True, row) for query in _ROWS for row in connection.execute(query)]
    cells += [(False, row) for query in _KEYS for row in connection.execute(query)]
    found = Salvage(cells)
    taken = len(found.tools) + len(found.entries) + len(found.usage) + len(found.horizons)
    return found if taken == len(cells) else None


@contextmanager
def _held(file: SqliteFile) -> Generator[BinaryIO]:
    """Give the content of a file that nobody else can use meanwhile.

    Raises:
        StoreUnavailableError: when somebody does.
    """
    # Our own connections would lose their locks when this closes the file.
    if is_in_use(file.path):
        raise _unavailable(file, "It is in use; close it first")
    with file.path.open("r+b") as content:
        if not _is_locked(content) or not os.path.samestat(
            os.fstat(content.fileno()), file.path.stat()
        ):
            raise _unavailable(file, "Somebody else uses it; close it there first")
        yield content


if sys.platform == "win32":

    def _is_locked(_: BinaryIO) -> bool:
        # A file that somebody else uses cannot be moved there.
        return True
else:
    import fcntl

    # Where SQLite has its locks (https://www.sqlite.org/fileformat2.html#the_lock_byte_page);
    # whoever has a log of changes open holds one.
    _LOCKS, _LENGTH = 0x4000_0000, 512

    def _is_locked(content: BinaryIO) -> bool:
        try:
            fcntl.lockf(content, fcntl.LOCK_EX | fcntl.LOCK_NB, _LENGTH, _LOCKS)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _write(salvage: Salvage, file: SqliteFile) -> None:
    """Make the file that takes the place of the damaged one; it has its name once it is whole."""
    path = file.beside(f"{RECOVERING}-part")
    new = SqliteFile(path, url=str(path))
    _remove(new)
    try:
        with closing(new.open()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_TOOL, salvage.tools.values())
            connection.executemany(_ENTRY, salvage.entries.values())
            connection.executemany(_USAGE, salvage.usage.values())
            connection.executemany(_HORIZON, salvage.last_revisions().items())
            connection.execute("COMMIT")
            # Closing does that too, but says nothing when it cannot.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        _give_to_owner(new.path, file.path)
        new.path.replace(file.beside(RECOVERING))
    except BaseException as error:
        _remove(new)
        if isinstance(error, sqlite3.Error):
            raise new.error(error) from error
        raise


def _give_to_owner(path: Path, like: Path) -> None:
    if hasattr(os, "chown"):
        known = like.stat()
        with suppress(PermissionError):
            os.chown(path, known.st_uid, known.st_gid)
        with suppress(PermissionError):
            path.chmod(known.st_mode & 0o777)


def _put_in_place(file: SqliteFile, place: Path) -> None:
    """Move aside what belongs to the damaged file, and let the new one take its name."""
    # SQLite finds them by the name of the database.
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


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _unavailable(file: SqliteFile, problem: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{file.url} cannot be recovered now: {problem}. Nothing was changed.", url=file.url
    )
