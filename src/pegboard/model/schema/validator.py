"""Compile a JSON Schema into a validator, and refuse a schema that takes exponential time."""

from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

import jsonschema_rs
import msgspec

__all__ = ["compile_schema", "evaluations_per_value"]

_ONE = (
    *("not", "if", "then", "else", "contains", "propertyNames", "items", "additionalItems"),
    *("additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
)
_SEVERAL = ("allOf", "anyOf", "oneOf")
_NAMED = ("patternProperties", "dependentSchemas", "dependencies")
_APART = ("properties", "prefixItems", "items")
"""Keywords whose members apply to different values."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = ("$id", "id", "$anchor", "$dynamicAnchor")

MAX_EVALUATIONS = 4_000
"""Subschemas that may be evaluated for one value; the richest real schemas need a few dozen."""
MAX_PATTERNS = 200
"""Regular expressions that one schema may have; each takes memory."""
_MARKS = ('"pattern', 'ef":', '"unevaluated')
"""Keywords by which a schema can take more time than its size suggests."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=200_000)
_encode = msgspec.json.Encoder().encode

_Schema = Mapping[str, Any]


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Return a validator of values; while it validates, it cannot be interrupted.

    Raises:
        ValueError: when it is no schema, or one that would take exponential time.
        TypeError: when it is not JSON.
        RecursionError: when it is nested too deeply.
        jsonschema_rs.ReferencingError: when it refers to something that is not in it.
    """
    # As text: the validator knows plain dicts and lists only, and ours are frozen.
    text = _encode(schema).decode()
    if any(mark in text for mark in _MARKS):
        _refuse_exponential_work(schema, text)
    return jsonschema_rs.validator_for(text, offline=True, pattern_options=_PATTERNS)


def evaluations_per_value(schema: _Schema) -> int:
    """Return how many subschemas a validator evaluates for a single value, at most.

    Ten definitions that each refer twice to the next are short to write, and the validator
    evaluates the last one a thousand times. A keyword about what no other keyword has evaluated
    (``unevaluatedProperties``) makes it evaluate all of them again.
    """
    return _Count(schema).most()


def _refuse_exponential_work(schema: Mapping[str, Any], text: str) -> None:
    if text.count('"pattern') > MAX_PATTERNS:
        raise ValueError(f"it has more than {MAX_PATTERNS} patterns")
    if evaluations_per_value(schema) > MAX_EVALUATIONS:
        raise ValueError(
            f"its references multiply: more than {MAX_EVALUATIONS:,} subschemas apply to one value"
        )


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
        self._evaluations: dict[int, int] = {}

    def most(self) -> int:
        for schema in self._all:
            self._count(schema)
        return max(self._evaluations.values(), default=1)

    def _count(self, first: _Schema) -> None:
        # With a list instead of recursion: chains of references may be long.
        stack = [first]
        begun: set[int] = set()
        while stack:
            schema = stack[-1]
            if id(schema) in self._evaluations:
                stack.pop()
                continue
            together, apart = list(self._together(schema)), list(_apart(schema))
            if id(schema) in begun:
                self._evaluations[id(schema)] = self._evaluations_of(schema, together, apart)
                continue
            begun.add(id(schema))
            stack += [it for it in (*together, *apart) if id(it) not in begun]

    def _evaluations_of(
        self, schema: _Schema, together: list[_Schema], apart: list[_Schema]
    ) -> int:
        # What is not counted yet is a reference back to here, and validators notice those.
        evaluations = 1 + sum(self._evaluations.get(id(it), 1) for it in together)
        evaluations += max((self._evaluations.get(id(it), 1) for it in apart), default=0)
        is_asked_twice = "unevaluatedProperties" in schema or "unevaluatedItems" in schema
        return 2 * evaluations if is_asked_twice else evaluations

    def _together(self, schema: _Schema) -> Iterator[_Schema]:
        """Give the subschemas that may apply to the same value, or to the same one in it."""
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
            # A schema under `items` applies to all of them, and is counted elsewhere.
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
