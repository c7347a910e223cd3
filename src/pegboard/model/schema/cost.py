"""Estimate how much work a JSON Schema makes of one value, before any value is validated."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

__all__ = ["evaluations_per_value", "subschemas", "work_per_value"]

_ONE = (
    *("not", "if", "then", "else", "contains", "propertyNames", "items", "additionalItems"),
    *("additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
)
_SEVERAL = ("allOf", "anyOf", "oneOf")
_NAMED = ("patternProperties", "dependentSchemas", "dependencies")
_APART = ("properties", "prefixItems", "items")
"""Keywords whose members apply to different values."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NO_SCHEMAS = frozenset({"enum", "examples", "required"})
_NAMES = ("$id", "id", "$anchor", "$dynamicAnchor")

_CHOICE, _INTEGER, _BOUND, _FLOAT = 3, 60, 90, 200
"""As many evaluations take as long as one alternative, and as one exact comparison of numbers."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_Schema = Mapping[str, Any]


def evaluations_per_value(schema: _Schema) -> int:
    """Return how many subschemas a validator evaluates for a single value, at most.

    Ten definitions that each refer twice to the next are short to write, and the validator
    evaluates the last one a thousand times. A keyword about what no other keyword has evaluated
    (``unevaluatedProperties``) makes it evaluate all of them again.
    """
    return _Count(schema, _one).most()


def work_per_value(schema: _Schema) -> int:
    """Return how much work a validator has with a single value, at most; one is about 8 ns.

    That is the number of subschemas, and of the values that it compares with one by one.
    """
    return _Count(schema, _work).most()


class _Count:
    """Counts the evaluations of each subschema; ``own`` returns those without its members."""

    def __init__(self, root: _Schema, own: Callable[[_Schema], int]) -> None:
        self._root = root
        self._own = own
        self._all = list(subschemas(root))
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
        evaluations = self._own(schema) + sum(self._evaluations.get(id(it), 1) for it in together)
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


def subschemas(root: _Schema) -> Iterator[_Schema]:
    """Give every object in a schema, without those that are only options or examples."""
    left: list[object] = [root]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            members = cast("_Schema", value)
            yield members
            # As the name of a property, such a word stands before a schema instead of a list.
            left += [
                it
                for name, it in members.items()
                if name not in _NO_SCHEMAS or isinstance(it, Mapping)
            ]
        elif isinstance(value, list | tuple):
            left += cast("list[object]", value)


def _schemas(value: object) -> list[_Schema]:
    if not isinstance(value, list | tuple):
        return []
    return [cast("_Schema", it) for it in cast("list[object]", value) if isinstance(it, Mapping)]


def _one(_: _Schema) -> int:
    return 1


def _work(schema: _Schema) -> int:
    work = 1
    options: object = schema.get("enum")
    if isinstance(options, list | tuple):
        listed = cast("list[object]", options)
        # Options of one of these types are looked up, all others are compared one by one.
        if not any(all(type(it) is kind for it in listed) for kind in (str, int)):
            work += sum(map(_comparison, listed))
    if "const" in schema:
        work += _comparison(schema["const"])
    work += sum(_BOUND for keyword in _BOUNDS if keyword in schema)
    if "multipleOf" in schema:
        work += _FLOAT
    for keyword in (*_SEVERAL, *_NAMED, "dependentRequired"):
        members: object = schema.get(keyword)
        if isinstance(members, Mapping | list | tuple):
            work += _CHOICE * len(cast("list[object]", members))
    return work


def _comparison(value: object) -> int:
    if isinstance(value, Mapping):
        return 1 + sum(map(_comparison, cast("_Schema", value).values()))
    if isinstance(value, list | tuple):
        return 1 + sum(map(_comparison, cast("list[object]", value)))
    if isinstance(value, float):
        return _FLOAT
    return _INTEGER if isinstance(value, int) and not isinstance(value, bool) else 1
