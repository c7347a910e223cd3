"""Candidate: anything a user may register, understood and checked, not yet on the board."""

import types
from typing import Any

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model import ArgumentSchema, Tool, ToolCall
from pegboard.registry.functions import FunctionTool
from pegboard.registry.implementation import Implementation, definition_only, is_async

__all__ = ["Candidate", "candidate_of"]

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_MISSING: Any = object()


class Candidate(msgspec.Struct, frozen=True):
    """A checked definition and what runs it."""

    tool: Tool
    implementation: Implementation
    schema: ArgumentSchema


def candidate_of(item: object) -> Candidate:
    """Understand an item: a function, a `Tool`, or any object with `name` and `call(arguments)`.

    Raises:
        InvalidToolError: when it is none of these, or its definition is broken.
    """
    if isinstance(item, _FUNCTIONS):
        item = FunctionTool.of(item)
    if isinstance(item, FunctionTool):
        tool, implementation = item.definition, item.implementation()
    elif isinstance(item, Tool):
        tool, implementation = item, definition_only()
    else:
        tool, implementation = _from_object(item)
    return Candidate(tool, implementation, ArgumentSchema(tool.input_schema, tool=tool.name))


def _from_object(item: object) -> tuple[Tool, Implementation]:
    if isinstance(item, type):
        raise InvalidToolError(
            f"{item.__name__} is a class; register an instance of it: `{item.__name__}()`."
        )
    name = _member(item, "name")
    call = _member(item, "call")
    absent = [label for label, value in (("`name`", name), ("`call`", call)) if value is _MISSING]
    if absent:
        raise InvalidToolError(
            f"{_shown(item)} is not a tool: it has no {' and no '.join(absent)}. "
            "Register a function, a `Tool`, or an object with `name` and `call(arguments)`."
        )
    if not callable(call):
        raise InvalidToolError(f"The `call` of {_shown(item)} is not callable.")
    tool = Tool(
        name=name,
        description=_value(item, "description", ""),
        input_schema=_value(item, "input_schema", {}),
        output_schema=_value(item, "output_schema", None),
    )

    def run(tool_call: ToolCall) -> object:
        return call(tool_call.arguments)

    return tool, Implementation(run, asynchronous=is_async(call))


def _value(item: object, member: str, absent: Any) -> Any:
    value = _member(item, member)
    return absent if value is _MISSING or value is None else value


def _member(item: object, member: str) -> Any:
    try:
        return getattr(item, member, _MISSING)
    except Exception as error:
        raise InvalidToolError(
            f"The `{member}` of {_shown(item)} cannot be read: {error}."
        ) from error


def _shown(item: object) -> str:
    return f"an object of type {type(item).__name__!r}"
