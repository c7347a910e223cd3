"""Tools as Python functions: names, docstrings and signatures come from the schema."""

import inspect
import keyword
import re
import types
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Literal, NamedTuple, Optional, Union, cast

from pegboard.model import ToolResult
from pegboard.toolsets.combining import Schema, strings
from pegboard.toolsets.dialect import simplify
from pegboard.toolsets.live_view import ExposedTool

__all__ = ["annotation_of", "build_function", "build_sync_function", "function_name"]

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


_ODD = re.compile(r"\W")


def function_name(name: str) -> str:
    """Return the name as a Python identifier."""
    identifier = _ODD.sub("_", name)
    if not identifier.isidentifier():
        identifier = f"_{identifier}"
    return f"{identifier}_" if keyword.iskeyword(identifier) else identifier


def build_function(
    name: str,
    exposed: ExposedTool,
    *,
    call: Callable[[dict[str, Any]], Awaitable[ToolResult]],
    raw: bool,
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that calls the tool."""
    face = _Face.of(exposed)

    async def function(*args: Any, **kwargs: Any) -> Any:
        result = await call(face.arguments(args, kwargs))
        return result if raw else result.raise_for_error().value()

    return _dress(function, name, exposed, face, raw=raw)


def build_sync_function(
    name: str,
    exposed: ExposedTool,
    *,
    call: Callable[[dict[str, Any]], ToolResult],
    raw: bool,
) -> Callable[..., Any]:
    """Return a function that calls the tool and waits for it."""
    face = _Face.of(exposed)

    def function(*args: Any, **kwargs: Any) -> Any:
        result = call(face.arguments(args, kwargs))
        return result if raw else result.raise_for_error().value()

    return _dress(function, name, exposed, face, raw=raw)


class _Face(NamedTuple):
    """The parameters of a function, and the arguments they stand for."""

    signature: inspect.Signature
    originals: Mapping[str, str]
    descriptions: Mapping[str, str]
    rest: str | None

    @classmethod
    def of(cls, exposed: ExposedTool) -> "_Face":
        root = exposed.root
        properties = cast("Schema", root["properties"])
        required = {name for name in strings(root.get("required")) if name in properties}
        order = sorted(properties, key=lambda name: name not in required)
        originals: dict[str, str] = {}
        descriptions: dict[str, str] = {}
        parameters: list[inspect.Parameter] = []
        for name in order:
            simple = simplify(properties[name])
            parameter = _unique(function_name(name), originals)
            originals[parameter] = name
            descriptions[parameter] = str(simple.get("description", ""))
            parameters.append(_parameter(parameter, simple, optional=name not in required))
        rest = None
        if _takes_more(root):
            rest = _unique("arguments", originals)
            kind = inspect.Parameter.VAR_KEYWORD
            parameters.append(inspect.Parameter(rest, kind, annotation=Any))
        return cls(inspect.Signature(parameters), originals, descriptions, rest)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the tool; what was not given is not sent.

        Raises:
            TypeError: when they do not fit the signature.
        """
        bound = self.signature.bind(*args, **kwargs).arguments
        rest: dict[str, Any] = bound.pop(self.rest, {}) if self.rest is not None else {}
        # Wrappers like to pass the default themselves: where that is None, it means nothing given.
        given = {
            self.originals[name]: value
            for name, value in bound.items()
            if value is not None or self.signature.parameters[name].default is not None
        }
        return {**rest, **given}


def _takes_more(root: Schema) -> bool:
    """Tell whether the schema takes, or even requires, arguments that it does not declare."""
    return (
        root.get("additionalProperties", False) is not False
        or bool(root.get("patternProperties"))
        or not set(root["properties"]).issuperset(strings(root.get("required")))
    )


def _parameter(name: str, simple: Schema, *, optional: bool) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    annotation = annotation_of(simple)
    if not optional:
        return inspect.Parameter(name, kind, annotation=annotation)
    default = simple.get("default")
    if default is None:
        annotation = Optional[annotation]  # noqa: UP045 - also for what has no `|`
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _unique(name: str, taken: Mapping[str, str]) -> str:
    while name in taken:
        name += "_"
    return name


def _dress(
    function: Callable[..., Any], name: str, exposed: ExposedTool, face: _Face, *, raw: bool
) -> Callable[..., Any]:
    returns = ToolResult if raw else Any
    parameters = face.signature.parameters
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _docstring(exposed, face)
    function.__annotations__ = {it.name: it.annotation for it in parameters.values()}
    function.__annotations__["return"] = returns
    signature = face.signature.replace(return_annotation=returns)
    function.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return function


def _docstring(exposed: ExposedTool, face: _Face) -> str:
    tool = exposed.tool
    words = tool.description or tool.annotations.title or f"Call the tool {tool.name!r}."
    described = {name: text for name, text in face.descriptions.items() if text}
    if not described:
        return words
    lines = [f"    {name}: {_indented(text)}" for name, text in described.items()]
    return "\n".join([words, "", "Args:", *lines])


def _indented(text: str) -> str:
    return "\n        ".join(line.strip() for line in text.strip().splitlines() if line.strip())
