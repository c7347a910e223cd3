"""Fill the defaults of a JSON Schema into arguments, at any depth."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import jsonschema_rs

from pegboard.model.schema.validator import compile_schema

__all__ = ["Filler", "compile_defaults"]

Filler = Callable[[dict[str, Any]], dict[str, Any]]

# Defaults may lead to defaults in turn; no real schema needs a longer chain than this.
_MAX_CHAIN = 4
_SCALAR_TYPES = frozenset({"null", "string", "integer", "number", "boolean"})
_SCALARS = (str, int, float, bool, type(None))


def compile_defaults(schema: Mapping[str, Any]) -> Filler | None:
    """Return a function that fills defaults in, or ``None`` when the schema has none to fill.

    Arguments are never changed in place. A default that breaks its own schema (``"default": null``
    for a string is common) is left out, as if it were not there. Where alternatives leave open
    which schema applies, nothing is filled in.
    """
    if not _mentions_default(schema):
        return None
    try:
        root = _Plan(schema).node(schema)
        _prune(root)
    except RecursionError:
        return None
    if not root.properties and not root.nested:
        return None
    if not root.nested and all(isinstance(value, _SCALARS) for value in root.properties.values()):
        flat = root.properties
        return lambda arguments: {**flat, **arguments}
    return lambda arguments: cast("dict[str, Any]", root.fill(arguments, frozenset()))


def _mentions_default(value: object) -> bool:
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return "default" in mapping or any(_mentions_default(item) for item in mapping.values())
    return isinstance(value, list) and any(
        _mentions_default(item) for item in cast("list[object]", value)
    )


class _Node:
    """What one subschema fills in: its own members, then what its members' schemas fill in."""

    __slots__ = ("additional", "also", "declared", "items", "members", "prefix", "properties")

    def __init__(self) -> None:
        self.declared: frozenset[str] = frozenset()
        self.properties: dict[str, Any] = {}
        self.members: dict[str, _Node] = {}
        self.additional: _Node | None = None
        self.items: _Node | None = None
        self.prefix: list[_Node] = []
        self.also: list[_Node] = []

    @property
    def nested(self) -> bool:
        return bool(self.members or self.additional or self.items or self.prefix or self.also)

    def children(self) -> Iterator["_Node"]:
        yield from self.members.values()
        yield from self.prefix
        yield from self.also
        yield from (node for node in (self.additional, self.items) if node is not None)

    def keep_only(self, useful: set[int]) -> None:
        """Drop what has nothing to fill in, so that calls do not walk there."""
        self.members = {name: node for name, node in self.members.items() if id(node) in useful}
        self.also = [node for node in self.also if id(node) in useful]
        if self.items is not None and id(self.items) not in useful:
            self.items = None
        # The first items stay where any item has something to fill in: they are counted by place.
        if self.items is None and not any(id(node) in useful for node in self.prefix):
            self.prefix = []
        if self.additional is not None and id(self.additional) not in useful:
            self.additional = None

    def fill(self, value: object, inside: frozenset[int], seen: set[int] | None = None) -> object:
        """Return the value with defaults.

        `inside` holds the nodes whose own default is being filled; `seen` those that have had this
        very value already: schemas may refer to themselves, or to one from many sides.
        """
        seen = {id(self)} if seen is None else seen
        if isinstance(value, dict):
            value = self._fill_members(cast("dict[str, Any]", value), inside)
        elif isinstance(value, list):
            value = self._fill_items(cast("list[Any]", value), inside)
        for other in self.also:
            if id(other) not in seen:
                seen.add(id(other))
                value = other.fill(value, inside, seen)
        return value

    def _fill_members(self, value: dict[str, Any], inside: frozenset[int]) -> dict[str, Any]:
        filled = dict(value)
        for name, default in self.properties.items():
            if name in filled:
                continue
            filled[name] = copy.deepcopy(default)
            node = self.members.get(name)
            # A recursive schema whose default leads to itself would be filled in for ever.
            if node is not None and id(node) not in inside and len(inside) < _MAX_CHAIN:
                filled[name] = node.fill(filled[name], inside | {id(node)})
        for name, item in value.items():
            node = self.members.get(name) or (None if name in self.declared else self.additional)
            if node is not None:
                filled[name] = node.fill(item, inside)
        return filled

    def _fill_items(self, value: list[Any], inside: frozenset[int]) -> list[Any]:
        filled = list(value)
        for index, item in enumerate(value):
            node = self.prefix[index] if index < len(self.prefix) else self.items
            if node is not None:
                filled[index] = node.fill(item, inside)
        return filled


