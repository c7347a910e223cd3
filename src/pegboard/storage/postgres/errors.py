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
        "If the statement took longer than `statement_timeout` allows, set a longer timeout in "
        "the URL: `?options=-c%20statement_timeout%3D60s`."
    ),
    errors.LockNotAvailable: (
        "Another session held a lock for longer than `lock_timeout` allows. Look for a session "
        "that is idle in a transaction."
    ),
    errors.InsufficientPrivilege: (
        "Run Pegboard once with a role that may create schemas. Then grant this role the usage of "
        "the schema `pegboard` and all privileges on its tables."
    ),
    errors.ReadOnlySqlTransaction: (
        "Connect to the server that accepts writes: `?target_session_attrs=read-write`."
    ),
    errors.DiskFull: "Free some space on the disk of the server.",
}


def lost_connection(error: psycopg.Error) -> bool:
    """Tell whether the connection is what failed, rather than the statement."""
    if error.diag.severity_nonlocalized in {"FATAL", "PANIC"}:
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def repeatable(error: psycopg.Error) -> bool:
    """Tell whether a transaction failed only because of concurrent ones, so that a retry helps."""
    return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected)


def translated(error: psycopg.Error, url: str) -> StorageError:
    """Return the storage error for an error of PostgreSQL."""
    reason = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, _DAMAGED):
        return damaged(f"The tables are not as Pegboard created them: {reason}.", url)
    for kind, remedy in _REMEDIES.items():
        if isinstance(error, kind):
            return StoreUnavailableError(f"{url}: {reason}. {remedy}", url=url)
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailableError(
            f"{url} cannot be used: {reason}. Check that the server runs, and that the host, the "
            "user, the password and the database are correct.",
            url=url,
        )
    return StorageError(f"{url}: {reason}.", url=url)


def damaged(problem: str, url: str) -> StoreDamagedError:
    """Return the error to raise when the tables or rows are damaged."""
    remedy = f"pegboard store migrate --store BACKUP {shlex.quote(url)}"
    advice = "Only a backup helps: a database dump with `pg_restore`, or a copy of the store."
    return StoreDamagedError(f"{problem} {advice}", url=url, remedy=remedy)
