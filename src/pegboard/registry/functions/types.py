"""Python types as JSON Schema, and JSON values back into those types; pydantic does the work."""

import types
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from inspect import Signature
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import msgspec
import pydantic
from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, SchemaError

from pegboard.model import ToolResult

__all__ = ["DescribedType", "UnsupportedTypeError", "describe_type", "output_schema"]

# JSON gives these as they are. Numbers are not among them: see _NUMBERS.
_AS_THEY_ARE = frozenset(
    {
        str,
        bool,
        type(None),
        dict,
        list,
        object,
        Any,
        list[str],
        list[Any],
        dict[str, Any],
        dict[str, str],
    }
)
_NUMBERS: Mapping[Any, tuple[type, type]] = {int: (float, int), float: (int, float)}
# How pydantic says that it has no schema for a type. Everything else that is raised meanwhile is a
# fault of its own, of the type's code for example, and keeps its own name.
_HAS_NO_SCHEMA = (
    pydantic.PydanticUserError,
    pydantic.PydanticUndefinedAnnotation,
    PydanticSerializationError,
    SchemaError,
)

# The first adapter of a process searches every installed package for plug-ins of pydantic. A module
# is imported before the event loop runs; the first tool may well be registered while it runs.
TypeAdapter(bool)


class UnsupportedTypeError(Exception):
    """A type that has no JSON Schema."""


class DescribedType(NamedTuple):
    """One annotation: its schema, and how JSON values become values of it."""

    adapter: TypeAdapter[Any]
    schema: Mapping[str, Any]
    recast: tuple[type, type] | None
    """For numbers: JSON 2.0 is an integer and JSON 2 a float; the first type becomes the second."""
    convert: Callable[[Any], Any] | None
    """For everything that JSON does not give as it is."""


def describe_type(annotation: Any) -> DescribedType:
    """Describe an annotation; the work is done once for each.

    Raises:
        UnsupportedTypeError: when it has no JSON Schema.
    """
    if not _is_hashable(annotation):
        return _described(annotation)
    # With its text, because `int | str` equals `str | int` but is written otherwise.
    return _described_once(annotation, repr(annotation))


def output_schema(annotation: Any) -> Mapping[str, Any] | None:
    """Return the schema of what a function returns, or ``None`` where that says nothing."""
    if any(annotation is nothing for nothing in (Signature.empty, None, Any, ToolResult)):
        return None
    if not _is_hashable(annotation):
        return _output(annotation)
    return _output_once(annotation, repr(annotation))


def _is_hashable(annotation: Any) -> bool:
    # An Annotated with a list in it is not, for example.
    try:
        hash(annotation)
    except TypeError:
        return False
    return True


@lru_cache(maxsize=2048)
def _output_once(annotation: Any, _text: str) -> Mapping[str, Any] | None:
    return _output(annotation)


def _output(annotation: Any) -> Mapping[str, Any] | None:
    try:
        return describe_type(annotation).adapter.json_schema(mode="serialization")
    except Exception:  # noqa: BLE001 - whatever the type's own code raises: then it says nothing
        return None


@lru_cache(maxsize=2048)
def _described_once(annotation: Any, _text: str) -> DescribedType:
    return _described(annotation)


def _described(annotation: Any) -> DescribedType:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = adapter.json_schema()
    except _HAS_NO_SCHEMA as error:
        raise UnsupportedTypeError(str(error).partition("\n")[0]) from error
    for part in _metadata(annotation):
        if isinstance(part, str):
            schema = {**schema, "description": part}
    plain = _without_none(_without_descriptions(annotation))
    for number, recast in _NUMBERS.items():
        if plain is number:
            return DescribedType(adapter, schema, recast, None)
    convert = None if _json_gives(plain) else partial(_convert, adapter)
    return DescribedType(adapter, schema, None, convert)


def _convert(adapter: TypeAdapter[Any], value: Any) -> Any:
    try:
        return adapter.validate_python(value)
    except pydantic.ValidationError:
        # Strict types take a date or a tuple from JSON, but not from the text or list it becomes.
        try:
            return adapter.validate_json(msgspec.json.encode(value))
        except (pydantic.ValidationError, TypeError, ValueError):
            pass
        raise


def _json_gives(annotation: Any) -> bool:
    try:
        if annotation in _AS_THEY_ARE:
            return True
    except TypeError:
        return False
    if get_origin(annotation) is Literal:
        return all(type(option) in (str, bool, type(None)) for option in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return all(_json_gives(option) for option in get_args(annotation))
    return False


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return (
        cast("tuple[Any, ...]", annotation.__metadata__)
        if get_origin(annotation) is Annotated
        else ()
    )


def _without_descriptions(annotation: Any) -> Any:
    """Take off an Annotated that only describes; one with pydantic's metadata has to be applied."""
    metadata = _metadata(annotation)
    if metadata and all(isinstance(part, str) for part in metadata):
        return annotation.__origin__
    return annotation


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        options = [option for option in get_args(annotation) if option is not type(None)]
        if len(options) == 1:
            return options[0]
    return annotation