def _prune(root: _Node) -> None:
    """Keep the nodes that fill something in, and those that lead to one."""
    nodes: dict[int, _Node] = {id(root): root}
    parents: dict[int, list[int]] = {}
    left = [root]
    while left:
        node = left.pop()
        for child in node.children():
            parents.setdefault(id(child), []).append(id(node))
            if id(child) not in nodes:
                nodes[id(child)] = child
                left.append(child)
    useful: set[int] = set()
    found = [number for number, node in nodes.items() if node.properties]
    while found:
        number = found.pop()
        if number not in useful:
            useful.add(number)
            found += parents.get(number, ())
    for node in nodes.values():
        node.keep_only(useful)


class _Plan:
    """Turns subschemas into nodes, once each, so that recursive schemas become cycles of nodes."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes: dict[int, _Node] = {}

    def node(self, schema: Mapping[str, Any]) -> _Node:
        known = self._nodes.get(id(schema))
        if known is not None:
            return known
        node = self._nodes[id(schema)] = _Node()
        node.declared = frozenset(_mapping(schema.get("properties")))
        for name, member in _mapping(schema.get("properties")).items():
            if not isinstance(member, Mapping):
                continue
            member = cast("Mapping[str, Any]", member)
            if "default" in member and _fits(member["default"], member):
                node.properties[name] = member["default"]
            node.members[name] = self.node(member)
        # Which names are additional depends on the patterns, if there are any.
        if isinstance(schema.get("additionalProperties"), Mapping) and (
            "patternProperties" not in schema
        ):
            node.additional = self.node(schema["additionalProperties"])
        if isinstance(schema.get("items"), Mapping):
            node.items = self.node(schema["items"])
        prefix: object = schema.get("prefixItems")
        if isinstance(prefix, list):
            node.prefix = [
                self.node(cast("Mapping[str, Any]", item)) if isinstance(item, Mapping) else _Node()
                for item in cast("list[object]", prefix)
            ]
        node.also = [self.node(other) for other in self._also(schema)]
        return node

    def _also(self, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = _schemas(schema.get("allOf"))
        target = self._resolve(schema.get("$ref"))
        if target is not None:
            found.append(target)
        for keyword in ("anyOf", "oneOf"):
            # `X or null` is how optional values are written; any other choice is ambiguous.
            branches = [
                branch
                for branch in _schemas(schema.get(keyword))
                if not _types(branch) or not _types(branch) <= _SCALAR_TYPES
            ]
            if len(branches) == 1:
                found.append(branches[0])
        return found

    def _resolve(self, reference: object) -> Mapping[str, Any] | None:
        # A pointer into this very document; anchors and other documents are left alone.
        if not isinstance(reference, str) or reference[:2] not in ("#", "#/"):
            return None
        found: Any = self._root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                return None
            found = cast("Mapping[str, Any]", found)[key]
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None


def _fits(default: object, schema: Mapping[str, Any]) -> bool:
    """Tell whether a default fits its own schema; what refers elsewhere is taken at its word."""
    try:
        # A plain copy: the validator does not know our frozen containers.
        return compile_schema(schema).is_valid(copy.deepcopy(default))
    except (ValueError, jsonschema_rs.ReferencingError):
        return True


def _types(schema: Mapping[str, Any]) -> set[str]:
    kinds = schema.get("type", [])
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _schemas(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        return []
    return [
        cast("Mapping[str, Any]", item)
        for item in cast("list[object]", value)
        if isinstance(item, Mapping)
    ]
