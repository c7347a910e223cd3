"""Tool definitions for Gemini, whose schemas are a subset of those of OpenAPI 3.0.

Rules: https://ai.google.dev/api/caching#Schema and #FunctionDeclaration.
"""

from collections.abc import Mapping
from typing import Any

from pegboard.toolsets.combining import Schema
from pegboard.toolsets.dialect import describe, simplify

__all__ = ["gemini_definition"]

_FORMATS: Mapping[str, frozenset[str]] = {
    "string": frozenset({"enum", "date-time"}),
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
}
_KEYWORDS = frozenset(
    {"minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems"}
)
# A schema has to name its type, so this is how anything at all is said.
_ANYTHING = (
    {"type": "STRING"},
    {"type": "NUMBER"},
    {"type": "BOOLEAN"},
    {"type": "OBJECT"},
    {"type": "ARRAY", "items": {"type": "STRING"}},
)


def gemini_definition(name: str, description: str, *, parameters: Schema) -> dict[str, Any]:
    """Return a function declaration in the format of Gemini's API."""
    declaration: dict[str, Any] = {"name": name, "description": description}
    rendered = _schema(simplify(parameters))
    # A root without properties is refused; leaving it out says the same.
    if "properties" in rendered:
        declaration["parameters"] = rendered
    return declaration


def _schema(node: Schema) -> Schema:
    if "anyOf" in node:
        return _alternatives(node["anyOf"], node)
    match node.get("type"):
        case None:
            return _alone([dict(part) for part in _ANYTHING], node)
        case "null":
            return _described({"type": "STRING", "nullable": True}, node, {})
        case "object":
            return _described(_object(node), node, {})
        case kind:
            return _scalar(node, kind)


def _alternatives(parts: list[Schema], node: Schema) -> Schema:
    rendered = [_schema(part) for part in parts if part.get("type") != "null"]
    if len(rendered) < len(parts):
        rendered = [_nullable(part) for part in rendered] or [{"type": "STRING", "nullable": True}]
    return _alone(rendered, node)


def _nullable(rendered: Schema) -> Schema:
    if "anyOf" in rendered:
        return {"anyOf": [_nullable(part) for part in rendered["anyOf"]]}
    return {**rendered, "nullable": True}


def _alone(rendered: list[Schema], node: Schema) -> Schema:
    if len(rendered) == 1:
        return _described(rendered[0], node, {})
    # Nothing may stand beside `anyOf`, so the first alternative carries the words.
    first, *others = rendered
    return {"anyOf": [_described(first, node, {}), *others]}


def _object(node: Schema) -> Schema:
    rendered: Schema = {"type": "OBJECT"}
    if node["properties"]:
        rendered["properties"] = {
            name: _schema(inner) for name, inner in node["properties"].items()
        }
    if node["required"]:
        rendered["required"] = list(node["required"])
    return rendered


def _scalar(node: Schema, kind: str) -> Schema:
    rendered: Schema = {"type": kind.upper()}
    dropped: Schema = {}
    for key, value in node.items():
        if key == "items":
            rendered["items"] = _schema(value)
        elif _expressible(kind, key, value):
            rendered[key] = value
        elif key not in ("type", "description", "default"):
            dropped[key] = value
    return _described(rendered, node, dropped)


def _expressible(kind: str, key: str, value: Any) -> bool:
    if key == "enum":
        # Values that are not strings, and empty ones, are refused.
        return kind == "string" and all(value)
    if key == "format":
        return value in _FORMATS.get(kind, ())
    return key in _KEYWORDS


def _described(rendered: Schema, node: Schema, dropped: Schema) -> Schema:
    if node.get("default") is not None:
        dropped = {"default": node["default"], **dropped}
    if "anyOf" in rendered:
        first, *others = rendered["anyOf"]
        return {"anyOf": [_described(first, node, dropped), *others]}
    words = describe(node.get("description") or rendered.get("description"), dropped)
    return {**rendered, "description": words} if words else rendered
