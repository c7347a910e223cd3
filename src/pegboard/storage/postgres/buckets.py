"""Leaky buckets in PostgreSQL: amounts that drain by one a second of the server's clock."""

from collections.abc import Mapping
from hashlib import sha256

from pegboard.storage.encoding import check_key
from pegboard.storage.postgres.connection_pool import PostgresConnection
from pegboard.storage.postgres.transactions import Transactions

__all__ = ["fill"]

# In the order of the ids, so that two transactions never wait for each other.
_FILL = """
INSERT INTO pegboard.buckets AS it (tenant, id, empty_at)
SELECT %(tenant)s, new.id, now() + least(new.amount, %(most)s) * interval '1 second'
FROM unnest(%(ids)b::bytea[], %(amounts)s::float8[]) AS new (id, amount) ORDER BY new.id
ON CONFLICT (tenant, id) DO UPDATE SET empty_at = least(
    greatest(it.empty_at, now()) + (excluded.empty_at - now()),
    now() + %(most)s * interval '1 second'
)
RETURNING id, extract(epoch FROM empty_at - now())::float8
"""


def fill(
    transactions: Transactions, amounts: Mapping[str, float], *, most: float
) -> dict[str, float]:
    """Add to buckets, all or none, and return their levels."""
    transactions.check_open()
    keys = {sha256(check_key("key", key).encode()).digest()[:16]: key for key in amounts}
    query = {
        "tenant": transactions.tenant,
        "ids": list(keys),
        "amounts": list(amounts.values()),
        "most": most,
    }

    def write(connection: PostgresConnection, _: int) -> dict[str, float]:
        rows = connection.execute(_FILL, query).fetchall()
        return {keys[bytes(it)]: level for it, level in rows}

    return transactions.write(write, announced=False) if keys else {}
