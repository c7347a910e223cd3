"""Parameters of a function: their JSON Schema, their docstring, and how arguments are converted."""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import pydantic
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from pegboard.errors import InvalidArgumentsError, InvalidToolError, Violation
from pegboard.model import ToolCall
from pegboard.registry.functions.types import DescribedType, UnsupportedTypeError, describe_type

__all__ = ["Documentation", "Parameters", "read_docstring"]

_REFERENCE = "#/$defs/{model}"


class Parameters:
    """Reads a signature once, and turns the arguments of each call into Python values."""

    def __init__(
        self, signature: inspect.Signature, *, tool: str, described: Mapping[str, str]
    ) -> None:
        self._tool = tool
        self._context: str | None = None
        self._positional: dict[str, Any] = {}
        self._defaults: dict[str, FieldInfo] = {}
        self._types: dict[str, DescribedType] = {}
        properties: dict[str, Any] = {}
        required: list[str] = []
        open_ended: Mapping[str, Any] | None = None
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.POSITIONAL_ONLY:
                self._positional[parameter.name] = parameter.default
            if parameter.kind is parameter.VAR_KEYWORD:
                open_ended = self._rest(parameter)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                raise InvalidToolError(
                    f"Tool {tool!r} takes *{parameter.name}; a tool's arguments have names."
                )
            elif _is_context(parameter.annotation):
                self._take_context(parameter.name)
            else:
                properties[parameter.name] = self._add(parameter)
                if _is_required(parameter, properties[parameter.name]):
                    required.append(parameter.name)
        self.schema: dict[str, Any] = self._assemble(
            properties, required, described, open_ended=open_ended
        )
        self._recasts = [(name, *kind.recast) for name, kind in self._types.items() if kind.recast]
        self._converts = [
            (name, kind.convert) for name, kind in self._types.items() if kind.convert
        ]
        self._indirect = bool(self._converts or self._context or self._defaults or self._positional)

    def apply(self, function: Callable[..., Any], call: ToolCall) -> Any:
        """Call the function with the arguments of the call.

        Raises:
            InvalidArgumentsError: when a value does not fit the type of its parameter.
        """
        arguments = self._recast(call.arguments, call.tool.name)
        if self._indirect:
            positional, named = self._convert(call, arguments)
            call.started()
            return function(*positional, **named)
        call.started()
        return function(**arguments)

    def _recast(self, arguments: dict[str, Any], tool: str) -> dict[str, Any]:
        for name, wrong, right in self._recasts:
            if arguments.get(name).__class__ is wrong:
                try:
                    arguments = {**arguments, name: right(arguments[name])}
                except OverflowError as error:
                    raise InvalidArgumentsError(tool, [Violation(name, str(error))]) from None
        return arguments

    def _convert(
        self, call: ToolCall, arguments: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        ready = dict(arguments)
        for name, field in self._defaults.items():
            if name not in ready:
                ready[name] = _default_of(field)
        violations: list[Violation] = []
        for name, convert in self._converts:
            if name not in arguments:
                continue
            try:
                ready[name] = convert(arguments[name])
            except pydantic.ValidationError as error:
                violations += [_violation(name, problem) for problem in error.errors()]
        if violations:
            raise InvalidArgumentsError(call.tool.name, violations)
        if self._context is not None:
            ready[self._context] = call
        positional: list[Any] = []
        for name, default in self._positional.items():
            if name not in ready and default is inspect.Parameter.empty:
                break
            positional.append(ready.pop(name, default))
        return positional, ready

    def _rest(self, parameter: inspect.Parameter) -> Mapping[str, Any]:
        """Return the schema of arguments without a parameter of their own."""
        schema = self._add(parameter)
        del self._types[parameter.name]
        # Definitions have no place in there; then anything is accepted.
        return {} if "$defs" in schema else schema

    def _take_context(self, name: str) -> None:
        if self._context is not None:
            raise InvalidToolError(
                f"Tool {self._tool!r} takes the call twice: {self._context!r} and {name!r}."
            )
        self._context = name

    def _add(self, parameter: inspect.Parameter) -> dict[str, Any]:
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = parameter.default
        if isinstance(default, FieldInfo):
            annotation = Annotated[annotation, default]
            field = default
            default = parameter.empty if field.is_required() else _default_of(field)
            if default is not parameter.empty:
                self._defaults[parameter.name] = field
        try:
            kind = describe_type(annotation)
        except UnsupportedTypeError as error:
            raise InvalidToolError(
                f"Parameter {parameter.name!r} of tool {self._tool!r} has a type without a JSON "
                f"Schema: {annotation!r}. Use JSON types, dataclasses, TypedDict or pydantic "
                f"models. ({error})"
            ) from error
        self._types[parameter.name] = kind
        schema = {key: value for key, value in kind.schema.items() if key != "default"}
        if default is not parameter.empty:
            try:
                schema["default"] = kind.adapter.dump_python(default, mode="json", warnings="none")
            except (PydanticSerializationError, ValueError):
                # Not JSON, so no caller can pass it: the function fills it in by itself.
                schema.pop("default", None)
        return schema

    def _assemble(
        self,
        properties: dict[str, Any],
        required: list[str],
        described: Mapping[str, str],
        *,
        open_ended: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        definitions = self._share_definitions(properties)
        for name, text in described.items():
            if name in properties and text:
                properties[name].setdefault("description", text)
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if open_ended is None:
            schema["additionalProperties"] = False
        elif open_ended:
            schema["additionalProperties"] = open_ended
        if definitions:
            schema["$defs"] = definitions
        return schema

    def _share_definitions(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Move the definitions of all parameters into one place, as references expect them."""
        if not any("$defs" in schema for schema in properties.values()):
            return {}
        # Pydantic sees all of them at once, because two models may have the same name.
        adapters = [(name, "validation", kind.adapter) for name, kind in self._types.items()]
        by_key, shared = TypeAdapter.json_schemas(adapters, ref_template=_REFERENCE)  # pyright: ignore[reportArgumentType]
        for (name, _), schema in by_key.items():
            old = properties[name]
            kept = {key: old[key] for key in ("default", "description") if key in old}
            properties[name] = {**schema, **kept}
        return dict(shared.get("$defs", {}))


class Documentation(NamedTuple):
    """The description and the parameters that a docstring gives."""

    description: str
    parameters: Mapping[str, str]


def read_docstring(function: Callable[..., Any]) -> Documentation:
    """Read a docstring in Google, NumPy, reST or Epydoc style."""
    if isinstance(function, functools.partial):
        function = function.func
    text = getattr(function, "__doc__", None)
    text = inspect.cleandoc(text) if isinstance(text, str) else ""
    # Parsing costs more than everything else about a function, and one line has no parameters.
    if "\n" not in text:
        return Documentation(text, {})
    # Only here: most programs have no function with more than a line, and commands none at all.
    import docstring_parser  # noqa: PLC0415

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Documentation(text, {})
    parameters = {param.arg_name: param.description or "" for param in parsed.params}
    if not parsed.meta:
        return Documentation(text, {})
    return Documentation((parsed.description or "").strip(), parameters)


def _default_of(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True, validated_data={})


def _is_required(parameter: inspect.Parameter, schema: Mapping[str, Any]) -> bool:
    return "default" not in schema and (
        parameter.default is parameter.empty
        or (isinstance(parameter.default, FieldInfo) and parameter.default.is_required())
    )


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_context(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return ToolCall in get_args(annotation)
    return annotation is ToolCall


def _violation(name: str, problem: Any) -> Violation:
    path = name
    for part in problem["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return Violation(path, problem["msg"])
