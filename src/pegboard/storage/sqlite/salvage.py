"""Salvage: the rows of a damaged SQLite file that make sense."""

from collections.abc import Iterable
from typing import Any

import msgspec

from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import check_key, check_tenant, decode_tool
from pegboard.storage.sqlite.pages import Cell, Record

__all__ = ["Salvage"]

# No tool is used, and nothing written, that often: whatever says so is damaged.
_BEYOND = 2**62


class Salvage:
    """The rows that make sense, the newest of each, and what is known to be missing."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.tools: dict[tuple[str, str], Record] = {}
        self.entries: dict[tuple[str, str, str], Record] = {}
        self.usage: dict[tuple[str, str], Record] = {}
        self.horizons: dict[str, int] = {}
        # Who was there, according to the indexes.
        self._known_tools: set[tuple[str, str]] = set()
        self._known_entries: set[tuple[str, str, str]] = set()
        self._broken = False
        for is_row, record in cells:
            if record is not None:
                (self._take_row if is_row else self._take_key)(record)
            elif not is_row:
                self._broken = True

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools of all tenants, in order."""
        return tuple(sorted(name for (_, name), row in self.tools.items() if row[3] is not None))

    def lost(self) -> list[str]:
        """Return sentences about what could not be read."""
        found = [
            f"The tool {name!r} of tenant {tenant!r} could not be read."
            for tenant, name in sorted(self._known_tools - self.tools.keys())
        ]
        found += [
            f"The value of {key!r} in {space!r} of tenant {tenant!r} could not be read."
            for tenant, space, key in sorted(self._known_entries - self.entries.keys())
        ]
        if self._broken:
            found.append("Some keys could not be read; usage that was counted there is lost.")
        return found

    def last_revisions(self) -> dict[str, int]:
        """Return a revision for each tenant that is after all that were found."""
        last = dict(self.horizons)
        rows = [(it[0], it[2]) for it in self.tools.values()]
        rows += [(it[0], it[3]) for it in self.entries.values()]
        for tenant, revision in rows:
            if isinstance(tenant, str) and isinstance(revision, int):
                last[tenant] = max(last.get(tenant, 0), revision + 1)
        return last

    def _take_row(self, record: Record) -> None:
        match record:
            case (str(tenant), str(name), int(revision), str() | None, str() | None, int() | None):
                key = tenant, name
                self._known_tools.add(key)
                if _is_newer(self.tools.get(key), revision, at=2) and _is_tool(record):
                    self.tools[key] = record
            case (str(tenant), str(space), str(name), int(revision), str() | None, int() | None):
                key = tenant, space, name
                self._known_entries.add(key)
                if _is_newer(self.entries.get(key), revision, at=3) and _is_entry(record):
                    self.entries[key] = record
            case _:
                pass

    def _take_key(self, record: Record) -> None:
        match record:
            case (str(tenant), str(name), int()):
                self._known_tools.add((tenant, name))
            case (str(tenant), str(space), str(key), int()):
                self._known_entries.add((tenant, space, key))
            case (str(tenant), str(name), int(count), int() | None):
                key = tenant, name
                if _is_newer(self.usage.get(key), count, at=2) and _is_used(record):
                    self.usage[key] = record
            case (str(tenant), int(horizon)):
                self.horizons[tenant] = max(horizon, self.horizons.get(tenant, 0))
            case _:
                pass


def _is_newer(there: Record | None, number: int, *, at: int) -> bool:
    old = None if there is None else there[at]
    return 0 <= number < _BEYOND and (not isinstance(old, int) or old < number)


def _is_tool(record: Record) -> bool:
    tenant, name, _, body, extras, deleted_at = record
    try:
        check_tenant(tenant)
        check_name(name)
        if not isinstance(body, str):
            return isinstance(deleted_at, int)
        tool = decode_tool(body.encode())
        # They are read when first asked for.
        _ = tool.input_schema, tool.output_schema
        return tool.name == name and (extras is None or _is_json(extras, dict))
    except (TypeError, ValueError, RecursionError):
        return False


def _is_entry(record: Record) -> bool:
    tenant, space, key, _, value, deleted_at = record
    try:
        check_tenant(tenant)
        check_key("namespace", space)
        check_key("key", key)
        return isinstance(deleted_at, int) if value is None else _is_json(value, Any)
    except (TypeError, ValueError, RecursionError):
        return False


def _is_used(record: Record) -> bool:
    try:
        check_tenant(record[0])
        check_name(record[1])
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_json(text: Any, kind: Any) -> bool:
    msgspec.json.decode(text, type=kind)
    return True
