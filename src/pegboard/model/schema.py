"""ArgumentSchema: a JSON Schema compiled once, to check arguments and to fill in defaults."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import jsonschema_rs
import msgspec

from pegboard.errors import InvalidArgumentsError, InvalidToolError, Violation
from pegboard.model.defaults import Filler, compile_defaults
from pegboard.model.violations import describe_violation

__all__ = ["ArgumentSchema"]

_encode = msgspec.json.Encoder().encode
_SCALARS = frozenset({"string", "integer", "number", "boolean"})
_FLAT_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
)


class ArgumentSchema:
    """Checks and completes the arguments of one tool.

    Raises:
        InvalidToolError: when the schema is not a valid JSON Schema, or refers to something outside
            itself. Nothing is ever fetched.
    """

    __slots__ = ("_fill", "_schema", "_validator", "fits", "flat", "trivial")

    def __init__(self, schema: Mapping[str, Any], *, tool: str) -> None:
        self.trivial = not schema
        """True for the empty schema, which accepts everything."""
        self._schema = schema
        try:
            # As text: the validator knows plain dicts and lists only, and ours are frozen.
            self._validator = jsonschema_rs.validator_for(_encode(schema).decode(), offline=True)
        except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
            reason = getattr(error, "message", None) or str(error)
            raise InvalidToolError(
                f"The input_schema of tool {tool!r} is not a usable JSON Schema: {reason}."
            ) from error
        self.fits: Callable[[Any], bool] = self._validator.is_valid
        self.flat = _flat(schema)
        """True when every argument is known, and a string, number or boolean."""
        self._fill: Filler | None = self._compile_and_fill

    def check(self, arguments: dict[str, Any], *, tool: str) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in, at any depth.

        Raises:
            InvalidArgumentsError: with every way in which they break the schema.
        """
        try:
            if not self.flat:
                _refuse_what_is_not_json(arguments, tool)
            fill = self._fill
            complete = arguments if fill is None else fill(arguments)
        except RecursionError:
            raise _nested_too_deeply(tool) from None
        try:
            if self.fits(complete):
                return complete
        except ValueError:
            # A tuple, a date, a subclass of list: judged below by the JSON it stands for.
            pass
        violations = self._violations(complete, tool)
        if violations:
            raise InvalidArgumentsError(tool, violations)
        return complete

    def _violations(self, arguments: dict[str, Any], tool: str) -> list[Violation]:
        _refuse_what_is_not_json(arguments, tool)
        try:
            errors = list(self._validator.iter_errors(msgspec.json.decode(_encode(arguments))))
        except (ValueError, RecursionError):
            raise _nested_too_deeply(tool) from None
        return [describe_violation(error, self._schema) for error in errors]

    def _compile_and_fill(self, arguments: dict[str, Any]) -> dict[str, Any]:
        # On first use: most registered tools are never called.
        self._fill = compile_defaults(self._schema)
        return arguments if self._fill is None else self._fill(arguments)


def _flat(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties", {})
    return (
        schema.get("additionalProperties") is False
        and set(schema) <= _FLAT_KEYWORDS
        and all(_scalar(member) for member in properties.values())
    )


def _scalar(schema: object) -> bool:
    kind = cast("Mapping[str, Any]", schema).get("type") if isinstance(schema, Mapping) else None
    return isinstance(kind, str) and kind in _SCALARS


def _refuse_what_is_not_json(arguments: dict[str, Any], tool: str) -> None:
    # This protects more than meaning: the validator recurses natively, and would overflow the
    # stack on arguments that are nested a hundred thousand levels deep.
    try:
        encoded = _encode(arguments)
    except RecursionError:
        raise _nested_too_deeply(tool) from None
    except (TypeError, ValueError, OverflowError) as error:
        violation = Violation("", f"the arguments must be JSON values only: {error}")
        raise InvalidArgumentsError(tool, [violation]) from None
    # NaN and infinities are encoded as null.
    if b"null" in encoded:
        _refuse_non_finite(arguments, tool)


def _nested_too_deeply(tool: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(tool, [Violation("", "the arguments are nested too deeply")])


def _refuse_non_finite(arguments: dict[str, Any], tool: str) -> None:
    violations = [
        Violation(path, "must be a finite number; JSON has no NaN or infinity")
        for path in _non_finite(arguments, "")
    ]
    if violations:
        raise InvalidArgumentsError(tool, violations)


def _non_finite(value: object, path: str) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _non_finite(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("list[object]", value)):
            yield from _non_finite(item, f"{path}[{index}]")
