"""Clean-up of a PostgreSQL store: old tombstones, the traces of deleted rows, are removed daily."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from pegboard.errors import StorageError
from pegboard.storage.postgres.connection_pool import ConnectionPool, PostgresConnection
from pegboard.storage.postgres.leader_election import election
from pegboard.storage.postgres.transactions import Transactions

__all__ = ["TransactionsWithCleanup"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

Result = TypeVar("Result")

PAUSE = 60 * 60.0
"""Seconds between two looks of a process whether the last clean-up is a day ago."""
BATCH = 2000
"""So many rows of a table go at once: a writer waits for no more than that."""

_DUE = """
SELECT 1 FROM pegboard.tenants WHERE tenant = %s AND cleaned_at < now() - interval '1 day'
"""
# Who was away for longer than a week reads everything again. By place, which stays the same: all
# who write to these rows wait for the row of the tenant, and marks are never changed.
_CLEAN = """
WITH commits AS (
    DELETE FROM pegboard.commits WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM pegboard.commits
        WHERE tenant = %(tenant)s AND committed_at < now() - interval '1 day'
        LIMIT %(batch)s
    )) RETURNING 1
), tools AS (
    DELETE FROM pegboard.tools WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM pegboard.tools
        WHERE tenant = %(tenant)s AND deleted_at < now() - interval '7 days'
        LIMIT %(batch)s
    )) RETURNING revision
), entries AS (
    DELETE FROM pegboard.entries WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM pegboard.entries
        WHERE tenant = %(tenant)s AND deleted_at < now() - interval '7 days'
        LIMIT %(batch)s
    )) RETURNING revision
)
UPDATE pegboard.tenants SET cleaned_at = now(), horizon = greatest(
    horizon, (SELECT max(revision) FROM tools), (SELECT max(revision) FROM entries)
)
WHERE tenant = %(tenant)s
RETURNING greatest(
    (SELECT count(*) FROM commits), (SELECT count(*) FROM tools), (SELECT count(*) FROM entries)
) >= %(batch)s
"""


class TransactionsWithCleanup(Transactions):
    """Transactions after which old deletions are forgotten, once a day and in one process."""

    def __init__(self, connections: ConnectionPool, tenant: str) -> None:
        super().__init__(connections, tenant)
        self._look_at = 0.0

    def write(
        self, work: Callable[[PostgresConnection, int], Result], *, announced: bool = True
    ) -> Result:
        """Do something in one transaction, and clean up after it if that is due."""
        result = super().write(work, announced=announced)
        self.clean()
        return result

    def clean(self) -> None:
        """Forget old deletions, if no process did for a day; a failure is only logged."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + PAUSE
        try:
            if self.read(self._is_due):
                with election(self._connections, self, "clean-up") as chosen:
                    if chosen and self.read(self._is_due):
                        while super().write(self._forget):
                            pass
        except (psycopg.Error, StorageError):
            # Another session is in the way: a later write tries again.
            logger.warning("not_cleaned", exc_info=True)

    def _is_due(self, connection: PostgresConnection) -> bool:
        return connection.execute(_DUE, [self.tenant]).fetchone() is not None

    def _forget(self, connection: PostgresConnection, _: int) -> bool:
        """Forget some, and tell whether there may be more."""
        query = {"tenant": self.tenant, "batch": BATCH}
        row = connection.execute(_CLEAN, query).fetchone()
        return row is not None and row[0]
