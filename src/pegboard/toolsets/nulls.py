"""Arguments that are null only because a model had to say something."""

from collections.abc import Mapping
from typing import Any, cast

import jsonschema_rs
import msgspec

from pegboard.toolsets.combining import Schema, strings

__all__ = ["drop_forbidden_nulls"]


def drop_forbidden_nulls(arguments: Any, schema: Schema) -> Any:
    """Return the arguments without those that are optional and null though they may not be.

    In strict mode a model has to give every argument, and gives null for those it leaves out.
    """
    try:
        if b"null" not in msgspec.json.encode(arguments):
            return arguments
        return _dropped(arguments, schema)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Not JSON, or too deep: the validation says so better than we could.
        return arguments


def _dropped(value: Any, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return value
    node = cast("Schema", schema)
    for part in cast("list[Any]", node.get("allOf", [])):
        value = _dropped(value, part)
    if isinstance(value, Mapping):
        value = _of_object(cast("Mapping[str, Any]", value), node)
    elif isinstance(value, list) and "items" in node:
        value = [_dropped(item, node["items"]) for item in cast("list[Any]", value)]
    return _of_alternatives(value, node)


def _of_object(value: Mapping[str, Any], node: Schema) -> dict[str, Any]:
    properties = cast("Schema", node.get("properties", {}))
    required = strings(node.get("required"))
    kept: dict[str, Any] = {}
    for name, item in value.items():
        inner = properties.get(name)
        if item is None and name not in required and inner is not None and not _fits(None, inner):
            continue
        kept[name] = _dropped(item, inner)
    return kept


def _of_alternatives(value: Any, node: Schema) -> Any:
    branches = [*node.get("anyOf", []), *node.get("oneOf", [])]
    if value is None or not branches or any(_fits(value, branch) for branch in branches):
        return value
    for branch in branches:
        candidate = _dropped(value, branch)
        if _fits(candidate, branch):
            return candidate
    return value


def _fits(value: Any, schema: Any) -> bool:
    # As text: the validator knows plain dicts and lists only.
    text = msgspec.json.encode(schema).decode()
    plain = msgspec.json.decode(msgspec.json.encode(value))
    return jsonschema_rs.validator_for(text, offline=True).is_valid(plain)
