"""Daily clean-up of a PostgreSQL store: removes old tombstones, the marks of deleted rows."""

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
"""Seconds between two checks of a process whether the last clean-up was a day ago."""
BATCH = 2000
"""How many rows of a table are removed at once, which bounds the time that a writer waits."""

_DUE = """
SELECT 1 FROM pegboard.tenants WHERE tenant = %s AND cleaned_at < now() - interval '1 day'
"""
# A watcher that was away for longer than a week reads everything again. Rows are found by `ctid`,
# which cannot change here: writers wait for the row of the tenant, and commits are never updated.
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
), buckets AS (
    DELETE FROM pegboard.buckets
    WHERE tenant = %(tenant)s AND empty_at < now() - interval '1 day'
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
    """Transactions that also remove old tombstones, once a day and in one process."""

    def __init__(self, connections: ConnectionPool, tenant: str) -> None:
        super().__init__(connections, tenant)
        self._check_at = 0.0

    def write(
        self, work: Callable[[PostgresConnection, int], Result], *, announced: bool = True
    ) -> Result:
        """Run ``work`` in one transaction, and clean up after it if that is due."""
        result = super().write(work, announced=announced)
        self.clean()
        return result

    def clean(self) -> None:
        """Remove old tombstones if no process did so for a day; a failure is only logged."""
        if time.monotonic() < self._check_at:
            return
        self._check_at = time.monotonic() + PAUSE
        try:
            if self.read(self._is_due):
                with election(self._connections, self, "clean-up") as chosen:
                    if chosen and self.read(self._is_due):
                        while super().write(self._remove_some):
                            pass
        except (psycopg.Error, StorageError):
            # Another session is in the way: a later write tries again.
            logger.warning("not_cleaned", exc_info=True)

    def _is_due(self, connection: PostgresConnection) -> bool:
        return connection.execute(_DUE, [self.tenant]).fetchone() is not None

    def _remove_some(self, connection: PostgresConnection, _: int) -> bool:
        """Remove some tombstones, and tell whether there may be more."""
        query = {"tenant": self.tenant, "batch": BATCH}
        row = connection.execute(_CLEAN, query).fetchone()
        return row is not None and row[0]
