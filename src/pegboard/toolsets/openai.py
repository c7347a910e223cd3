"""Tool definitions for OpenAI: plain ones, and strict ones where the schema allows it.

Rules: https://platform.openai.com/docs/guides/function-calling and, for strict ones, the page on
structured outputs, "supported schemas".
"""

import re
from typing import Any, Literal, TypeAlias

from pegboard.model.content import truncate_text
from pegboard.toolsets.combining import Schema
from pegboard.toolsets.dialect import describe, simplify

__all__ = ["OpenAIApi", "openai_definition"]

OpenAIApi: TypeAlias = Literal["chat", "responses"]
"""Chat Completions nests the function in an object of its own, Responses does not."""

MAX_DESCRIPTION = 1024
_ROOM_FOR_THE_MARK = 64
_MAX_PROPERTIES = 5000
_MAX_LEVELS = 10
_MAX_ENUM_VALUES = 1000
_MAX_CHARACTERS = 120_000
_LONG_ENUM = 250
_MAX_CHARACTERS_OF_A_LONG_ENUM = 15_000
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_KEYWORDS = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems"),
    }
)
# Looking around and back-references: a grammar cannot do that, so the API refuses it.
_BEYOND_REGULAR = re.compile(r"\(\?[=!<]|\\[1-9k]")


def openai_definition(
    name: str, description: str, *, parameters: Schema, strict: bool, api: OpenAIApi
) -> dict[str, Any]:
    """Return a function in the format of OpenAI's API.

    A schema that cannot be strict is given as it is, with ``"strict": false``.
    """
    function: dict[str, Any] = {"name": name, "description": _shorten(description)}
    if strict:
        try:
            function["parameters"] = _Strict().root(parameters)
            function["strict"] = True
        except _NotStrictError:
            function["parameters"] = parameters
            function["strict"] = False
    else:
        function["parameters"] = parameters
        if api == "responses":
            # Left out, it would mean true there.
            function["strict"] = False
    if api == "responses":
        return {"type": "function", **function}
    return {"type": "function", "function": function}


def _shorten(description: str) -> str:
    # One that is too long makes the API refuse the whole request.
    if len(description) <= MAX_DESCRIPTION:
        return description
    return truncate_text(description, MAX_DESCRIPTION - _ROOM_FOR_THE_MARK)


class _NotStrictError(Exception):
    pass


class _Strict:
    """Writes one strict schema, and counts what is limited over the whole of it."""

    def __init__(self) -> None:
        self._properties = 0
        self._enum_values = 0
        self._characters = 0

    def root(self, parameters: Schema) -> Schema:
        rendered = self._schema(simplify(parameters), 1)
        if (
            self._properties > _MAX_PROPERTIES
            or self._enum_values > _MAX_ENUM_VALUES
            or self._characters > _MAX_CHARACTERS
        ):
            raise _NotStrictError
        return rendered

    def _schema(self, node: Schema, level: int) -> Schema:
        if level > _MAX_LEVELS:
            raise _NotStrictError
        if "anyOf" in node:
            rendered: Schema = {"anyOf": [self._schema(part, level) for part in node["anyOf"]]}
            return _described(rendered, node, {})
        match node.get("type"):
            case None:
                # Anything at all: no strict schema says that.
                raise _NotStrictError
            case "object":
                return _described(self._object(node, level), node, {})
            case "array":
                items = self._schema(node["items"], level + 1)
                return self._scalar(node, {"type": "array", "items": items})
            case kind:
                return self._scalar(node, {"type": kind})

    def _object(self, node: Schema, level: int) -> Schema:
        properties: Schema = node["properties"]
        # Further down, an object without properties is meant to hold whatever the model likes.
        usual = level > 1 and not properties
        if node.get("additionalProperties", usual) is not False:
            # Closing it would take something away from the tool.
            raise _NotStrictError
        self._properties += len(properties)
        self._characters += sum(map(len, properties))
        required = frozenset(node["required"])
        rendered = {name: self._schema(inner, level + 1) for name, inner in properties.items()}
        return {
            "type": "object",
            "properties": {
                name: inner if name in required else _nullable(inner)
                for name, inner in rendered.items()
            },
            "required": list(properties),
            "additionalProperties": False,
        }

    def _scalar(self, node: Schema, rendered: Schema) -> Schema:
        dropped: Schema = {}
        for key, value in node.items():
            if key == "enum":
                self._count(value)
                rendered["enum"] = list(value)
            elif _expressible(key, value):
                rendered[key] = value
            elif key not in ("type", "items", "description", "default"):
                dropped[key] = value
        return _described(rendered, node, dropped)

    def _count(self, values: list[Any]) -> None:
        characters = sum(len(value) for value in values if isinstance(value, str))
        if len(values) > _LONG_ENUM and characters > _MAX_CHARACTERS_OF_A_LONG_ENUM:
            raise _NotStrictError
        self._enum_values += len(values)
        self._characters += characters


def _expressible(key: str, value: Any) -> bool:
    if key == "format":
        return value in _FORMATS
    if key == "pattern":
        return not _BEYOND_REGULAR.search(value)
    return key in _KEYWORDS


def _described(rendered: Schema, node: Schema, dropped: Schema) -> Schema:
    if node.get("default") is not None:
        dropped = {"default": node["default"], **dropped}
    words = describe(node.get("description"), dropped)
    return {**rendered, "description": words} if words else rendered


def _nullable(rendered: Schema) -> Schema:
    """Return the schema with null allowed: in strict mode that is how an argument is left out."""
    if "anyOf" in rendered:
        parts: list[Schema] = rendered["anyOf"]
        if any(part.get("type") == "null" for part in parts):
            return rendered
        return {**rendered, "anyOf": [*parts, {"type": "null"}]}
    kind = rendered["type"]
    if kind == "null":
        return rendered
    if kind in ("object", "array"):
        return {"anyOf": [rendered, {"type": "null"}]}
    nullable = {**rendered, "type": [kind, "null"]}
    if "enum" in rendered:
        nullable["enum"] = [*rendered["enum"], None]
    return nullable
