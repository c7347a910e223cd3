"""Translates the errors of PostgreSQL and psycopg into storage errors."""

import shlex

import psycopg
from psycopg import errors

from pegboard.errors import StorageError, StoreDamagedError, StoreUnavailableError

__all__ = ["damaged", "lost_connection", "repeatable", "translated"]


_DAMAGED = (
    errors.DataCorrupted,
    errors.IndexCorrupted,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.InvalidSchemaName,
)
_REMEDIES: dict[type[psycopg.Error], str] = {
    errors.QueryCanceled: (
        "If it took longer than `statement_timeout` allows, give a longer one in the URL: "
        "`?options=-c%20statement_timeout%3D60s`."
    ),
    errors.LockNotAvailable: (
        "Another session held a lock for longer than `lock_timeout` allows: look for one that is "
        "idle in a transaction."
    ),
    errors.InsufficientPrivilege: (
        "Let a role that may create schemas run Pegboard once, and grant this one the use of the "
        "schema `pegboard` and all rights on its tables."
    ),
    errors.ReadOnlySqlTransaction: (
        "Connect to the server that takes writes: `?target_session_attrs=read-write`."
    ),
    errors.DiskFull: "Make room on the disk of the server.",
}


def lost_connection(error: psycopg.Error) -> bool:
    """Tell whether the connection is what failed, rather than the statement."""
    if error.diag.severity_nonlocalized in {"FATAL", "PANIC"}:
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def repeatable(error: psycopg.Error) -> bool:
    """Tell whether a transaction failed only because of others that ran at the same time."""
    return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected)


def translated(error: psycopg.Error, url: str) -> StorageError:
    """Return the error to raise."""
    reason = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, _DAMAGED):
        return damaged(f"The tables are not as Pegboard made them: {reason}.", url)
    for kind, remedy in _REMEDIES.items():
        if isinstance(error, kind):
            return StoreUnavailableError(f"{url}: {reason}. {remedy}", url=url)
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailableError(
            f"{url} cannot be used: {reason}. Check that the server runs, and that host, "
            "user, password and database are right.",
            url=url,
        )
    return StorageError(f"{url}: {reason}.", url=url)


def damaged(problem: str, url: str) -> StoreDamagedError:
    """Return the error for what was not written by us."""
    remedy = f"pegboard store migrate --store BACKUP {shlex.quote(url)}"
    advice = "Only a backup brings it back: one of the server by `pg_restore`, or a copied store."
    return StoreDamagedError(f"{problem} {advice}", url=url, remedy=remedy)
