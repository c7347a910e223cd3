"""ArgumentSchema: the JSON Schema of a tool, which validates arguments and fills in defaults."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, cast

import jsonschema_rs
import msgspec

from pegboard.errors import InvalidArgumentsError, InvalidToolError, Violation
from pegboard.model.json_limits import has_more_values
from pegboard.model.json_values import object_in
from pegboard.model.schema.cost import evaluations_per_value, work_per_value
from pegboard.model.schema.defaults import Filler, compile_defaults
from pegboard.model.schema.validator import SchemaValidator, compile_schema
from pegboard.model.schema.violations import argument_path, describe_violation, is_misfit

__all__ = ["ArgumentSchema", "check_output_schema"]

_encode = msgspec.json.Encoder().encode
_encode_binary = msgspec.msgpack.Encoder().encode
_NON_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
MAX_WORK = 6_000_000
"""Values times `work_per_value` of the schema: while arguments are validated, all other calls wait,
some 50 ms at most."""
MAX_VIOLATIONS = 100
"""No more than these are listed: collecting them blocks the event loop, and no model reads more."""
MAX_HINTED = 20
"""For so many violations, similar names are suggested."""
MAX_EXPLAINED = 150_000
"""If values times bytes of the schema exceed this, only the first violation of each argument is
listed: the validator makes an error of every wrong value before it returns the first one."""
MAX_EXPLAINED_SIZE = 500_000
"""For larger arguments only the top-level arguments that do not fit are named."""
MAX_EXPLAINED_DEPTH = 6
"""Alternatives that refer to themselves fail in exponentially many ways, the deeper the more."""
MAX_EVALUATIONS_EXPLAINED = 20_000
"""If alternatives times values exceed this, only the arguments that do not fit are named."""
_MASK = "it"
_SCALARS = frozenset({"string", "integer", "number", "boolean"})
_FLAT_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
)


class ArgumentSchema:
    """Validates the arguments of one tool, and fills in defaults.

    Raises:
        InvalidToolError: when the schema is not a valid JSON Schema, or refers to something outside
            itself. Nothing is ever fetched.
    """

    __slots__ = (
        *(
            "_evaluations",
            "_fill",
            "_fills_defaults",
            "_fits",
            "_partly",
            "_schema",
            "_text",
            "_tool",
        ),
        *("_validator", "_work", "flat", "trivial"),
    )

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        tool: str,
        fills_defaults: bool = True,
        checked: bool = False,
    ) -> None:
        self.trivial: bool = not schema
        """True for the empty schema, which accepts everything."""
        self._schema = schema
        self._tool = tool
        self._fills_defaults = fills_defaults
        # Compiled here only to find out whether it can be: most registered tools are never called,
        # and a compiled schema is larger than everything else about a tool.
        if not checked:
            self._compile()
        self.flat: bool = _flat(schema)
        """True when every argument is known, and a string, number or boolean."""
        self._validator: SchemaValidator | None = None
        self._partly: SchemaValidator | None = None
        self._text = b""
        self._work = 1
        self._evaluations = 0
        self._fits: Callable[[Any], bool] | None = None
        self._fill: Filler | None = None

    def check(self, arguments: dict[str, Any], *, tool: str) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in, at any depth.

        Raises:
            InvalidArgumentsError: with every way in which they break the schema.
        """
        try:
            fits = self._fits or self._ready()
            if not self.flat:
                encoded = _refuse_what_is_not_json(arguments, tool)
                # Values have at least two bytes each, and most arguments are far from the limit.
                if len(encoded) * self._work > MAX_WORK:
                    self._refuse_expensive(encoded, tool)
            fill = self._fill
            complete = arguments if fill is None else fill(arguments)
        except RecursionError:
            raise _nested_too_deeply(tool) from None
        try:
            if fits(complete):
                return complete
            # A rule about the whole (oneOf, maxProperties) may forbid what a default adds.
            if complete is not arguments and fits(arguments):
                return arguments
        except ValueError:
            # A tuple, a date, a subclass of list: taken as the JSON it stands for.
            _refuse_what_is_not_json(complete, tool)
            complete = msgspec.json.decode(_encode(complete))
        violations = self._violations(complete, tool)
        if violations:
            raise InvalidArgumentsError(tool, violations)
        return complete

    def accepts(self, arguments: dict[str, Any]) -> bool:
        """Tell whether `check` accepts the arguments."""
        try:
            self.check(arguments, tool=self._tool)
        except InvalidArgumentsError:
            return False
        return True

    def _refuse_expensive(self, encoded: bytes, tool: str) -> None:
        most = MAX_WORK // self._work
        if has_more_values(encoded, most):
            words = f"too many values for this schema, which is expensive to check: at most {most}"
            raise InvalidArgumentsError(tool, [Violation("", words)])

    def declares(self, name: object) -> bool:
        """Tell whether the schema lists an argument by its name."""
        return name in object_in(self._schema.get("properties"))

    def misfits(self, arguments: dict[str, Any]) -> list[tuple[str | int, ...]]:
        """Return the paths of values of which the schema wants another type, or a listed value.

        A caller may have written such a value in another form, as a number in a text. There are at
        most `MAX_VIOLATIONS`, and none of arguments that are too large to explain or not JSON.
        """
        validator = self._validator or self._compile()
        try:
            encoded = _refuse_what_is_not_json(arguments, self._tool)
            kind = self._explained(arguments, encoded)
            if kind == "nothing":
                return []
            errors = (
                islice(validator.iter_errors(arguments), MAX_VIOLATIONS)
                if kind == "everything"
                else islice(self._first_errors(arguments), MAX_VIOLATIONS)
            )
            places = [_keys(it.instance_path, arguments) for it in errors if is_misfit(it)]
        except (InvalidArgumentsError, ValueError, RecursionError):
            return []
        return list(dict.fromkeys(places))

    def _violations(self, arguments: dict[str, Any], tool: str) -> list[Violation]:
        encoded = _refuse_what_is_not_json(arguments, tool)
        kind = self._explained(arguments, encoded)
        if kind != "everything":
            return self._first_violations(arguments, described=kind == "first")
        validator = self._validator or self._compile()
        try:
            found = validator.iter_errors(msgspec.json.decode(encoded))
            errors = list(islice(found, MAX_VIOLATIONS + 1))
        except (ValueError, RecursionError):
            raise _nested_too_deeply(tool) from None
        violations = [
            describe_violation(it, self._schema, hinted=index < MAX_HINTED)
            for index, it in enumerate(errors[:MAX_VIOLATIONS])
        ]
        if len(errors) > MAX_VIOLATIONS:
            violations.append(Violation("", "and more"))
        return violations

    def _explained(
        self, arguments: dict[str, Any], encoded: bytes
    ) -> Literal["everything", "first", "nothing"]:
        """Return which violations there is time to describe: all, or the first of each argument."""
        text = self._text = self._text or _encode(self._schema)
        values = 1 + encoded.count(b",") + encoded.count(b":")
        if self._explodes(arguments, encoded, values):
            return "nothing"
        return "first" if values * len(text) > MAX_EXPLAINED else "everything"

    def _first_violations(self, arguments: dict[str, Any], *, described: bool) -> list[Violation]:
        """Return the first violation of each argument, or only that the argument does not fit.

        A validator ends at the first one, but it looks at all alternatives to describe it.
        """
        if described:
            errors = islice(self._first_errors(arguments), MAX_VIOLATIONS + 1)
            violations = [
                describe_violation(it, self._schema, hinted=index < MAX_HINTED)
                for index, it in enumerate(errors)
            ]
        else:
            fits = self._each().is_valid
            wrong = (name for name, value in arguments.items() if not fits({name: value}))
            violations = [
                Violation(argument_path([name]), "does not fit its schema")
                for name in islice(wrong, MAX_VIOLATIONS + 1)
            ]
        violations += [
            Violation("", f"the required argument `{name}` is missing")
            for name in self._schema.get("required", ())
            if name not in arguments
        ]
        return violations or [Violation("", "the arguments do not fit the schema")]

    def _first_errors(self, arguments: dict[str, Any]) -> Iterator[jsonschema_rs.ValidationError]:
        """Give the first error of each argument."""
        validate = self._each().validate
        for name, value in arguments.items():
            try:
                validate({name: value})
            except jsonschema_rs.ValidationError as error:
                yield error

    def _each(self) -> SchemaValidator:
        """Return the validator of single arguments."""
        if self._partly is None:
            rest = {key: value for key, value in self._schema.items() if key != "required"}
            self._partly = _compiled(rest, "input_schema", self._tool, mask=_MASK)
        return self._partly

    def _explodes(self, arguments: dict[str, Any], encoded: bytes, values: int) -> bool:
        """Tell whether even the first violation may take long to describe."""
        if len(encoded) > MAX_EXPLAINED_SIZE:
            return True
        if b'ef":' in self._text and _depth(arguments) > MAX_EXPLAINED_DEPTH:
            return True
        if b'Of":' not in self._text:
            return False
        self._evaluations = self._evaluations or evaluations_per_value(self._schema)
        return self._evaluations * values > MAX_EVALUATIONS_EXPLAINED

    def _ready(self) -> Callable[[Any], bool]:
        self._fill = compile_defaults(self._schema) if self._fills_defaults else None
        self._validator = self._compile()
        self._work = 1 if self.flat else work_per_value(self._schema)
        # Last, because other threads take it as the sign that everything is there.
        self._fits = self._validator.is_valid
        return self._fits

    def _compile(self) -> SchemaValidator:
        return _compiled(self._schema, "input_schema", self._tool, mask=_MASK)


