"""Describe violations of a JSON Schema in words that a model can act on."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import jsonschema_rs
import msgspec

from pegboard.errors import Violation
from pegboard.model.tool_names import nearest_names

__all__ = ["argument_path", "describe_violation", "is_misfit"]

Kind = jsonschema_rs.ValidationErrorKind
_SHOWN = 60
_LISTED = 20
_LONGEST_PATH = 500
_HINTED, _COMPARED = 3, 50
"""For so many names a similar one is looked for, among so many."""


def describe_violation(
    error: jsonschema_rs.ValidationError,
    schema: Mapping[str, Any],
    *,
    nested: bool = False,
    hinted: bool = True,
) -> Violation:
    """Say where and how the arguments break the schema, without repeating large values.

    Args:
        error: the violation.
        schema: the schema of all arguments.
        nested: the violation is that of one alternative of several.
        hinted: suggest a similar name for an unknown argument, which takes some time.
    """
    # Alternatives inside alternatives are not spelled out: their number grows exponentially.
    if nested and isinstance(error.kind, Kind.AnyOf | Kind.OneOfNotValid):
        return Violation(argument_path(error.instance_path), "fits none of the alternatives")
    return Violation(argument_path(error.instance_path), _message(error, schema, hinted=hinted))


def is_misfit(error: jsonschema_rs.ValidationError) -> bool:
    """Tell whether a value has the wrong type, or is none of the listed values."""
    kinds = Kind.Type | Kind.Enum | Kind.Constant | Kind.AnyOf | Kind.OneOfNotValid
    return isinstance(error.kind, kinds)


def _message(  # noqa: PLR0911 - one for each kind
    error: jsonschema_rs.ValidationError, schema: Mapping[str, Any], *, hinted: bool
) -> str:
    match error.kind:
        case Kind.Required(property=missing):
            return f"the required argument `{missing}` is missing"
        case Kind.Type(types=types):
            return f"expected {_either(types)}, got {_shown(error.instance)}"
        case Kind.Enum(options=options):
            listed = _options(cast("Sequence[object]", options))
            return f"must be one of {listed}, got {_shown(error.instance)}"
        case Kind.Constant(expected_value=expected):
            return f"must be {_shown(expected)}, got {_shown(error.instance)}"
        case (
            Kind.AdditionalProperties(unexpected=unexpected)
            | Kind.UnevaluatedProperties(unexpected=unexpected)
        ):
            return _unexpected(unexpected, _known(schema, error), hinted=hinted)
        case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
            return _alternatives(context, error, schema, hinted=hinted)
        case Kind.OneOfMultipleValid():
            return "fits more than one of the alternatives, exactly one is allowed"
        case Kind.Custom(message=words):
            return f"{words}, got {_shown(error.instance)}"
        case _:
            return _generic(error)


_WORDS = {
    "minimum": "must be at least {0}, got {1}",
    "maximum": "must be at most {0}, got {1}",
    "exclusiveMinimum": "must be greater than {0}, got {1}",
    "exclusiveMaximum": "must be less than {0}, got {1}",
    "multipleOf": "must be a multiple of {0}, got {1}",
    "minLength": "must have at least {0} characters, got {1}",
    "maxLength": "must have at most {0} characters, got {1}",
    "pattern": "must match the pattern `{0}`, got {1}",
    "format": "must be a valid {0}, got {1}",
    "minItems": "must have at least {0} items, got {1}",
    "maxItems": "must have at most {0} items, got {1}",
    "uniqueItems": "must not repeat an item",
    "minProperties": "must have at least {0} members, got {1}",
    "maxProperties": "must have at most {0} members, got {1}",
    "contains": "has too few or too many items of the required form",
    "falseSchema": "is not allowed here",
    "not": "has a form that is not allowed, got {1}",
}


def _generic(error: jsonschema_rs.ValidationError) -> str:
    rule = error.kind.name
    words = _WORDS.get(rule, f"breaks the rule `{rule}`, got {{1}}")
    return words.format(_cut(str(getattr(error.kind, "value", ""))), _shown(error.instance))


def _unexpected(unexpected: Sequence[str], known: Sequence[str], *, hinted: bool) -> str:
    named = ", ".join(f"`{_cut(name)}`" for name in unexpected[:_LISTED])
    asked = [name for name in unexpected[:_HINTED] if hinted and len(name) <= _SHOWN]
    hints = [hint for it in asked for hint in nearest_names(it, known[:_COMPARED], limit=1)]
    if hints:
        return f"unknown argument {named}; did you mean {_either([f'`{hint}`' for hint in hints])}?"
    if known:
        listed = ", ".join(f"`{name}`" for name in known[:_LISTED])
        return f"unknown argument {named}; known are {listed}"
    return f"unknown argument {named}"


def _known(schema: Mapping[str, Any], error: jsonschema_rs.ValidationError) -> list[str]:
    """Return the properties named beside the `additionalProperties` that was broken."""
    node: Any = schema
    for part in error.schema_path[:-1]:
        if isinstance(node, Mapping) and part in node:
            node = cast("Mapping[object, Any]", node)[part]
        elif (
            isinstance(node, list) and isinstance(part, int) and part < len(cast("list[Any]", node))
        ):
            node = cast("list[Any]", node)[part]
        else:
            return []
    if not isinstance(node, Mapping):
        return []
    found = cast("Mapping[str, Any]", node).get("properties")
    return list(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else []


def _alternatives(
    context: Sequence[Sequence[jsonschema_rs.ValidationError]],
    error: jsonschema_rs.ValidationError,
    schema: Mapping[str, Any],
    *,
    hinted: bool,
) -> str:
    depth = len(error.instance_path)
    types: list[str] = []
    for branch in context:
        for inner in branch:
            if len(inner.instance_path) > depth or not isinstance(inner.kind, Kind.Type):
                return _mixed_alternatives(context, schema, hinted=hinted)
            types += inner.kind.types
    return f"expected {_either(list(dict.fromkeys(types)))}, got {_shown(error.instance)}"


def _mixed_alternatives(
    context: Sequence[Sequence[jsonschema_rs.ValidationError]],
    schema: Mapping[str, Any],
    *,
    hinted: bool,
) -> str:
    reasons = [
        " and ".join(
            str(describe_violation(inner, schema, nested=True, hinted=hinted))
            for inner in branch[:3]
        )
        for branch in context[:5]
    ]
    return "fits none of the alternatives: " + " | ".join(f"({reason})" for reason in reasons)


def argument_path(parts: Sequence[str | int]) -> str:
    """Write where something is in the arguments, as `items[2].price`; long names are cut."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{_cut(part)}" if path else _cut(part)
    return path if len(path) <= _LONGEST_PATH else f"…{path[-_LONGEST_PATH:]}"


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        kind = "object" if isinstance(value, dict) else "array"
        count = len(cast("dict[str, object] | list[object]", value))
        return f"{kind} of {count}"
    if isinstance(value, str):
        shown = msgspec.json.encode(value[:_SHOWN]).decode()
        return f"string {shown}" if len(value) <= _SHOWN else f"string {shown}… of {len(value)}"
    return _cut(
        "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    )


def _options(options: Sequence[object]) -> str:
    listed = [_cut(msgspec.json.encode(option).decode()) for option in options[:_LISTED]]
    more = len(options) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
