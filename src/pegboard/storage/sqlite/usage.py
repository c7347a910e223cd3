"""Usage counts in SQLite: how often and when the tools of one tenant were last called."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from pegboard.model import Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.sqlite.database import SqliteDatabase
from pegboard.storage.store import Use
from pegboard.storage.usage_counts import checked_count, checked_usage, checked_uses

__all__ = ["SqliteUsage"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_USED = """SELECT name, use_frequency, last_used FROM usage
    WHERE tenant = ? AND (use_frequency <> 0 OR last_used IS NOT NULL)"""
_ALL = f"{_USED} ORDER BY name"
_ONE = f"{_USED} AND name = ?"
_REPLACE = """INSERT INTO usage (tenant, name, use_frequency, last_used) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant, name) DO UPDATE
    SET use_frequency = excluded.use_frequency, last_used = excluded.last_used"""
# The sum stays a whole number, and a slow clock does not turn back the last use.
_ADD = """INSERT INTO usage (tenant, name, use_frequency, last_used) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant, name) DO UPDATE
    SET use_frequency = use_frequency
            + min(excluded.use_frequency, 9223372036854775807 - use_frequency),
        last_used = coalesce(max(last_used, excluded.last_used), last_used, excluded.last_used)"""


class SqliteUsage:
    """The counts of one tenant."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def add(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools."""
        self._write(_ADD, checked_uses(uses))

    def replace(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        self._write(_REPLACE, checked_usage(usage))

    def get(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        tenant = self._database.tenant
        wanted = None if names is None else [check_name(name) for name in names]
        with self._database.reading as connection:
            if wanted is None:
                rows = connection.execute(_ALL, (tenant,)).fetchall()
            else:
                connection.execute("BEGIN")
                found = (connection.execute(_ONE, (tenant, name)).fetchone() for name in wanted)
                rows = [row for row in found if row is not None]
                connection.execute("COMMIT")
        return {name: self._usage(name, count, moment) for name, count, moment in rows}

    def _write(self, statement: str, counts: Mapping[str, Usage]) -> None:
        tenant = self._database.tenant
        rows = [
            (tenant, name, it.use_frequency, _microseconds(it.last_used))
            for name, it in counts.items()
        ]
        with self._database.writing as connection:
            connection.executemany(statement, rows)

    def _usage(self, name: str, count: int, moment: int | None) -> Usage:
        try:
            last = None if moment is None else _EPOCH + moment * _MICROSECOND
            checked_count(count)
        except (OverflowError, TypeError, ValueError) as error:
            raise self._database.damaged(
                f"The usage of {name!r} cannot be read: {error}."
            ) from error
        return Usage(use_frequency=count, last_used=last)


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND
