"""Reads the rows of a damaged SQLite file, past unreadable pages, and validates each row."""

import sqlite3
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec

from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import check_key, check_tenant, decode_tool
from pegboard.storage.sqlite.errors import DAMAGED
from pegboard.storage.sqlite.file import SqliteFile
from pegboard.storage.sqlite.migrations import migrate

__all__ = ["COLUMNS", "RecoveredRows", "Row", "read_damaged"]

Row = tuple[Any, ...]

COLUMNS = {
    "tools": "tenant, name, revision, body, extras, deleted_at",
    "entries": "tenant, namespace, key, revision, value, deleted_at",
    "usage": "tenant, name, use_frequency, last_used",
    "tenants": "tenant, horizon",
}
"""The tables of a store, and their columns."""
MOST_ATTEMPTS = 20_000
"""How many ranges of a table are tried. All are halved in turn, so the remaining ones are small."""

_PAGE = 4096
# More do not fit: a table that seems to have more of them contains a loop.
_MOST_ROWS_OF_A_PAGE = 512
_USUAL_ROWS_OF_A_PAGE = 64
# These hold the key of every row, so that lost rows can be named.
_INDEXES = {
    "tools": ("tools_by_name", ("tenant", "name")),
    "entries": ("entries_by_key", ("tenant", "namespace", "key")),
}
# Tables without rowids.
_KEYS = {"usage": ("tenant", "name"), "tenants": ("tenant",)}
# No count and no revision becomes that large: a number beyond it is damage.
_BEYOND = 2**62
_INVALID = (TypeError, ValueError, RecursionError)
_CONTENT = {
    "tools": "registered tools",
    "entries": "API keys, audit and other values",
    "usage": "how often tools were used",
    "tenants": "revision numbers",
}


