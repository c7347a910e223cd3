"""Key-value namespaces in PostgreSQL: JSON values by key."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from pegboard.storage.encoding import check_key, encode_named_value
from pegboard.storage.postgres.connection_pool import PostgresConnection
from pegboard.storage.postgres.errors import damaged
from pegboard.storage.postgres.transactions import Transactions, batches
from pegboard.storage.store import ANY, Revision, StoredValue, check_revision

__all__ = ["PostgresKeyValues"]

_SELECT = """
SELECT key, revision, convert_to(value, 'UTF8') FROM pegboard.entries
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND value IS NOT NULL
"""
_GET = f"{_SELECT} AND id = %(id)s"
_ITEMS = f"{_SELECT} ORDER BY key"
_KEYS = """
SELECT key FROM pegboard.entries
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND value IS NOT NULL ORDER BY key
"""
_PUT = """
INSERT INTO pegboard.entries AS it (tenant, id, namespace, key, revision, value)
SELECT %(tenant)s, new.id, %(namespace)s, new.key, %(revision)s, convert_from(new.value, 'UTF8')
FROM unnest(%(ids)b::bytea[], %(keys)b::text[], %(values)b::bytea[]) AS new (id, key, value)
ON CONFLICT (tenant, id) DO UPDATE
SET revision = excluded.revision, value = excluded.value, deleted_at = NULL
"""
_DELETE = """
UPDATE pegboard.entries SET revision = %(revision)s, value = NULL, deleted_at = now()
WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) AND value IS NOT NULL
"""


class PostgresKeyValues:
    """The values of one namespace."""

    def __init__(self, transactions: Transactions, url: str, namespace: str) -> None:
        self._transactions = transactions
        self._url = url
        self._namespace = check_key("namespace", namespace)
        self._place = {"tenant": transactions.tenant, "namespace": namespace}

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` if it does not exist."""
        return self._found(_GET, self._wanted(key)).get(key)

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON text, or ``None`` if it does not exist."""
        return next((value for _, _, value in self._rows(_GET, self._wanted(key))), None)

    def items(self) -> Mapping[str, StoredValue]:
        """Return all values, in the order of their keys."""
        return self._found(_ITEMS, self._place)

    def keys(self) -> list[str]:
        """Return the keys in order."""

        def read(connection: PostgresConnection) -> list[tuple[str]]:
            return connection.execute(_KEYS, self._place).fetchall()

        return [key for (key,) in self._transactions.read(read)]

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Save a value and return its revision; the value is durable on return.

        Raises:
            RevisionConflictError: when the stored revision is not the expected one.
        """
        encoded = {key: encode_named_value(key, value)}

        def write(connection: PostgresConnection, revision: int) -> int:
            if expected is not ANY:
                query = {**self._place, "id": self._id(key)}
                row = connection.execute(_GET, query).fetchone()
                found = None if row is None else row[1]
                check_revision(key, url=self._url, expected=expected, found=found)
            self._put(connection, encoded, revision)
            return revision

        return self._transactions.write(write)

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Save many values, all or none."""
        self._transactions.check_open()
        encoded = {key: encode_named_value(key, value) for key, value in values.items()}
        if encoded:
            self._transactions.write(
                lambda connection, revision: self._put(connection, encoded, revision)
            )

    def delete(self, keys: Iterable[str]) -> int:
        """Delete values, and return how many existed."""
        self._transactions.check_open()
        ids = [self._id(check_key("key", key)) for key in keys]
        if not ids:
            return 0

        def write(connection: PostgresConnection, revision: int) -> int:
            query = {**self._place, "ids": ids, "revision": revision}
            return connection.execute(_DELETE, query).rowcount

        return self._transactions.write(write)

    def _put(
        self, connection: PostgresConnection, encoded: Mapping[str, bytes], revision: int
    ) -> None:
        for batch in batches(encoded.items(), lambda it: len(it[1])):
            query = {
                **self._place,
                "revision": revision,
                "ids": [self._id(key) for key, _ in batch],
                "keys": [key for key, _ in batch],
                "values": [value for _, value in batch],
            }
            connection.execute(_PUT, query)

    def _wanted(self, key: str) -> dict[str, Any]:
        return {**self._place, "id": self._id(check_key("key", key))}

    def _rows(self, query: str, parameters: Mapping[str, Any]) -> list[tuple[str, int, bytes]]:
        def read(connection: PostgresConnection) -> list[tuple[Any, ...]]:
            return connection.execute(query.encode(), parameters, binary=True).fetchall()

        return self._transactions.read(read)

    def _found(self, query: str, parameters: Mapping[str, Any]) -> dict[str, StoredValue]:
        rows = self._rows(query, parameters)
        return {key: self._decoded(key, revision, value) for key, revision, value in rows}

    def _decoded(self, key: str, revision: int, value: bytes) -> StoredValue:
        try:
            return StoredValue(value=msgspec.json.decode(value), revision=revision)
        except ValueError as error:
            raise damaged(
                f"The value of {key!r} in {self._namespace!r} is not JSON: {error}.", self._url
            ) from error

    def _id(self, key: str) -> bytes:
        # No key contains a NUL, so no two pairs give the same id.
        return sha256(f"{self._namespace}\0{key}".encode()).digest()[:16]
