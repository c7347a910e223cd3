"""Tool definitions and usage counts of one tenant in PostgreSQL: load, save, delete, count."""

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from pegboard.errors import StoreDamagedError
from pegboard.model import Tool, Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import check_schemas, read_row, row_of
from pegboard.storage.postgres.connection_pool import PostgresConnection
from pegboard.storage.postgres.errors import damaged
from pegboard.storage.postgres.transactions import Transactions, batches
from pegboard.storage.store import ANY, OnProgress, Revision, StoredTool, Use, check_revision
from pegboard.storage.usage_counts import MAX_COUNT, checked_usage, checked_uses

__all__ = ["PostgresTools", "PostgresUsage"]

_FETCHED = 5000

_SELECT = """
SELECT it.name, it.revision, convert_to(it.body, 'UTF8'), convert_to(it.extras, 'UTF8')
FROM pegboard.tools AS it
"""
_LOAD = f"{_SELECT} WHERE tenant = %(tenant)s AND body IS NOT NULL AND name = ANY(%(names)s)"
_LOAD_ALL = f"""{_SELECT} LEFT JOIN pegboard.usage USING (tenant, name)
WHERE tenant = %(tenant)s AND body IS NOT NULL
ORDER BY coalesce(use_frequency, 0) DESC, name
"""
_REVISIONS = """
SELECT name, revision FROM pegboard.tools
WHERE tenant = %(tenant)s AND body IS NOT NULL AND name = ANY(%(names)s)
"""
_SAVE = """
INSERT INTO pegboard.tools AS it (tenant, name, revision, body, extras)
SELECT %(tenant)s, new.name, %(revision)s,
    convert_from(new.body, 'UTF8'), convert_from(new.extras, 'UTF8')
FROM unnest(%(names)b::text[], %(bodies)b::bytea[], %(extras)b::bytea[])
    AS new (name, body, extras)
ON CONFLICT (tenant, name) DO UPDATE
SET revision = excluded.revision, body = excluded.body,
    extras = coalesce(excluded.extras, it.extras), deleted_at = NULL
"""
_DELETE = """
WITH forgotten AS (DELETE FROM pegboard.usage WHERE tenant = %(tenant)s AND name = %(name)s)
UPDATE pegboard.tools SET revision = %(revision)s, body = NULL, extras = NULL, deleted_at = now()
WHERE tenant = %(tenant)s AND name = %(name)s AND body IS NOT NULL
"""
_ALL_USAGE = """
SELECT name, use_frequency, last_used FROM pegboard.usage
WHERE tenant = %(tenant)s AND (use_frequency > 0 OR last_used IS NOT NULL)
"""
_SOME_USAGE = f"{_ALL_USAGE} AND name = ANY(%(names)s)"
# Every process writes in one order, or two of them would wait for each other.
_INSERT_USAGE = """
INSERT INTO pegboard.usage AS it (tenant, name, use_frequency, last_used)
SELECT %(tenant)s, new.name, new.use_frequency, new.last_used
FROM unnest(%(names)s::text[], %(counts)s::bigint[], %(moments)s::timestamptz[])
    AS new (name, use_frequency, last_used)
ORDER BY new.name COLLATE "C"
ON CONFLICT (tenant, name) DO UPDATE
"""
_REPLACE_USAGE = f"""{_INSERT_USAGE}
SET use_frequency = excluded.use_frequency, last_used = excluded.last_used
"""
# The sum stays what the column holds, and a slow clock does not turn back the last use.
_ADD_USAGE = f"""{_INSERT_USAGE}
SET use_frequency = it.use_frequency
        + least(excluded.use_frequency, {MAX_COUNT} - it.use_frequency),
    last_used = greatest(it.last_used, excluded.last_used)
"""


class PostgresTools:
    """The tool definitions of one tenant."""

    def __init__(self, transactions: Transactions, url: str) -> None:
        self._transactions = transactions
        self._url = url

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used first, then by name."""
        tenant = {"tenant": self._transactions.tenant}

        def read(connection: PostgresConnection) -> list[StoredTool]:
            tools: list[StoredTool] = []
            # In batches: all rows of a hundred thousand tools at once would fill the memory.
            with connection.transaction(), connection.cursor("pegboard_tools") as cursor:
                cursor.execute(_LOAD_ALL, tenant, binary=True)
                while rows := cursor.fetchmany(_FETCHED):
                    tools += [self._stored(*row) for row in rows]
            return tools

        return self._transactions.read(read)

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools with these names."""
        wanted = [check_name(name) for name in names]
        query = {"tenant": self._transactions.tenant, "names": wanted}
        rows = self._transactions.read(lambda it: it.execute(_LOAD, query, binary=True).fetchall())
        return {row[0]: self._stored(*row) for row in rows}

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Save many tools, all or none, and return their revisions by name."""
        self._transactions.check_open()
        entries = {entry[0]: entry for entry in map(row_of, tools)}
        reported = 0

        def write(connection: PostgresConnection, revision: int) -> int:
            nonlocal reported
            self._compare(connection, list(entries), expected)
            done = 0
            for batch in batches(entries.values(), lambda it: len(it[1])):
                query = {
                    "tenant": self._transactions.tenant,
                    "revision": revision,
                    "names": [name for name, _, _ in batch],
                    "bodies": [body for _, body, _ in batch],
                    "extras": [extras for _, _, extras in batch],
                }
                connection.execute(_SAVE, query)
                done += len(batch)
                # A second attempt starts again, but the reported progress never goes back.
                if on_progress is not None and done > reported:
                    reported = done
                    on_progress(done, len(entries))
            return revision

        return dict.fromkeys(entries, self._transactions.write(write)) if entries else {}

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Delete a tool and its usage, and tell whether the tool existed."""
        query = {"tenant": self._transactions.tenant, "name": check_name(name)}

        def write(connection: PostgresConnection, revision: int) -> bool:
            self._compare(connection, [query["name"]], expected)
            return connection.execute(_DELETE, {**query, "revision": revision}).rowcount > 0

        return self._transactions.write(write)

    def check(self) -> None:
        """Decode every schema.

        Raises:
            StoreDamagedError: when one cannot be read.
        """
        for it in self.load_all():
            try:
                check_schemas(it)
            except ValueError as error:
                raise self._unreadable(it.tool.name, error) from error

    def _compare(
        self, connection: PostgresConnection, names: list[str], expected: Revision
    ) -> None:
        if expected is ANY:
            return
        query = {"tenant": self._transactions.tenant, "names": names}
        found: dict[str, int] = dict(connection.execute(_REVISIONS, query).fetchall())
        for name in names:
            check_revision(name, url=self._url, expected=expected, found=found.get(name))

    def _stored(self, name: str, revision: int, body: bytes, extras: bytes | None) -> StoredTool:
        try:
            return read_row(body, revision, extras)
        except (TypeError, ValueError) as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, error: Exception) -> StoreDamagedError:
        return damaged(f"The tool {name!r} cannot be read: {error}.", self._url)


class PostgresUsage:
    """The usage counts of one tenant."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools."""
        self._write(_ADD_USAGE, checked_uses(uses))

    def replace(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        self._write(_REPLACE_USAGE, checked_usage(usage))

    def get(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        wanted = None if names is None else [check_name(name) for name in names]
        query = {"tenant": self._transactions.tenant, "names": wanted}

        def read(connection: PostgresConnection) -> list[tuple[Any, ...]]:
            statement = _ALL_USAGE if wanted is None else _SOME_USAGE
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
