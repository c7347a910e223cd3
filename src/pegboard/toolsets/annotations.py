"""Python types for simple schemas, for the signatures of functions."""

import types
from typing import Any, Literal, Union

from pegboard.toolsets.combining import Schema

__all__ = ["annotation_of"]

_SCALARS: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": types.NoneType,
}


def annotation_of(simple: Schema) -> Any:
    """Return the Python type of what fits a simple schema; `Any` where it says nothing."""
    if "anyOf" in simple:
        return Union[tuple(annotation_of(part) for part in simple["anyOf"])]  # noqa: UP007
    kind = simple.get("type")
    match kind:
        case None:
            return Any
        case "object":
            return dict[str, Any]
        case "array":
            return list[annotation_of(simple["items"])]
        case _:
            return _literal(simple) or _SCALARS.get(kind, Any)


def _literal(simple: Schema) -> Any:
    options = simple.get("enum")
    # Literal has no floating-point numbers.
    if not options or not all(isinstance(option, str | int) for option in options):
        return None
    return Literal[tuple(options)]
