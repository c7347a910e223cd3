"""How often a JSON Schema looks at one and the same value: references can make it exponential."""

from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

import jsonschema_rs
import msgspec

__all__ = ["compile_schema", "looks_at_one_value"]

_ONE = (
    *("not", "if", "then", "else", "contains", "propertyNames", "items", "additionalItems"),
    *("additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
)
_SEVERAL = ("allOf", "anyOf", "oneOf")
_NAMED = ("patternProperties", "dependentSchemas", "dependencies")
_APART = ("properties", "prefixItems", "items")
"""Their members look at different values."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = ("$id", "id", "$anchor", "$dynamicAnchor")

_Schema = Mapping[str, Any]


def looks_at_one_value(schema: _Schema) -> int:
    """Return the number of subschemas that a single value may be held against, at most.

    Ten definitions that each refer twice to the next are short to write, and hold the value against
    the last one a thousand times. Whatever asks for what nobody else has looked at
    (``unevaluatedProperties``) lets everybody look again.
    """
    return _Count(schema).most()


class _Count:
    def __init__(self, root: _Schema) -> None:
        self._root = root
        self._all = list(_subschemas(root))
        self._named = {
            _last_part(it[name]): it
            for it in self._all
            for name in _NAMES
            if isinstance(it.get(name), str)
        }
        self._looks: dict[int, int] = {}

    def most(self) -> int:
        for schema in self._all:
            self._count(schema)
        return max(self._looks.values(), default=1)

    def _count(self, first: _Schema) -> None:
        # With a list instead of recursion: chains of references may be long.
        stack = [first]
        begun: set[int] = set()
        while stack:
            schema = stack[-1]
            if id(schema) in self._looks:
                stack.pop()
                continue
            together, apart = list(self._together(schema)), list(_apart(schema))
            if id(schema) in begun:
                self._looks[id(schema)] = self._looks_of(schema, together, apart)
                continue
            begun.add(id(schema))
            stack += [it for it in (*together, *apart) if id(it) not in begun]

    def _looks_of(self, schema: _Schema, together: list[_Schema], apart: list[_Schema]) -> int:
        # What is not counted yet is a reference back to here, and validators notice those.
        looks = 1 + sum(self._looks.get(id(it), 1) for it in together)
        looks += max((self._looks.get(id(it), 1) for it in apart), default=0)
        is_asked_twice = "unevaluatedProperties" in schema or "unevaluatedItems" in schema
        return 2 * looks if is_asked_twice else looks

    def _together(self, schema: _Schema) -> Iterator[_Schema]:
        """Give the subschemas that may look at the same value, or at the same one in it."""
        for keyword in _REFERENCES:
            target = self._target(schema.get(keyword))
            if target is not None:
                yield target
        for keyword in _SEVERAL:
            yield from _schemas(schema.get(keyword))
        yield from _schemas([schema.get(keyword) for keyword in _ONE])
        for keyword in _NAMED:
            members: object = schema.get(keyword)
            if isinstance(members, Mapping):
                yield from _schemas(list(cast("_Schema", members).values()))

    def _target(self, reference: object) -> _Schema | None:
        """Return what a reference leads to, or else something that it may lead to."""
        if not isinstance(reference, str):
            return None
        place, _, fragment = unquote(reference).partition("#")
        start: Any = self._named.get(_last_part(place), self._root) if place else self._root
        if fragment and not fragment.startswith("/"):
            return self._named.get(_last_part(fragment), self._root)
        found = _at(start, fragment)
        if found is None and start is not self._root:
            found = _at(self._root, fragment)
        return found


def _at(found: Any, pointer: str) -> _Schema | None:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list | tuple):
            found = cast("list[Any]", found)
            found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
        else:
            found = cast("_Schema", found).get(key) if isinstance(found, Mapping) else None
    return cast("_Schema", found) if isinstance(found, Mapping) else None


def _last_part(address: object) -> str:
    """Return what tells a name from others, in whatever way it is written out."""
    return str(address).lstrip("#").rstrip("/#").rpartition("/")[2].lower()


def _apart(schema: _Schema) -> Iterator[_Schema]:
    for keyword in _APART:
        members: object = schema.get(keyword)
        if isinstance(members, Mapping):
            # A schema under `items` looks at all of them, and is counted elsewhere.
            inner = cast("_Schema", members).values()
            yield from _schemas(list(inner) if keyword == "properties" else [])
        else:
            yield from _schemas(members)


def _subschemas(root: _Schema) -> Iterator[_Schema]:
    left: list[object] = [root]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            yield cast("_Schema", value)
            left += cast("_Schema", value).values()
        elif isinstance(value, list | tuple):
            left += cast("list[object]", value)


def _schemas(value: object) -> list[_Schema]:
    if not isinstance(value, list | tuple):
        return []
    return [cast("_Schema", it) for it in cast("list[object]", value) if isinstance(it, Mapping)]


MOST_LOOKS = 4_000
"""So many subschemas may judge one value; the richest schemas of real servers need a few dozen."""
MOST_PATTERNS = 200
"""So many regular expressions may be in one schema; each takes memory."""
_MARKS = ('"pattern', 'ef":', '"unevaluated')
"""What lets a schema make more work than its size says."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=200_000)
_encode = msgspec.json.Encoder().encode


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Return what checks values; once it works, it cannot be interrupted.

    Raises:
        ValueError: when it is no schema, or one whose work would have no end.
        TypeError: when it is not JSON.
        RecursionError: when it is nested too deeply.
        jsonschema_rs.ReferencingError: when it refers to something that is not in it.
    """
    # As text: the validator knows plain dicts and lists only, and ours are frozen.
    text = _encode(schema).decode()
    if any(mark in text for mark in _MARKS):
        _refuse_endless_work(schema, text)
    return jsonschema_rs.validator_for(text, offline=True, pattern_options=_PATTERNS)


def _refuse_endless_work(schema: Mapping[str, Any], text: str) -> None:
    if text.count('"pattern') > MOST_PATTERNS:
        raise ValueError(f"it has more than {MOST_PATTERNS} patterns")
    if looks_at_one_value(schema) > MOST_LOOKS:
        raise ValueError(
            f"its parts multiply, so that more than {MOST_LOOKS:,} of them judge one value"
        )
