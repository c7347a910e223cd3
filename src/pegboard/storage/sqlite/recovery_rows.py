"""Rows read from a damaged SQLite file: each is validated, and what is lost is put in words."""

from collections import Counter
from typing import Any

import msgspec

from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import check_key, check_tenant, decode_tool

__all__ = ["RecoveredRows", "Row"]

Row = tuple[Any, ...]

# No tool is used, and nothing written, that often: a number beyond it is damage.
_BEYOND = 2**62
_INVALID = (TypeError, ValueError, RecursionError)
_CONTENT = {
    "tools": "registered tools",
    "entries": "API keys, audit and other values",
    "usage": "how often tools were used",
    "tenants": "revision numbers",
}


class RecoveredRows:
    """The valid rows, the newest of each key, and what is known to be missing."""

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
        """Keep a row of a table if it is valid, and newer than the one that is kept already."""
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
        """Note what else is wrong with the file."""
        self._damage.append(sentence)

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools of all tenants, in order."""
        return tuple(sorted(name for (_, name), row in self.tools.items() if row[3] is not None))

    def lost(self) -> tuple[str, ...]:
        """Return sentences about what could not be read."""
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
        """Return a revision for each tenant that is after all that were found."""
        last = dict(self.horizons)
        rows = [(it[0], it[2]) for it in self.tools.values()]
        rows += [(it[0], it[3]) for it in self.entries.values()]
        for tenant, revision in rows:
            last[tenant] = max(last.get(tenant, 0), revision + 1)
        return last


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
