"""Candidate: a function, object or definition to register, checked and with its implementation."""

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model import Annotations, ArgumentSchema, Step, Tool, ToolCall
from pegboard.model.schema.schema import check_output_schema
from pegboard.registry.functions.functions import FunctionTool
from pegboard.registry.implementation import DEFINITION_ONLY, Implementation, is_async

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BoundTool", "Candidate", "candidate_of", "stored_candidate"]

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_MISSING: Any = object()
_ANYTHING = ArgumentSchema({}, tool="")


class Candidate(msgspec.Struct, frozen=True):
    """A checked definition and its implementation."""

    tool: Tool
    implementation: Implementation
    schema: ArgumentSchema | None
    """``None`` for a definition that was checked in an earlier run; made when first needed."""
    accepts: Mapping[str, Any] | None = None
    """The schema of the arguments, if the definition shows another one."""

    @property
    def is_definition(self) -> bool:
        """True when the tool has no implementation."""
        return self.implementation is DEFINITION_ONLY

    def arguments(self) -> ArgumentSchema:
        """Return the schema that checks the arguments."""
        # Nothing runs a definition, whatever the arguments.
        if self.is_definition:
            return _ANYTHING
        if self.schema is not None:
            return self.schema
        shown = self.tool.input_schema if self.accepts is None else self.accepts
        return ArgumentSchema(shown, tool=self.tool.name, fills_defaults=False, checked=True)


class BoundTool(msgspec.Struct, frozen=True):
    """A definition and the step that runs it, for a tool whose work is done elsewhere.

    The step receives the arguments as the caller gave them, and counts its own starts.
    """

    tool: Tool
    step: Step
    checked: bool = False
    """True when an earlier run has checked the schemas, so that they need not be compiled."""
    accepts: Mapping[str, Any] | None = None
    """The schema of the arguments, if the definition shows another one."""


def stored_candidate(tool: Tool) -> Candidate:
    """Return a definition from a store unchecked: it was checked before it was stored."""
    return Candidate(tool, DEFINITION_ONLY, None)


def candidate_of(item: object) -> Candidate:
    """Make a candidate of a function, a `Tool`, a `BoundTool`, or an object with `name` and `call`.

    Raises:
        InvalidToolError: when the item is none of these, or its definition is not valid.
    """
    try:
        return _understood(item)
    except InvalidToolError:
        raise
    except Exception as error:
        # The item's own code, or that of its types, failed while it was looked at.
        kind = type(error).__name__
        raise InvalidToolError(f"{_shown(item)} cannot be a tool: {kind}: {error}.") from error


def _understood(item: object) -> Candidate:
    if isinstance(item, _FUNCTIONS):
        item = cast("FunctionTool[..., Any]", FunctionTool.of(cast("Callable[..., Any]", item)))
    completes_itself = isinstance(item, FunctionTool | BoundTool)
    if isinstance(item, BoundTool):
        tool, implementation = item.tool, Implementation(item.step, asynchronous=True)
    elif isinstance(item, FunctionTool):
        function = cast("FunctionTool[..., Any]", item)
        tool, implementation = function.definition, function.implementation()
    elif isinstance(item, Tool):
        tool, implementation = item, DEFINITION_ONLY
    else:
        tool, implementation = _from_object(item)
    accepts = item.accepts if isinstance(item, BoundTool) else None
    if isinstance(item, BoundTool) and item.checked:
        return Candidate(tool, implementation, None, accepts)
    if tool.output_schema is not None:
        check_output_schema(tool.output_schema, tool=tool.name)
    # Python fills in a function's defaults by itself, and knows those that JSON does not; a server
    # fills in its own.
    fills = not completes_itself
    taken = tool.input_schema if accepts is None else accepts
    schema = ArgumentSchema(taken, tool=tool.name, fills_defaults=fills)
    return Candidate(tool, implementation, schema, accepts)


def _from_object(item: object) -> tuple[Tool, Implementation]:
    if isinstance(item, type):
        raise InvalidToolError(
            f"{item.__name__} is a class; register an instance of it: `{item.__name__}()`."
        )
    name = _member(item, "name")
    call = _member(item, "call")
    absent = [label for label, value in (("`name`", name), ("`call`", call)) if value is _MISSING]
    if absent:
        way_out = "Register a function, a `Tool`, or an object with `name` and `call(arguments)`."
        if callable(item):
            way_out = "It can be called, so give it a name: `register(tool(name=...)(it))`."
        raise InvalidToolError(
            f"{_shown(item)} is not a tool: it has no {' and no '.join(absent)}. {way_out}"
        )
    if not callable(call):
        raise InvalidToolError(f"{_shown(item)} has a `call` that is not callable.")
    tool = Tool(
        name=name,
        description=_value(item, "description", ""),
        input_schema=_value(item, "input_schema", {}),
        output_schema=_value(item, "output_schema", None),
        **_extras(item),
    )

    def run(tool_call: ToolCall) -> object:
        tool_call.started()
        return call(tool_call.arguments)

    return tool, Implementation(run, asynchronous=is_async(call))


def _extras(item: object) -> dict[str, Any]:
    """Return what else an object says of itself; attributes of other types mean something else."""
    extras: dict[str, Any] = {}
    for name, kind in (("annotations", Annotations), ("category", str), ("defer_loading", bool)):
        value = _member(item, name)
        if isinstance(value, kind):
            extras[name] = value
    tags = _member(item, "tags")
    if isinstance(tags, list | tuple):
        tags = tuple(cast("list[Any]", tags))
        if all(isinstance(tag, str) for tag in tags):
            extras["tags"] = tags
    return extras


def _value(item: object, member: str, absent: Any) -> Any:
    value = _member(item, member)
    return absent if value is _MISSING or value is None else value


def _member(item: object, member: str) -> Any:
    try:
        return getattr(item, member, _MISSING)
    except Exception as error:
        raise InvalidToolError(
            f"{_shown(item)} has a `{member}` that cannot be read: {error}."
        ) from error


def _shown(item: object) -> str:
    return f"An object of type {type(item).__name__!r}"
