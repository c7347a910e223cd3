"""Key-value namespaces in SQLite: JSON values by key."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pegboard.storage.encoding import check_key, encode_named_value
from pegboard.storage.sqlite.database import SqliteDatabase
from pegboard.storage.store import ANY, Revision, StoredValue

__all__ = ["SqliteKeyValues"]

_GET = """SELECT value, revision FROM entries
    WHERE tenant = ? AND namespace = ? AND key = ? AND value IS NOT NULL"""
# As bytes: a text of a megabyte would be decoded and encoded again.
_TEXT = """SELECT CAST(value AS BLOB) FROM entries
    WHERE tenant = ? AND namespace = ? AND key = ? AND value IS NOT NULL"""
_ITEMS = """SELECT key, value, revision FROM entries
    WHERE tenant = ? AND namespace = ? AND value IS NOT NULL ORDER BY key"""
_KEYS = """SELECT key FROM entries
    WHERE tenant = ? AND namespace = ? AND value IS NOT NULL ORDER BY key"""
_PUT = """INSERT INTO entries (tenant, namespace, key, revision, value) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (tenant, namespace, key) DO UPDATE
    SET revision = excluded.revision, value = excluded.value, deleted_at = NULL"""
_DELETE = """UPDATE entries SET revision = ?, value = NULL, deleted_at = ?
    WHERE tenant = ? AND namespace = ? AND key = ? AND value IS NOT NULL"""


class SqliteKeyValues:
    """The values of one namespace."""

    def __init__(self, database: SqliteDatabase, name: str) -> None:
        self._database = database
        self._place = (database.tenant, name)

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` if it does not exist."""
        found = self._row(_GET, key)
        return None if found is None else self._stored(key, *found)

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON text, or ``None`` if it does not exist."""
        found = self._row(_TEXT, key)
        return None if found is None else found[0]

    def items(self) -> Mapping[str, StoredValue]:
        """Return all values, in the order of their keys."""
        with self._database.reading as connection:
            found = connection.execute(_ITEMS, self._place).fetchall()
        return {key: self._stored(key, value, revision) for key, value, revision in found}

    def keys(self) -> list[str]:
        """Return the keys in order."""
        with self._database.reading as connection:
            return [key for (key,) in connection.execute(_KEYS, self._place).fetchall()]

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Save a value and return its revision."""
        text = encode_named_value(key, value).decode()
        with self._database.writing as connection:
            if expected is not ANY:
                found = connection.execute(_GET, (*self._place, key)).fetchone()
                self._database.compare(key, None if found is None else found[1], expected)
            revision = self._database.next_revision(connection)
            connection.execute(_PUT, (*self._place, key, revision, text))
        return revision

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Save many values, all or none."""
        texts = [(key, encode_named_value(key, it).decode()) for key, it in values.items()]
        with self._database.writing as connection:
            revision = self._database.next_revision(connection)
            connection.executemany(
                _PUT, [(*self._place, key, revision, text) for key, text in texts]
            )

    def delete(self, keys: Iterable[str]) -> int:
        """Delete values, and return how many existed."""
        wanted = [check_key("key", key) for key in keys]
        now = int(time.time())
        with self._database.writing as connection:
            revision = self._database.next_revision(connection)
            return connection.executemany(
                _DELETE, [(revision, now, *self._place, key) for key in wanted]
            ).rowcount

    def _row(self, query: str, key: str) -> Any:
        place = (*self._place, check_key("key", key))
        with self._database.reading as connection:
            return connection.execute(query, place).fetchone()

    def _stored(self, key: str, value: str, revision: int) -> StoredValue:
        try:
            return StoredValue(value=msgspec.json.decode(value), revision=revision)
        except (TypeError, ValueError) as error:
            raise self._database.damaged(
                f"The value of {key!r} in {self._place[1]!r} cannot be read: {error}."
            ) from error