def check_output_schema(schema: Mapping[str, Any], *, tool: str) -> None:
    """Raise `InvalidToolError` when the schema of a tool's result is not a JSON Schema."""
    _compiled(schema, "output_schema", tool)


def _compiled(
    schema: Mapping[str, Any], field: str, tool: str, *, mask: str | None = None
) -> SchemaValidator:
    try:
        return compile_schema(schema, mask=mask)
    except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
        raise InvalidToolError(
            f"The {field} of tool {tool!r} is not a usable JSON Schema: {_reason(error)}."
        ) from error


def _reason(error: Exception) -> str:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return str(error)
    where = "/".join(str(part) for part in error.instance_path)
    return f"at `{where}`, {error.message}" if where else error.message


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


def _keys(path: Iterable[str | int], value: object) -> tuple[str | int, ...]:
    """Return a path with the keys of its objects as text: the validator makes numbers of some."""
    keys = list[str | int]()
    for part in path:
        keys.append(str(part) if isinstance(value, dict) else part)
        value = cast("Any", value)[keys[-1]]
    return tuple(keys)


def _refuse_what_is_not_json(arguments: dict[str, Any], tool: str) -> bytes:
    """Return the arguments as JSON."""
    # This protects more than meaning: the validator recurses natively, and would overflow the
    # stack on arguments that are nested a hundred thousand levels deep.
    try:
        encoded = _encode(arguments)
    except RecursionError:
        raise _nested_too_deeply(tool) from None
    except (TypeError, ValueError, OverflowError) as error:
        path = next(_not_json(arguments, ""), "")
        violation = Violation(path, f"must be a JSON value: {error}")
        raise InvalidArgumentsError(tool, [violation]) from None
    # NaN and infinities are encoded as null: where there is one, look closer.
    if b"null" in encoded and _may_be_non_finite(arguments):
        _refuse_non_finite(arguments, tool)
    return encoded


