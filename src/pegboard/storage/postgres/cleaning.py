"""Clean-up of a PostgreSQL store: traces of what was deleted are not kept for ever."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from pegboard.storage.postgres.connections import Connection
from pegboard.storage.postgres.transactions import Transactions

__all__ = ["clean"]

_DUE = """
SELECT 1 FROM pegboard.tenants WHERE tenant = %s AND cleaned_at < now() - interval '1 day'
"""
# Who was away for longer than a week reads everything again.
_CLEAN = """
WITH commits AS (
    DELETE FROM pegboard.commits
    WHERE tenant = %(tenant)s AND committed_at < now() - interval '1 day'
), tools AS (
    DELETE FROM pegboard.tools
    WHERE tenant = %(tenant)s AND deleted_at < now() - interval '7 days' RETURNING revision
), entries AS (
    DELETE FROM pegboard.entries
    WHERE tenant = %(tenant)s AND deleted_at < now() - interval '7 days' RETURNING revision
)
UPDATE pegboard.tenants SET cleaned_at = now(), horizon = greatest(
    horizon, (SELECT max(revision) FROM tools), (SELECT max(revision) FROM entries)
)
WHERE tenant = %(tenant)s
"""


def clean(
    transactions: Transactions, elected: Callable[[str], AbstractContextManager[bool]]
) -> None:
    """Forget old deletions, once a day, in one process."""

    def due(connection: Connection) -> bool:
        return connection.execute(_DUE, [transactions.tenant]).fetchone() is not None

    def write(connection: Connection, _: int) -> None:
        connection.execute(_CLEAN, {"tenant": transactions.tenant})

    if transactions.read(due):
        with elected("clean-up") as chosen:
            if chosen and transactions.read(due):
                transactions.write(write)
