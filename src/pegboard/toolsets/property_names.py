"""Property names that a provider takes, and the way back in the arguments of a call."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

from pegboard.toolsets.combining import Schema, strings
from pegboard.toolsets.references import map_schemas

__all__ = ["ANY_LEGAL", "IDENTIFIERS", "aliases_of", "rename_properties", "restore_names"]

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