def _may_be_non_finite(arguments: dict[str, Any]) -> bool:
    # In MessagePack a float is 0xcb and eight bytes, big-endian; these three bytes begin every
    # number that is not finite, and nothing that is valid UTF-8.
    try:
        return _NON_FINITE.search(_encode_binary(arguments)) is not None
    except OverflowError:  # integers that MessagePack does not have
        return any(isinstance(it, float) and not math.isfinite(it) for it in _leaves(arguments))


def _nested_too_deeply(tool: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(tool, [Violation("", "the arguments are nested too deeply")])


def _refuse_non_finite(arguments: dict[str, Any], tool: str) -> None:
    violations = [
        Violation(path, "must be a finite number; JSON has no NaN or infinity")
        for path in _non_finite(arguments, "")
    ]
    if violations:
        raise InvalidArgumentsError(tool, violations)


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (
                cast("dict[str, object]", outer).values()
                if isinstance(outer, dict)
                else cast("list[object]", outer)
            )
        ]
    return depth


def _leaves(value: object) -> Iterator[object]:
    """Give everything that is not a container; much faster than with the paths."""
    left = [value]
    while left:
        it = left.pop()
        if isinstance(it, dict):
            left += cast("dict[str, object]", it).values()
        elif isinstance(it, list | tuple):
            left += cast("list[object]", it)
        else:
            yield it


def _walk(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield everything that is not a container, with its path."""
    if isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            yield from _walk(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("list[object]", value)):
            yield from _walk(item, f"{path}[{index}]")
    else:
        yield path, value


def _non_finite(value: object, path: str) -> Iterator[str]:
    for where, leaf in _walk(value, path):
        if isinstance(leaf, float) and not math.isfinite(leaf):
            yield where


def _not_json(value: object, path: str) -> Iterator[str]:
    for where, leaf in _walk(value, path):
        try:
            _encode(leaf)
        except (TypeError, ValueError, OverflowError, RecursionError):
            yield where
