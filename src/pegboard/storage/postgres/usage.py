"""Usage counts in PostgreSQL: how often and when the tools of one tenant were last called."""

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from pegboard.model import Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.postgres.connection_pool import PostgresConnection
from pegboard.storage.postgres.transactions import Transactions
from pegboard.storage.store import Use
from pegboard.storage.usage_counts import MAX_COUNT, checked_usage, checked_uses

__all__ = ["PostgresUsage"]


_ALL = """
SELECT name, use_frequency, last_used FROM pegboard.usage
WHERE tenant = %(tenant)s AND (use_frequency > 0 OR last_used IS NOT NULL)
"""
_SOME = f"{_ALL} AND name = ANY(%(names)s)"
# Every process writes in one order, or two of them would wait for each other.
_INSERT = """
INSERT INTO pegboard.usage AS it (tenant, name, use_frequency, last_used)
SELECT %(tenant)s, new.name, new.use_frequency, new.last_used
FROM unnest(%(names)s::text[], %(counts)s::bigint[], %(moments)s::timestamptz[])
    AS new (name, use_frequency, last_used)
ORDER BY new.name COLLATE "C"
ON CONFLICT (tenant, name) DO UPDATE
"""
_REPLACE = f"""{_INSERT}
SET use_frequency = excluded.use_frequency, last_used = excluded.last_used
"""
# The sum stays what the column holds, and a slow clock does not turn back the last use.
_ADD = f"""{_INSERT}
SET use_frequency = it.use_frequency
        + least(excluded.use_frequency, {MAX_COUNT} - it.use_frequency),
    last_used = greatest(it.last_used, excluded.last_used)
"""


class PostgresUsage:
    """The counts of one tenant."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools."""
        self._write(_ADD, checked_uses(uses))

    def replace(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        self._write(_REPLACE, checked_usage(usage))

    def get(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        wanted = None if names is None else [check_name(name) for name in names]
        query = {"tenant": self._transactions.tenant, "names": wanted}

        def read(connection: PostgresConnection) -> list[tuple[Any, ...]]:
            statement = _ALL if wanted is None else _SOME
            return connection.execute(f"{statement} ORDER BY name".encode(), query).fetchall()

        return {
            name: Usage(use_frequency=count, last_used=moment and moment.astimezone(UTC))
            for name, count, moment in self._transactions.read(read)
        }

    def _write(self, statement: str, counts: Mapping[str, Usage]) -> None:
        self._transactions.check_open()
        query = {
            "tenant": self._transactions.tenant,
            "names": list(counts),
            "counts": [it.use_frequency for it in counts.values()],
            "moments": [it.last_used for it in counts.values()],
        }

        def write(connection: PostgresConnection, _: int) -> None:
            connection.execute(statement.encode(), query)

        if counts:
            self._transactions.write(write, announced=False)
