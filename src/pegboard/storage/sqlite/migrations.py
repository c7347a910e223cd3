"""Schema migrations of SQLite files: numbered steps, forward only, never edited once released."""

import sqlite3
from collections.abc import Sequence

__all__ = ["APPLICATION_ID", "STEPS", "VERSION", "Step", "migrate"]

Step = tuple[int, Sequence[str]]
"""The version that a store has after the step, and the statements that lead there."""

# "PEGB": marks a file as a store of Pegboard.
APPLICATION_ID = 0x50454742

# `recovery_reader` also names the tables and their columns.
STEPS: tuple[Step, ...] = (
    (
        1,
        (
            # Tombstones up to the horizon may be gone.
            """CREATE TABLE tenants (
                tenant TEXT NOT NULL PRIMARY KEY,
                horizon INTEGER NOT NULL
            ) WITHOUT ROWID""",
            # A row without a body is the tombstone of a deleted tool, for the watchers.
            """CREATE TABLE tools (
                tenant TEXT NOT NULL,
                name TEXT NOT NULL,
                revision INTEGER NOT NULL,
                body TEXT,
                extras TEXT,
                deleted_at INTEGER
            )""",
            "CREATE UNIQUE INDEX tools_by_name ON tools (tenant, name)",
            "CREATE INDEX tools_by_revision ON tools (tenant, revision)",
            """CREATE INDEX tools_by_deletion ON tools (tenant, deleted_at)
                WHERE deleted_at IS NOT NULL""",
            # `last_used` counts microseconds since 1970.
            """CREATE TABLE usage (
                tenant TEXT NOT NULL,
                name TEXT NOT NULL,
                use_frequency INTEGER NOT NULL,
                last_used INTEGER,
                PRIMARY KEY (tenant, name)
            ) WITHOUT ROWID""",
            """CREATE TABLE entries (
                tenant TEXT NOT NULL,
                namespace TEXT NOT NULL,
                key TEXT NOT NULL,
                revision INTEGER NOT NULL,
                value TEXT,
                deleted_at INTEGER
            )""",
            "CREATE UNIQUE INDEX entries_by_key ON entries (tenant, namespace, key)",
            "CREATE INDEX entries_by_revision ON entries (tenant, revision, namespace)",
            """CREATE INDEX entries_by_deletion ON entries (tenant, deleted_at)
                WHERE deleted_at IS NOT NULL""",
        ),
    ),
)

VERSION: int = STEPS[-1][0]


def migrate(connection: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> None:
    """Apply all steps that a file lacks, all or none; a newer file is left as it is.

    Several processes may call this at once: one migrates, and the others wait for it.
    """
    if _version(connection) >= steps[-1][0]:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        for number, statements in steps:
            if number > version:
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]
