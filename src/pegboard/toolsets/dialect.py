"""What the model providers' dialects of JSON Schema share: an object root, and a simple form."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from pegboard.toolsets.combining import AnySchema, Schema, either, merge, strings, unite

__all__ = ["DialectError", "describe", "root_object", "simplify"]

_ANNOTATIONS = ("description", "default")
_NOT_AT_THE_ROOT = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then", "else"}
)
_KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "object": ("properties", "required", "additionalProperties", "patternProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "boolean": (),
    "null": (),
}
_LARGE = frozenset({"properties", "items", "prefixItems"})
_LONGEST_HINT = 200


class DialectError(Exception):
    """A schema that no provider could be given; its text is the reason."""


def root_object(schema: Schema) -> Schema:
    """Return the schema as one object with properties, without alternatives at the root.

    Raises:
        DialectError: when no object fits it, so that no caller could call the tool.
    """
    root: Schema = {**_one_object(schema), "type": "object"}
    if "properties" not in root:
        # The same meaning, made explicit: a schema without properties accepts any.
        return {"properties": {}, "additionalProperties": True, **root}
    return root


def simplify(schema: Any) -> Schema:
    """Return the schema in a simple form that is at most looser.

    It is one of: ``{}`` for anything; ``anyOf`` of simple forms; or one ``type`` with the keywords
    that belong to it, where ``enum`` holds only values of that type. Beside it stand
    ``description`` and ``default``.
    """
    if not isinstance(schema, dict):
        return {}
    node = _all_at_once(cast("Schema", schema))
    notes = {key: node[key] for key in _ANNOTATIONS if key in node}
    shape = {key: value for key, value in node.items() if key not in _ANNOTATIONS}
    if "const" in shape:
        shape["enum"] = [shape.pop("const")]
    alternatives = shape.pop("anyOf", None) or shape.pop("oneOf", None)
    shape.pop("oneOf", None)
    parts = _alternatives(shape, alternatives) if alternatives else _parts(shape)
    return _any_of(parts, notes)


def describe(description: object, dropped: Mapping[str, Any]) -> str:
    """Return the description with a hint at rules that a dialect cannot express otherwise."""
    words = description if isinstance(description, str) else ""
    if not dropped:
        return words
    rules = [f"{key}: {msgspec.json.encode(value).decode()}" for key, value in dropped.items()]
    hint = f"({', '.join(rule for rule in rules if len(rule) <= _LONGEST_HINT)})"
    return f"{words} {hint}".strip() if hint != "()" else words


def _all_at_once(schema: Schema) -> Schema:
    """Return the schema with the members of `allOf` merged into it."""
    node = dict(schema)
    while parts := node.pop("allOf", None):
        merged: AnySchema = node
        for part in cast("list[AnySchema]", parts):
            # What stands beside `allOf` describes the whole, its parts only themselves.
            merged = merge(part, merged)
        node = {} if isinstance(merged, bool) else dict(merged)
    return node


def _one_object(schema: Schema) -> Schema:
    base = _all_at_once(schema)
    if not _may_be_object(base):
        raise DialectError("its input schema does not describe an object")
    for key in ("anyOf", "oneOf"):
        if alternatives := base.pop(key, None):
            objects = _objects(alternatives)
            if not objects:
                raise DialectError("none of the alternatives of its input schema is an object")
            base = unite(base, objects)
    return {key: value for key, value in base.items() if key not in _NOT_AT_THE_ROOT}


def _objects(alternatives: Sequence[AnySchema]) -> list[Schema]:
    """Return those alternatives that describe objects, as one object each."""
    objects: list[Schema] = []
    for alternative in alternatives:
        if alternative is True:
            objects.append({})
        elif isinstance(alternative, dict):
            with suppress(DialectError):
                objects.append(_one_object(alternative))
    return objects


def _may_be_object(schema: Schema) -> bool:
    types = schema.get("type", "object")
    return types == "object" or (isinstance(types, list) and "object" in types)


def _alternatives(shape: Schema, alternatives: Sequence[Any]) -> list[Schema]:
    if not shape:
        return [simplify(it) for it in alternatives if it is not False]
    if not _LARGE.isdisjoint(shape):
        # Repeating a large form for each alternative would multiply it at every level.
        return _parts(unite(shape, _objects(alternatives)) if "properties" in shape else shape)
    return [simplify(merge(shape, it)) for it in alternatives if it is not False]


def _any_of(parts: Sequence[Schema], notes: Schema) -> Schema:
    flat: list[Any] = []
    for part in parts:
        flat += part["anyOf"] if "anyOf" in part and "description" not in part else [part]
    if any(not set(part) - set(_ANNOTATIONS) for part in flat):
        return notes
    joined: Schema = either(flat) if flat else {}
    return {**joined, **notes}


def _parts(shape: Schema) -> list[Schema]:
    """Return one simple form for each type that a schema without alternatives allows."""
    types = shape.get("type")
    kinds = [types] if isinstance(types, str) else strings(types) or _implied(shape)
    if "enum" in shape:
        return _enumerated(shape["enum"], kinds)
    return [_of_one_type(shape, kind) for kind in kinds] or [{}]


def _implied(shape: Schema) -> list[str]:
    for kind, keywords in _KEYWORDS.items():
        if any(key in shape for key in keywords):
            return [kind]
    return []


def _enumerated(values: Sequence[Any], kinds: Sequence[str]) -> list[Schema]:
    by_kind: dict[str, list[Any]] = {}
    for value in values:
        kind = _kind_of(value)
        if kinds and kind not in kinds:
            if kind != "integer" or "number" not in kinds:
                continue
            kind = "number"
        by_kind.setdefault(kind, []).append(value)
    return [_of_values(kind, them) for kind, them in by_kind.items()] or [{}]


def _of_values(kind: str, values: list[Any]) -> Schema:
    match kind:
        case "null":
            return {"type": kind}
        case "array":
            return {"type": kind, "items": {}}
        case "object":
            return {"type": kind, "properties": {}, "required": []}
        case _:
            return {"type": kind, "enum": values}


def _kind_of(value: object) -> str:
    # In this order: a bool is an int.
    for kind, python in (("boolean", bool), ("integer", int), ("number", float), ("string", str)):
        if isinstance(value, python):
            return kind
    return "null" if value is None else "array" if isinstance(value, list) else "object"


def _of_one_type(shape: Schema, kind: str) -> Schema:
    known = {key: shape[key] for key in _KEYWORDS.get(kind, ()) if key in shape}
    match kind:
        case "object":
            known = _object(known)
        case "array":
            first = cast("list[Any]", known.pop("prefixItems", []))
            rest = known.pop("items", {})
            known["items"] = simplify(either([*first, rest]) if first else rest)
        case _:
            pass
    return {"type": kind, **known}


def _object(known: Schema) -> Schema:
    declared = cast("Schema", known.get("properties", {}))
    # A tool accepts an argument that it requires, declared or not.
    needed: Schema = {it: {} for it in strings(known.get("required")) if it not in declared}
    properties = {
        name: simplify(inner)
        for name, inner in {**declared, **needed}.items()
        if inner is not False
    }
    required = [name for name in strings(known.get("required")) if name in properties]
    if known.pop("patternProperties", None):
        known["additionalProperties"] = True
    return {**known, "properties": properties, "required": required}
