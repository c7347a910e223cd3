"""Arguments that are null only because a model had to say something."""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import jsonschema_rs
import msgspec

from pegboard.toolsets.combining import Schema, strings
from pegboard.toolsets.references import map_schemas

__all__ = [
    "ANY_LEGAL",
    "IDENTIFIERS",
    "aliases_of",
    "drop_forbidden_nulls",
    "rename_properties",
    "restore_names",
]

ANY_LEGAL: re.Pattern[str] = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What OpenAI and Anthropic take."""
IDENTIFIERS: re.Pattern[str] = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""What Gemini takes."""

_ODD = re.compile(r"[^A-Za-z0-9_]")
_KEPT = 54


def aliases_of(schema: Schema, legal: re.Pattern[str]) -> dict[str, str]:
    """Return a legal name for every property, at any depth, whose own name is not legal."""
    names: dict[str, None] = {}
    _collect(schema, names)
    taken = set(names)
    aliases: dict[str, str] = {}
    for name in names:
        if not legal.fullmatch(name):
            aliases[name] = _alias(name, taken)
            taken.add(aliases[name])
    return aliases


def rename_properties(schema: Any, aliases: Mapping[str, str]) -> Any:
    """Return the schema with its properties under their aliases, at every depth."""
    if not aliases or not isinstance(schema, dict):
        return schema
    node = map_schemas(cast("Schema", schema), lambda inner: rename_properties(inner, aliases))
    if isinstance(node.get("properties"), dict):
        properties = cast("Schema", node["properties"])
        node["properties"] = {aliases.get(name, name): it for name, it in properties.items()}
    if "required" in node:
        node["required"] = [aliases.get(name, name) for name in strings(node["required"])]
    node.pop("dependentRequired", None)
    return node


