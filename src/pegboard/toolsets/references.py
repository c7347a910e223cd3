"""Inline the references of a JSON Schema: replace each `$ref` by its target, within bounds."""

from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from pegboard.toolsets.combining import Schema, merge

__all__ = ["inline", "map_schemas"]

MAX_DEPTH = 24
"""Levels of nesting; below it everything is left open."""
MAX_ADDED = 200_000
"""Characters of JSON that replacing references may add in all."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {
        *("items", "additionalProperties", "contains", "propertyNames"),
        *("not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_HOUSEKEEPING = frozenset(
    {
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
        *("$comment", "$defs", "definitions", "additionalItems", "dependencies"),
    }
)
_WORDS = frozenset({"title", "description", "default", "examples", "deprecated"})
_RECURSIVE = "Nested: has the same form as what contains it."
_TOO_LARGE = "Nested too deeply to be spelled out."
_UNKNOWN = "Its form is defined elsewhere."


def inline(schema: Mapping[str, Any]) -> Schema:
    """Return a copy of a schema without references, in the vocabulary of the 2020-12 draft.

    A part that refers to itself or grows too large is left open, with a note in its description.
    """
    inlined = _Inliner(schema).schema(schema, 0, ())
    return {} if isinstance(inlined, bool) else inlined


def map_schemas(node: Mapping[str, Any], change: Callable[[Any], Any]) -> Schema:
    """Return a copy of a schema in which each schema directly inside of it is changed."""
    changed: Schema = {}
    for key, value in node.items():
        if key in _SINGLE:
            changed[key] = change(value)
        elif key in _NAMED and isinstance(value, Mapping):
            named = cast("Mapping[str, Any]", value)
            changed[key] = {name: change(inner) for name, inner in named.items()}
        elif key in _LISTED and isinstance(value, list):
            changed[key] = [change(inner) for inner in cast("list[Any]", value)]
        else:
            changed[key] = value
    return changed


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MAX_ADDED
        self._loosened = 0

    def schema(self, node: Any, depth: int, path: tuple[str, ...]) -> Any:
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping):
            return {}
        known = cast("Mapping[str, Any]", node)
        if depth > MAX_DEPTH:
            return self._cut(known, _TOO_LARGE)
        for key in _REFERENCES:
            if isinstance(known.get(key), str):
                return self._replace(known, key, depth, path)
        kept = _modern({key: value for key, value in known.items() if key not in _HOUSEKEEPING})
        loosened = self._loosened
        inlined = map_schemas(kept, lambda inner: self.schema(inner, depth + 1, path))
        return inlined if loosened == self._loosened else _without_contradictions(inlined)

    def _replace(self, node: Mapping[str, Any], key: str, depth: int, path: tuple[str, ...]) -> Any:
        reference = node[key]
        beside = {name: value for name, value in node.items() if name not in _REFERENCES}
        expanded = self._expanded(reference, depth, path)
        others = self.schema(beside, depth, path)
        # Merging may leave out what one schema cannot say.
        self._loosened += not (_WORDS | _HOUSEKEEPING).issuperset(beside)
        return merge(expanded, others)

    def _expanded(self, reference: str, depth: int, path: tuple[str, ...]) -> Any:
        target = _find(self._root, reference)
        if isinstance(target, bool):
            return target
        if target is None:
            return self._cut({}, _UNKNOWN)
        if reference in path:
            return self._cut(target, _RECURSIVE)
        self._left -= len(msgspec.json.encode(target))
        if self._left < 0:
            return self._cut(target, _TOO_LARGE)
        return self.schema(target, depth, (*path, reference))

    def _cut(self, node: Mapping[str, Any], note: str) -> Schema:
        self._loosened += 1
        open_ended: Schema = {"type": node["type"]} if "type" in node else {}
        words = node.get("description")
        described = isinstance(words, str) and words
        open_ended["description"] = f"{words} ({note})" if described else note
        return _modern(open_ended)


def _find(root: Mapping[str, Any], reference: str) -> Mapping[str, Any] | bool | None:
    head, _, pointer = reference.partition("#")
    if (head and head != root.get("$id")) or (pointer and not pointer.startswith("/")):
        return None
    node: Any = root
    for part in unquote(pointer).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and name in node:
            node = cast("Mapping[str, Any]", node)[name]
        elif (
            isinstance(node, list) and name.isdecimal() and int(name) < len(cast("list[Any]", node))
        ):
            node = cast("list[Any]", node)[int(name)]
        else:
            return None
    if isinstance(node, Mapping | bool):
        return cast("Mapping[str, Any] | bool", node)
    return None


def _without_contradictions(node: Schema) -> Schema:
    """Leave out what would refuse too much, now that something inside accepts too much."""
    kept = {key: value for key, value in node.items() if key not in ("not", "if", "then", "else")}
    if "oneOf" in kept:
        alternatives = kept.pop("oneOf")
        kept.setdefault("anyOf", alternatives)
    return kept


def _modern(node: Schema) -> Schema:
    """Say what older drafts say in the words of the current one."""
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node["items"]
        node["items"] = {}
    kind = node.get("type")
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in node:
        # The same meaning, but some providers refuse an array that does not mention its items.
        node["items"] = {}
    for exclusive, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and inclusive in node:
            node[exclusive] = node.pop(inclusive)
    return node
