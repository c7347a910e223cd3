"""How often a JSON Schema looks at one and the same value: references can make it exponential."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

__all__ = ["looks_at_one_value"]

_ONE = ("not", "if", "then", "else")
_SEVERAL = ("allOf", "anyOf", "oneOf")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = ("$id", "id", "$anchor", "$dynamicAnchor")

_Schema = Mapping[str, Any]


def looks_at_one_value(schema: _Schema) -> int:
    """Return the number of subschemas that a single value may be held against.

    Ten definitions that each refer twice to the next are short to write, and hold the value against
    the last one a thousand times.
    """
    return _Count(schema).most()


class _Count:
    def __init__(self, root: _Schema) -> None:
        self._root = root
        self._all = list(_subschemas(root))
        self._named = {
            str(it[name]).lstrip("#"): it for it in self._all for name in _NAMES if name in it
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
            inner = list(self._at_the_same_value(schema))
            if id(schema) in begun:
                # What is not counted yet is a reference back to here, and validators notice those.
                self._looks[id(schema)] = 1 + sum(self._looks.get(id(it), 1) for it in inner)
                continue
            begun.add(id(schema))
            stack += [it for it in inner if id(it) not in begun]

    def _at_the_same_value(self, schema: _Schema) -> Iterator[_Schema]:
        for keyword in _REFERENCES:
            target = self._target(schema.get(keyword))
            if target is not None:
                yield target
        for keyword in _SEVERAL:
            yield from _schemas(schema.get(keyword))
        for keyword in _ONE:
            yield from _schemas([schema.get(keyword)])
        for keyword in ("dependentSchemas", "dependencies"):
            members: object = schema.get(keyword)
            if isinstance(members, Mapping):
                yield from _schemas(list(cast("_Schema", members).values()))

    def _target(self, reference: object) -> _Schema | None:
        if not isinstance(reference, str):
            return None
        place, _, fragment = reference.partition("#")
        found: Any = self._named.get(place) if place else self._root
        if found is None or (fragment and not fragment.startswith("/")):
            return self._named.get(fragment or place)
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = cast("list[Any]", found)
                found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
            else:
                found = cast("_Schema", found).get(key) if isinstance(found, Mapping) else None
        return cast("_Schema", found) if isinstance(found, Mapping) else None


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
