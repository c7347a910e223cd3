"""Combine JSON Schemas: merge schemas that all apply (`allOf`), or unite alternatives (`anyOf`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

__all__ = ["AnySchema", "Schema", "either", "merge", "strings", "unite"]

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema that is an object, without references."""
AnySchema: TypeAlias = Schema | bool
"""A JSON Schema: true allows everything, false nothing."""


def merge(first: AnySchema, second: AnySchema) -> AnySchema:
    """Return a schema of what fits both, as nearly as one schema can say it.

    What cannot be said is left out, so the result never refuses what fits both. Of descriptions
    and the like, the second wins.
    """
    if isinstance(first, bool) or isinstance(second, bool):
        if first is False or second is False:
            return False
        return second if first is True else first
    merged = dict(first)
    for key, value in second.items():
        if key in merged and key in _RULES:
            merged[key] = _RULES[key](merged[key], value)
        else:
            # Of two rules that cannot be said at once, the first is kept.
            merged.setdefault(key, value)
    return merged


def either(schemas: Sequence[Any]) -> Any:
    """Return a schema of what fits at least one of the schemas."""
    # By their text: comparing each with each would take long, and 1 equals True.
    distinct = list({msgspec.json.encode(schema): schema for schema in schemas}.values())
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def unite(base: Schema, branches: Sequence[Schema]) -> Schema:
    """Return one object schema in place of alternatives: every property, required where all say so.

    It is looser than the alternatives: which properties belong together is no longer said. Only
    where the base or an alternative mentions properties at all, one that it does not mention is
    taken to be what the others say of it. Strictly speaking it might be anything there, but that is
    hardly ever meant.
    """
    found: dict[str, list[Any]] = {}
    for branch in branches:
        for name, schema in cast("Schema", branch.get("properties", {})).items():
            found.setdefault(name, []).append(schema)
    own = dict(cast("Schema", base.get("properties", {})))
    # Beside properties of the base, an alternative without any only says something about those.
    anything = "properties" not in base and any(_takes_anything(branch) for branch in branches)
    for name, schemas in found.items():
        # What the base says of a property holds for every alternative.
        if own.get(name, True) in (True, {}):
            own[name] = _described_only(schemas) if anything else either(schemas)
    required = strings(base.get("required"))
    if branches:
        first, *others = (strings(branch.get("required")) for branch in branches)
        required += [name for name in first if all(name in other for other in others)]
    united = {**base, "properties": own, "required": list(dict.fromkeys(required))}
    extras = [branch.get("additionalProperties") for branch in branches]
    if anything or any(extra not in (None, False) for extra in extras):
        united.setdefault("additionalProperties", True)
    elif extras and None not in extras:
        united.setdefault("additionalProperties", False)
    return united


def strings(value: object) -> list[str]:
    """Return the strings of a list, or nothing where there is no list."""
    if not isinstance(value, list):
        return []
    return [item for item in cast("list[object]", value) if isinstance(item, str)]


def _takes_anything(schema: Schema) -> bool:
    return "properties" not in schema and schema.get("additionalProperties", True) in (True, {})


def _described_only(schemas: Sequence[Any]) -> Schema:
    for schema in schemas:
        if isinstance(schema, dict) and "description" in schema:
            return {"description": cast("Schema", schema)["description"]}
    return {}


def _last(_: Any, new: Any) -> Any:
    return new


def _properties(old: Schema, new: Schema) -> Schema:
    both = {name: merge(old[name], it) if name in old else it for name, it in new.items()}
    return {**old, **both}


def _names(old: list[str], new: list[str]) -> list[str]:
    return list(dict.fromkeys([*old, *new]))


def _options(old: list[Any], new: list[Any]) -> list[Any]:
    return [value for value in old if value in new] or old


def _types(old: str | list[str], new: str | list[str]) -> str | list[str]:
    first = [old] if isinstance(old, str) else old
    second = [new] if isinstance(new, str) else new
    common = [kind for kind in first if kind in second]
    if "integer" not in common and {"integer", "number"} <= {*first, *second}:
        common.append("integer")
    if not common:
        return old
    return common[0] if len(common) == 1 else common


_RULES: Mapping[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("title", "description", "default", "examples", "deprecated"), _last),
    **dict.fromkeys(("items", "additionalProperties", "contains", "propertyNames"), merge),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "properties": _properties,
    "required": _names,
    "allOf": lambda old, new: [*old, *new],
    "enum": _options,
    "type": _types,
}