class RecoveredRows:
    """The newest valid row of each key, and the rows that are known to be lost."""

    def __init__(self) -> None:
        self.tools: dict[tuple[str, str], Row] = {}
        self.entries: dict[tuple[str, str, str], Row] = {}
        self.usage: dict[tuple[str, str], Row] = {}
        self.horizons: dict[str, int] = {}
        self._expected_tools: set[tuple[str, str]] = set()
        self._expected_entries: set[tuple[str, str, str]] = set()
        self._unreadable: Counter[str] = Counter()
        self._invalid: Counter[str] = Counter()
        self._damage: list[str] = []

    def __len__(self) -> int:
        return len(self.tools) + len(self.entries) + len(self.usage) + len(self.horizons)

    def add(self, table: str, row: Row) -> None:
        """Add a row of a table if it is valid, and newer than an earlier row with its key."""
        match table, row:
            case "tools", (_, _, int(), str() | None, str() | None, int() | None) if _is_tool_key(
                row[:2]
            ):
                self._expected_tools.add(row[:2])
                if _is_newer(row, self.tools.get(row[:2]), at=2) and _is_tool(row):
                    self.tools[row[:2]] = row
            case "entries", (_, _, _, int(), str() | None, int() | None) if _is_entry_key(row[:3]):
                self._expected_entries.add(row[:3])
                if _is_newer(row, self.entries.get(row[:3]), at=3) and _is_entry(row):
                    self.entries[row[:3]] = row
            case "usage", (_, _, int(), int() | None) if _is_tool_key(row[:2]):
                if _is_newer(row, self.usage.get(row[:2]), at=2):
                    self.usage[row[:2]] = row
            case "tenants", (tenant, int(horizon)) if _is_tenant(tenant) and horizon < _BEYOND:
                self.horizons[tenant] = max(horizon, self.horizons.get(tenant, 0))
            case _:
                self._invalid[table] += 1

    def expect(self, table: str, key: Row) -> None:
        """Note a key that an index holds: its row is lost unless it is added."""
        if table == "tools" and _is_tool_key(key):
            self._expected_tools.add(key)
        elif table == "entries" and _is_entry_key(key):
            self._expected_entries.add(key)

    def note_unreadable(self, table: str, ranges: int) -> None:
        """Note how many ranges of rows of a table could not be read."""
        self._unreadable[table] += ranges

    def note_damage(self, sentence: str) -> None:
        """Note another problem of the file."""
        self._damage.append(sentence)

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools of all tenants, in order."""
        return tuple(sorted(name for (_, name), row in self.tools.items() if row[3] is not None))

    def lost(self) -> tuple[str, ...]:
        """Return sentences about the data that could not be read."""
        found = list(self._damage)
        for table, content in _CONTENT.items():
            if count := self._unreadable[table]:
                ranges = "1 row range" if count == 1 else f"{count} row ranges"
                found.append(f"Table `{table}` ({content}): {ranges} could not be read.")
            if count := self._invalid[table]:
                rows = "1 row was" if count == 1 else f"{count} rows were"
                found.append(f"Table `{table}` ({content}): {rows} not valid.")
        found += [
            f"The tool {name!r} of tenant {tenant!r} could not be read."
            for tenant, name in sorted(self._expected_tools - self.tools.keys())
        ]
        found += [
            f"The value of {key!r} in {space!r} of tenant {tenant!r} could not be read."
            for tenant, space, key in sorted(self._expected_entries - self.entries.keys())
        ]
        return tuple(found)

    def last_revisions(self) -> dict[str, int]:
        """Return a revision for each tenant that is higher than all of its rows."""
        last = dict(self.horizons)
        rows = [(it[0], it[2]) for it in self.tools.values()]
        rows += [(it[0], it[3]) for it in self.entries.values()]
        for tenant, revision in rows:
            last[tenant] = max(last.get(tenant, 0), revision + 1)
        return last


def read_damaged(copy: SqliteFile) -> RecoveredRows:
    """Return the rows that SQLite can read from a copy of a damaged file; the copy may change.

    Raises:
        sqlite3.Error: for every error but damage.
    """
    # SQLite discards the write-ahead log that it finds beside an empty file.
    if copy.path.stat().st_size:
        with closing(_connect(copy)) as connection:
            if _has_tables(connection):
                return _Reader(connection, copy).read()
    attempts: list[RecoveredRows] = []
    for page in _first_pages():
        with copy.path.open("r+b") as content:
            content.write(page)
        with closing(_connect(copy)) as connection:
            attempts.append(_Reader(connection, copy).read())
    best = max(attempts, key=lambda it: len(it.tools) + len(it.entries))
    best.note_damage("The list of the tables could not be read; the usual one was used.")
    return best


def _connect(copy: SqliteFile) -> sqlite3.Connection:
    connection = copy.connect_read_only(logged=copy.log_size() > 0)
    # Without it SQLite refuses a file that is shorter than its header says.
    connection.execute("PRAGMA writable_schema = ON")
    # Text that is not UTF-8 is no valid row, but no reason to stop before the next one either.
    connection.text_factory = _decoded
    return connection


def _decoded(text: bytes) -> str:
    return text.decode(errors="surrogateescape")


def _has_tables(connection: sqlite3.Connection) -> bool:
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.DatabaseError:
        return False
    return {name for [name] in found} >= COLUMNS.keys()


def _first_pages() -> list[bytes]:
    """Return the first page of a new store, and of one after ``VACUUM``.

    It holds the list of the tables, and where each begins. That is the same in every store.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        migrate(connection)
        made = connection.serialize()
        connection.execute("VACUUM")
        vacuumed = connection.serialize()
    # https://www.sqlite.org/fileformat2.html#the_database_header: in WAL mode, and with the size
    # that the file has.
    return [it[:18] + b"\2\2" + it[20:28] + bytes(4) + it[32:_PAGE] for it in (made, vacuumed)]


