"""Tool definitions in PostgreSQL: load, save and delete those of one tenant."""

from collections.abc import Iterable

from pegboard.errors import RevisionConflictError, StoreDamagedError
from pegboard.model import Tool
from pegboard.model.tool_names import check_name
from pegboard.storage.postgres.connection_pool import PostgresConnection
from pegboard.storage.postgres.errors import damaged
from pegboard.storage.postgres.transactions import Transactions, batches
from pegboard.storage.store import ANY, OnProgress, Revision, StoredTool
from pegboard.storage.tool_rows import look_at_schemas, read_row, row_of

__all__ = ["PostgresTools"]

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


class PostgresTools:
    """Definitions by name."""

    def __init__(self, transactions: Transactions, url: str) -> None:
        self._transactions = transactions
        self._url = url

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used ones first, then by name."""
        tenant = {"tenant": self._transactions.tenant}

        def read(connection: PostgresConnection) -> list[StoredTool]:
            tools: list[StoredTool] = []
            # Bit by bit: of a hundred thousand, all rows beside all tools would fill the memory.
            with connection.transaction(), connection.cursor("pegboard_tools") as cursor:
                cursor.execute(_LOAD_ALL, tenant, binary=True)
                while rows := cursor.fetchmany(_FETCHED):
                    tools += [self._stored(*row) for row in rows]
            return tools

        return self._transactions.read(read)

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools of these names."""
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
        """Keep many tools, all or none, and return their revisions by name."""
        self._transactions.check_open()
        entries = {entry[0]: entry for entry in map(row_of, tools)}
        told = 0

        def write(connection: PostgresConnection, revision: int) -> int:
            nonlocal told
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
                # A second attempt begins anew, but the caller is not told of that.
                if on_progress is not None and done > told:
                    told = done
                    on_progress(done, len(entries))
            return revision

        return dict.fromkeys(entries, self._transactions.write(write)) if entries else {}

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Forget a tool and its usage, and tell whether there was one."""
        query = {"tenant": self._transactions.tenant, "name": check_name(name)}

        def write(connection: PostgresConnection, revision: int) -> bool:
            self._compare(connection, [query["name"]], expected)
            return connection.execute(_DELETE, {**query, "revision": revision}).rowcount > 0

        return self._transactions.write(write)

    def check(self) -> None:
        """Read every schema.

        Raises:
            StoreDamagedError: when one cannot be read.
        """
        for it in self.load_all():
            try:
                look_at_schemas(it)
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
            if found.get(name) != expected:
                raise RevisionConflictError(
                    name, url=self._url, expected=expected, found=found.get(name)
                )

    def _stored(self, name: str, revision: int, body: bytes, extras: bytes | None) -> StoredTool:
        try:
            return read_row(body, revision, extras)
        except (TypeError, ValueError) as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, error: Exception) -> StoreDamagedError:
        return damaged(f"The tool {name!r} cannot be read: {error}.", self._url)
