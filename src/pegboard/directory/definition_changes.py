"""Differences of tool definitions between two versions of a server: added, removed, changed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from pegboard.model.json_values import object_in

__all__ = ["ToolChange", "tool_changes"]

_PARTS = {
    "description": "description",
    "title": "title",
    "outputSchema": "output schema",
    "annotations": "annotations",
}
_IGNORED = frozenset({*_PARTS, "name", "inputSchema", "icons"})
_MOST_PARTS = 12


class ToolChange(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is not the same in both versions."""

    name: str
    kind: Literal["added", "removed", "changed"]
    parts: tuple[str, ...] = ()
    """What has changed, in words."""


def tool_changes(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[ToolChange]:
    """Return the tools that are added, removed or changed, in the order of their names."""
    old, new = _by_name(before), _by_name(after)
    found: list[ToolChange] = []
    for name in sorted({*old, *new}):
        if name not in old:
            found.append(ToolChange(name=name, kind="added"))
        elif name not in new:
            found.append(ToolChange(name=name, kind="removed"))
        else:
            parts = tuple(_differences(old[name], new[name]))
            if len(parts) > _MOST_PARTS:
                parts = (*parts[:_MOST_PARTS], f"{len(parts) - _MOST_PARTS} more")
            if parts:
                found.append(ToolChange(name=name, kind="changed", parts=parts))
    return found


def _by_name(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {str(it.get("name", "")): it for it in tools}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for field, words in _PARTS.items():
        if old.get(field) != new.get(field):
            yield words
    yield from _argument_differences(
        object_in(old.get("inputSchema")), object_in(new.get("inputSchema"))
    )
    others = {*old, *new} - _IGNORED
    yield from sorted(it for it in others if old.get(it) != new.get(it))


def _argument_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Give what differs for each argument, and whether something else of the schema does."""
    before, after = object_in(old.get("properties")), object_in(new.get("properties"))
    required = [_names_in(it.get("required")) for it in (old, new)]
    for name in sorted({*before, *after}):
        if name not in before:
            is_needed = " (required)" if name in required[1] else ""
            yield f"argument {name} added{is_needed}"
        elif name not in after:
            yield f"argument {name} removed"
        elif name in required[1] and name not in required[0]:
            yield f"argument {name} is required now"
        elif name in required[0] and name not in required[1]:
            yield f"argument {name} is optional now"
        elif before[name] != after[name]:
            yield f"argument {name} changed"
    rest = {"properties", "required"}
    if {**old, **dict.fromkeys(rest)} != {**new, **dict.fromkeys(rest)}:
        yield "input schema"


def _names_in(value: object) -> frozenset[str]:
    names = cast("list[object]", value) if isinstance(value, list) else []
    return frozenset(map(str, names))