def restore_names(value: Any, originals: Mapping[str, str]) -> Any:
    """Return arguments with the original names in place of their aliases, at every depth."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {
            originals.get(name, name): restore_names(inner, originals)
            for name, inner in members.items()
        }
    if isinstance(value, list):
        return [restore_names(inner, originals) for inner in cast("list[Any]", value)]
    return value


def _collect(schema: Any, names: dict[str, None]) -> None:
    if isinstance(schema, dict):
        node = cast("Schema", schema)
        names.update(dict.fromkeys(cast("Schema", node.get("properties", {}))))
        names.update(dict.fromkeys(strings(node.get("required"))))
        map_schemas(node, lambda inner: _collect(inner, names))


def _alias(name: str, taken: set[str]) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    kept = _ODD.sub("_", name[:_KEPT])
    # One that begins with a digit is legal for some providers only.
    kept = f"_{kept}" if kept[:1].isdigit() else kept
    # The hash makes it unlikely that free-form data contains the alias by chance.
    alias = f"{kept}_{digest[:8]}"
    while alias in taken:
        digest = hashlib.sha256(digest.encode()).hexdigest()
        alias = f"{kept}_{digest[:8]}"
    return alias


_MOST_TRIES = 200
"""How often arguments may be looked through: alternatives in alternatives multiply."""


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
        encoded = msgspec.json.encode(arguments)
        if b"null" not in encoded:
            return arguments
        dropped = _Dropping(_MOST_TRIES * len(encoded)).dropped(arguments, schema)
        fits = _compiled(original).is_valid
        spoiled = not fits(_plain(dropped)) and fits(_plain(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Not JSON, too deep, or too many ways: the validation speaks better than we could.
        return arguments
    return arguments if spoiled else dropped


class _Dropping:
    """One walk through arguments and their schema, which compiles each part of it once.

    Args:
        effort: how many bytes of JSON may be validated on the way; then it gives up.
    """

    def __init__(self, effort: int) -> None:
        self._effort = effort
        self._validators: dict[tuple[int, str], jsonschema_rs.Validator] = {}

    def dropped(self, value: Any, schema: Any) -> Any:
        """Return a value without the nulls that its schema forbids.

        Raises:
            ValueError: when there are too many ways to read it.
        """
        if not isinstance(schema, dict) or not isinstance(value, Mapping | list):
            return value
        node = cast("Schema", schema)
        for part in cast("list[Any]", node.get("allOf", [])):
            value = self.dropped(value, part)
        if isinstance(value, Mapping):
            value = self._of_object(cast("Mapping[str, Any]", value), node)
        else:
            value = self._of_list(cast("list[Any]", value), node)
        for key in ("anyOf", "oneOf"):
            if node.get(key):
                value = self._of_alternatives(value, node, key)
        return value

    def _of_object(self, value: Mapping[str, Any], node: Schema) -> dict[str, Any]:
        properties = cast("Schema", node.get("properties", {}))
        required = strings(node.get("required"))
        # Where there are patterns, they may be what speaks of the others.
        others = None if "patternProperties" in node else node.get("additionalProperties")
        kept: dict[str, Any] = {}
        for name, item in value.items():
            inner = properties.get(name)
            if item is None and name not in required and inner is not None:
                if self._fits(None, inner):
                    kept[name] = None
                continue
            kept[name] = self.dropped(item, others if inner is None else inner)
        return kept

    def _of_list(self, value: list[Any], node: Schema) -> list[Any]:
        first = cast("list[Any]", node.get("prefixItems", []))
        rest = node.get("items")
        return [
            self.dropped(item, first[index] if index < len(first) else rest)
            for index, item in enumerate(value)
        ]

    def _of_alternatives(self, value: Any, node: Schema, key: str) -> Any:
        for candidate in self._candidates(value, node, node[key]):
            if self._is_valid(candidate, self._validator(node, key)):
                return candidate
        return value

    def _candidates(self, value: Any, node: Schema, branches: list[Any]) -> Iterator[Any]:
        """Yield what is meant if one of the branches is, beginning with those that fit already.

        A null of another branch that is allowed there may be meant; it is dropped only after that.
        """
        own = {name for name, _ in _declared({**node, "anyOf": [], "oneOf": []})}
        declared = [list(_declared(branch)) for branch in branches]
        names = [{name for name, _ in its} for its in declared]
        known = own.union(*names)
        nulls = _nulls(value, known)
        allowed = {
            name
            for its in declared
            for name, inner in its
            if name in nulls and self._fits(None, inner)
        }
        meant: list[tuple[bool, Any, set[str]]] = []
        for branch, its in zip(branches, names, strict=True):
            foreign = _nulls(value, known - its - (set() if _is_closed(branch) else own))
            meant.append((not foreign and self._fits(value, branch), branch, foreign))
        meant.sort(key=lambda it: not it[0])
        for kept in (allowed, set[str]()) if allowed else (allowed,):
            for _, branch, foreign in meant:
                yield self.dropped(_without(value, foreign - kept), branch)

    def _fits(self, value: Any, schema: Any) -> bool:
        if isinstance(schema, bool):
            return schema
        return self._is_valid(value, self._validator(schema))

    def _is_valid(self, value: Any, validator: jsonschema_rs.Validator) -> bool:
        encoded = msgspec.json.encode(value)
        self._effort -= len(encoded)
        if self._effort < 0:
            raise ValueError("Too many alternatives.")
        return validator.is_valid(msgspec.json.decode(encoded))

    def _validator(self, node: Schema, key: str = "") -> jsonschema_rs.Validator:
        """Return what checks a part of the schema, or only one keyword of it."""
        # By identity: the schema outlives this walk.
        found = self._validators.get((id(node), key))
        if found is None:
            found = self._validators[id(node), key] = _compiled({key: node[key]} if key else node)
        return found


def _is_closed(schema: Any) -> bool:
    return isinstance(schema, dict) and cast("Schema", schema).get("additionalProperties") is False


def _declared(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names that a schema speaks of, with what it says of their values."""
    if isinstance(schema, dict):
        node = cast("Schema", schema)
        yield from cast("Schema", node.get("properties", {})).items()
        for name in strings(node.get("required")):
            yield name, False
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


def _compiled(schema: Any) -> jsonschema_rs.Validator:
    # As text: the validator knows plain dicts and lists only.
    return jsonschema_rs.validator_for(msgspec.json.encode(schema).decode(), offline=True)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
