"""Arguments that are null only because a model had to say something."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import jsonschema_rs
import msgspec

from pegboard.toolsets.combining import Schema, strings

__all__ = ["drop_forbidden_nulls"]


def drop_forbidden_nulls(arguments: Any, schema: Schema, *, original: Mapping[str, Any]) -> Any:
    """Return the arguments without those that are optional and null though they may not be.

    In strict mode a model has to give every argument, and gives null for those it leaves out. Where
    alternatives were made into one object, that includes the arguments of all the others.

    Args:
        arguments: what the model gave.
        schema: the schema of the tool, without references.
        original: the schema as the tool has it; arguments that fit it still do afterwards.
    """
    try:
        if b"null" not in msgspec.json.encode(arguments):
            return arguments
        dropped = _dropped(arguments, schema)
        fits = _validator(original).is_valid
        spoiled = not fits(_plain(dropped)) and fits(_plain(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Not JSON, or too deep: the validation says so better than we could.
        return arguments
    return arguments if spoiled else dropped


def _dropped(value: Any, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return value
    node = cast("Schema", schema)
    for part in cast("list[Any]", node.get("allOf", [])):
        value = _dropped(value, part)
    if isinstance(value, Mapping):
        value = _of_object(cast("Mapping[str, Any]", value), node)
    elif isinstance(value, list):
        value = _of_list(cast("list[Any]", value), node)
    for key in ("anyOf", "oneOf"):
        if node.get(key):
            value = _of_alternatives(value, node, key)
    return value


def _of_object(value: Mapping[str, Any], node: Schema) -> dict[str, Any]:
    properties = cast("Schema", node.get("properties", {}))
    required = strings(node.get("required"))
    # Where there are patterns, they may be what speaks of the others.
    others = None if "patternProperties" in node else node.get("additionalProperties")
    kept: dict[str, Any] = {}
    for name, item in value.items():
        inner = properties.get(name)
        if item is None and name not in required and inner is not None and not _fits(None, inner):
            continue
        kept[name] = _dropped(item, others if inner is None else inner)
    return kept


def _of_list(value: list[Any], node: Schema) -> list[Any]:
    first = cast("list[Any]", node.get("prefixItems", []))
    rest = node.get("items")
    return [
        _dropped(item, first[index] if index < len(first) else rest)
        for index, item in enumerate(value)
    ]


def _of_alternatives(value: Any, node: Schema, key: str) -> Any:
    group = _validator({key: node[key]})
    for candidate in _candidates(value, node, node[key]):
        if group.is_valid(_plain(candidate)):
            return candidate
    return value


def _candidates(value: Any, node: Schema, branches: list[Any]) -> Iterator[Any]:
    """Yield what is meant if one of the branches is, beginning with those that fit already."""
    own = {*_declared({**node, "anyOf": [], "oneOf": []})}
    names = [{*_declared(branch)} for branch in branches]
    known = own.union(*names)
    meant: list[tuple[bool, Any, set[str]]] = []
    for branch, its in zip(branches, names, strict=True):
        foreign = _nulls(value, known - its - (set() if _is_closed(branch) else own))
        meant.append((not foreign and _fits(value, branch), branch, foreign))
    for _, branch, foreign in sorted(meant, key=lambda it: not it[0]):
        yield _dropped(_without(value, foreign), branch)


def _is_closed(schema: Any) -> bool:
    return isinstance(schema, dict) and cast("Schema", schema).get("additionalProperties") is False


def _declared(schema: Any) -> Iterator[str]:
    """Yield the names that a schema speaks of."""
    if isinstance(schema, dict):
        node = cast("Schema", schema)
        yield from cast("Schema", node.get("properties", {}))
        yield from strings(node.get("required"))
        for key in ("allOf", "anyOf", "oneOf"):
            for part in cast("list[Any]", node.get(key, [])):
                yield from _declared(part)


def _nulls(value: Any, names: Collection[str]) -> set[str]:
    if not isinstance(value, Mapping):
        return set()
    members = cast("Mapping[str, Any]", value)
    return {name for name in names if members.get(name, "") is None}


def _without(value: Any, names: Collection[str]) -> Any:
    if not names:
        return value
    return {name: inner for name, inner in value.items() if name not in names}


def _fits(value: Any, schema: Any) -> bool:
    return _validator(schema).is_valid(_plain(value))


def _validator(schema: Any) -> jsonschema_rs.Validator:
    # As text: the validator knows plain dicts and lists only.
    return jsonschema_rs.validator_for(msgspec.json.encode(schema).decode(), offline=True)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