class _Reader:
    def __init__(self, connection: sqlite3.Connection, copy: SqliteFile) -> None:
        self._connection = connection
        self._pages = (copy.path.stat().st_size + copy.log_size()) // _PAGE + 1
        self._found = RecoveredRows()
        if copy.path.stat().st_size % _PAGE and not copy.log_size():
            self._found.note_damage("The file ends in the middle of a page.")

    def read(self) -> RecoveredRows:
        for table in _INDEXES:
            self._read_in_ranges(table)
        for table in _KEYS:
            self._read_from_both_ends(table)
        return self._found

    def _read_in_ranges(self, table: str) -> None:
        indexed, last = self._indexed_rowids(table)
        query = f"SELECT rowid, {COLUMNS[table]} FROM {table} NOT INDEXED WHERE rowid"  # noqa: S608
        read: set[int] = set()

        def attempt(condition: str, *parameters: int) -> tuple[list[Row], bool]:
            rows, is_complete = self._rows(f"{query} {condition}", parameters)
            for rowid, *row in rows:
                read.add(rowid)
                self._found.add(table, tuple(row))
            return rows, is_complete

        unread: list[tuple[int, int]] = []
        waiting = deque([(1, last)])
        attempts = 0
        while waiting:
            low, high = waiting.popleft()
            attempts += 1
            if attempts > MOST_ATTEMPTS:
                unread.append((low, high))
            elif low == high:
                # Not as a range: to find its end, SQLite would read the next page.
                if not attempt("= ?", low)[1]:
                    unread.append((low, high))
            else:
                rows, is_complete = attempt("BETWEEN ? AND ? ORDER BY rowid", low, high)
                if not is_complete:
                    waiting += _halves(max([low, *(row[0] + 1 for row in rows)]), high)
        for rowid in indexed - read:
            attempt("= ?", rowid)
        self._found.note_unreadable(table, _separate(unread))

    def _indexed_rowids(self, table: str) -> tuple[set[int], int]:
        """Return the rowids in the index of a table, and the highest one that may exist."""
        index, key = _INDEXES[table]
        what = f"rowid, {', '.join(key)} FROM {table} INDEXED BY {index}"
        rows, is_complete = self._rows_from_both_ends(what, key)
        for row in rows:
            self._found.expect(table, row[1:])
        last = [1, *(row[0] for row in rows)]
        if not is_complete:
            self._found.note_damage(
                f"Index `{index}` could not be read to its end: not every lost row is named here."
            )
            # A guess: rows that were deleted and written again have higher rowids.
            last.append(self._pages * _USUAL_ROWS_OF_A_PAGE)
        query = f"SELECT max(rowid) FROM {table} NOT INDEXED"  # noqa: S608
        highest, is_complete = self._rows(query)
        if is_complete and highest[0][0] is not None:
            last = [1, highest[0][0]]
        return {row[0] for row in rows}, max(last)

    def _read_from_both_ends(self, table: str) -> None:
        key = _KEYS[table]
        rows, is_complete = self._rows_from_both_ends(f"{COLUMNS[table]} FROM {table}", key)
        if not is_complete:
            self._found.note_unreadable(table, 1)
            if table == "usage":
                query = f"SELECT {COLUMNS[table]} FROM usage WHERE tenant = ? AND name = ?"  # noqa: S608
                for it in self._found.tools:
                    rows += self._rows(query, it)[0]
        # The same row may have been read more than once.
        for row in dict.fromkeys(rows):
            self._found.add(table, row)

    def _rows_from_both_ends(self, what: str, key: Sequence[str]) -> tuple[list[Row], bool]:
        """Return the rows before the first and after the last page that cannot be read."""
        found: list[Row] = []
        for direction in ("ASC", "DESC"):
            order = ", ".join(f"{it} {direction}" for it in key)
            query = f"SELECT {what} ORDER BY {order}"
            rows, is_complete = self._rows(query)
            found += rows
            if is_complete:
                return rows, True
            # Python has dropped the row before the one that it could not read.
            found += self._rows(f"{query} LIMIT 1 OFFSET {len(rows)}")[0]
        return found, False

    def _rows(self, query: str, parameters: Sequence[object] = ()) -> tuple[list[Row], bool]:
        """Return the rows before the first that cannot be read, and whether these are all."""
        rows: list[Row] = []
        try:
            for row in self._connection.execute(query, parameters):
                rows.append(row)
                if len(rows) > self._pages * _MOST_ROWS_OF_A_PAGE:
                    return rows, False
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in DAMAGED:
                raise
            return rows, False
        return rows, True


def _halves(low: int, high: int) -> list[tuple[int, int]]:
    if low >= high:
        return [(low, high)] if low == high else []
    middle = (low + high) // 2
    return [(low, middle), (middle + 1, high)]


def _separate(ranges: list[tuple[int, int]]) -> int:
    """Return how many ranges there are when those that touch each other count as one."""
    count, end = 0, 0
    for low, high in sorted(ranges):
        count += low > end + 1 or not count
        end = high
    return count


def _is_newer(row: Row, there: Row | None, *, at: int) -> bool:
    return 0 <= row[at] < _BEYOND and (there is None or there[at] < row[at])


def _is_tool(row: Row) -> bool:
    _, name, _, body, extras, deleted_at = row
    try:
        if body is None:
            return deleted_at is not None
        tool = decode_tool(body.encode())
        # They are decoded when first asked for.
        _ = tool.input_schema, tool.output_schema
        return tool.name == name and (extras is None or _is_json(extras, dict))
    except _INVALID:
        return False


def _is_entry(row: Row) -> bool:
    *_, value, deleted_at = row
    try:
        return deleted_at is not None if value is None else _is_json(value, Any)
    except _INVALID:
        return False


def _is_tool_key(key: Row) -> bool:
    try:
        check_tenant(key[0])
        check_name(key[1])
    except _INVALID:
        return False
    return True


def _is_entry_key(key: Row) -> bool:
    try:
        check_tenant(key[0])
        check_key("namespace", key[1])
        check_key("key", key[2])
    except _INVALID:
        return False
    return True


def _is_tenant(tenant: object) -> bool:
    try:
        check_tenant(tenant)
    except _INVALID:
        return False
    return True


def _is_json(text: str, kind: Any) -> bool:
    msgspec.json.decode(text, type=kind)
    return True
