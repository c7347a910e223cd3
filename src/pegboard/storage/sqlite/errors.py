"""Translates the errors of SQLite into storage errors."""

import errno
import os
import shlex
import sqlite3

from pegboard.errors import StorageError, StoreDamagedError, StoreUnavailableError

__all__ = ["BUSY", "DAMAGED", "damaged", "translated", "unavailable", "words_of"]

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
"""Codes of errors that end as soon as another connection has finished."""
# Pegboard's statements are correct: if SQLite rejects one, a table or column is missing.
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
"""Codes of a damaged file."""
_REMEDIES = {
    sqlite3.SQLITE_FULL: "The disk is full, or a quota is reached. Free some space.",
    sqlite3.SQLITE_READONLY: "The file or its folder is not writable. Check the permissions.",
    sqlite3.SQLITE_PERM: "The file or its folder cannot be used. Check the permissions.",
    sqlite3.SQLITE_CANTOPEN: "The file cannot be opened. Check its folder and the permissions.",
    sqlite3.SQLITE_IOERR: "The disk reports an error. Check its free space and its health.",
    sqlite3.SQLITE_NOMEM: "There is no memory left.",
    **dict.fromkeys(BUSY, "Another process has been writing for a minute. Try again."),
}
_TOO_MANY_FILES = (
    "This process or the machine has too many open files. Close some, or raise the limit "
    "(`ulimit -n`)."
)


def translated(error: sqlite3.Error | UnicodeDecodeError, url: str) -> StorageError:
    """Return the storage error for an error of SQLite, or of decoding its text."""
    # Errors of the Python module itself have no code: a misuse, or invalid characters.
    unreadable = isinstance(error, UnicodeDecodeError | sqlite3.OperationalError)
    unknown = sqlite3.SQLITE_CORRUPT if unreadable else sqlite3.SQLITE_MISUSE
    code = getattr(error, "sqlite_errorcode", unknown) & 0xFF
    if code in DAMAGED:
        return damaged(f"The database cannot be read: {error}.", url)
    if code in _REMEDIES:
        # SQLite does not say why it could not open a file.
        is_short = code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR) and _is_out_of_files()
        remedy = _TOO_MANY_FILES if is_short else _REMEDIES[code]
        return unavailable(f"{remedy} ({error})", url)
    return StorageError(f"{url}: SQLite reports an error: {error}.", url=url)


def damaged(problem: str, url: str) -> StoreDamagedError:
    """Return the error to raise when the file is damaged."""
    remedy = f"pegboard store recover --store {shlex.quote(url)}"
    return StoreDamagedError(problem, url=url, remedy=remedy)


def unavailable(remedy: str, url: str) -> StoreUnavailableError:
    """Return the error to raise when the file cannot be used at the moment."""
    return StoreUnavailableError(
        f"{url} cannot be used now. Nothing was changed. {remedy}", url=url
    )


def words_of(error: OSError) -> str:
    """Return the reason of an operating system error as a sentence."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return _TOO_MANY_FILES
    return f"{error.strerror or error}."


def _is_out_of_files() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
