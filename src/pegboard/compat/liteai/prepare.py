"""LiteAI's `ToolDef` and `prepare_tools`: definitions for a model from functions and tools."""

import copy
import dataclasses
import enum
import inspect
import itertools
import logging
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import date, datetime, time
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import BaseModel

from pegboard.model import Tool

__all__ = [
    "TOOL_FLAG",
    "RawToolDef",
    "ToolDef",
    "ToolFn",
    "ToolLike",
    "enable_logging",
    "find_tool_by_name",
    "generate_tool_definition_from_callable",
    "generate_tool_definition_from_mcp_tool",
    "generate_tool_definition_from_raw_tool_def",
    "generate_tool_definition_from_tool_def",
    "prepare_tools",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

TOOL_FLAG = "__is_tool__"
"""The attribute that marks a function as a tool."""

ToolFn: TypeAlias = Callable[..., Any]
"""A tool as a function, synchronous or not."""

RawToolDef: TypeAlias = dict[str, Any]
"""A tool as a dict with ``name``, ``description`` and ``parameters``."""


@dataclasses.dataclass
class ToolDef:
    """The definition of a tool, and the function that runs it."""

    name: str
    description: str
    execute: ToolFn
    parameters: dict[str, Any] | None = None
    """The JSON Schema of the arguments; ``None`` takes it from the signature of ``execute``."""
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    @staticmethod
    def from_tool_fn(tool_fn: ToolFn) -> "ToolDef":
        """Return a definition with the name and the docstring of a function."""
        if tool_fn.__doc__ is None:
            logger.warning("no_docstring: a model is not told what %r does", tool_fn.__name__)
        return ToolDef(tool_fn.__name__, tool_fn.__doc__ or "", tool_fn)


ToolLike: TypeAlias = ToolDef | RawToolDef | ToolFn
"""Any item of a list of tools."""


def prepare_tools(tools: Sequence[ToolLike]) -> list[dict[str, Any]]:
    """Return the definitions of tools of any kind, in the form for a model.

    Raises:
        ValueError: when a function has no docstring.
    """
    listed = list(tools)
    plain = Counter(cast("Any", it).__name__ for it in listed if _has_plain_name(it))
    definitions = [_definition(tool) for tool in listed]
    for tool, definition in zip(listed, definitions, strict=True):
        # Two tools of one name would be one to a model; then each has its toolset's name, too.
        if _has_plain_name(tool) and plain[cast("Any", tool).__name__] == 1:
            definition["function"]["name"] = cast("Any", tool).__name__
    return definitions


def find_tool_by_name(tools: Sequence[ToolLike], name: str) -> ToolLike | None:
    """Return the first tool that a model calls by this name."""
    named = (tool for tool in tools if _name_of(tool) == name)
    plain = (it for it in tools if _has_plain_name(it) and cast("Any", it).__name__ == name)
    return next(itertools.chain(named, plain), None)


def generate_tool_definition_from_mcp_tool(mcp_tool: Any) -> dict[str, Any]:
    """Return the definition of a tool of a server, with the server's own schema."""
    words: str = mcp_tool.description or f"MCP tool: {mcp_tool.name}"
    return _function(mcp_tool.name, words, _schema_of(mcp_tool))


def generate_tool_definition_from_callable(func: ToolFn) -> dict[str, Any]:
    """Return a definition made from the signature and docstring of a function.

    Raises:
        ValueError: when it has no docstring.
    """
    own: object = getattr(func, "definition", None)
    if isinstance(own, Tool):
        return _function(own.name, own.description, dict(own.input_schema))
    if not func.__doc__:
        raise ValueError(f"Function {func.__name__!r} must have a docstring.")
    parameters = _parameters_of(func)
    return _function(func.__name__, inspect.cleandoc(func.__doc__), parameters)


def generate_tool_definition_from_tool_def(tool_def: ToolDef) -> dict[str, Any]:
    """Return the definition of a `ToolDef`, its parameters from ``execute`` if it states none."""
    from_signature = _parameters_of(tool_def.execute)
    return _function(tool_def.name, tool_def.description, tool_def.parameters or from_signature)


def generate_tool_definition_from_raw_tool_def(raw_tool_def: RawToolDef) -> dict[str, Any]:
    """Return the definition of a tool that is a dict already."""
    return {"type": "function", "function": raw_tool_def}


def enable_logging(level: int = logging.INFO) -> None:
    """Write what this package logs, from this level on, to stderr."""
    logger.setLevel(level)
    if not any(isinstance(it, logging.StreamHandler) for it in logger.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s - %(name)s - %(message)s"))
        logger.addHandler(handler)


def _definition(tool: Any) -> dict[str, Any]:
    if isinstance(tool, ToolDef):
        return generate_tool_definition_from_tool_def(tool)
    if hasattr(tool, "_mcp_tool"):
        return generate_tool_definition_from_mcp_tool(tool._mcp_tool)
    if callable(tool):
        return generate_tool_definition_from_callable(tool)
    return generate_tool_definition_from_raw_tool_def(tool)


def _has_plain_name(tool: Any) -> bool:
    """Tell whether a model is given the name of the function, as the document says."""
    if isinstance(tool, ToolDef):
        return tool.name == getattr(tool, "namespaced_name", None)
    return hasattr(tool, "_mcp_tool")


def _name_of(tool: Any) -> object:
    if isinstance(tool, ToolDef):
        return tool.name
    if callable(tool):
        return cast("Any", tool).__name__
    return cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None


def _schema_of(mcp_tool: Any) -> dict[str, Any]:
    # SDK 1.x has the one, SDK 2.x the other.
    return mcp_tool.inputSchema if hasattr(mcp_tool, "inputSchema") else mcp_tool.input_schema


def _function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _parameters_of(function: ToolFn) -> dict[str, Any]:
    signature, hints = inspect.signature(function), get_type_hints(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind = hints.get(name, str)
        words = f"Parameter {name} of type {getattr(kind, '__name__', str(kind))}"
        properties[name] = {**_python_type_to_json_schema(kind), "description": words}
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


_PLAIN: dict[Any, dict[str, Any]] = {
    Any: {"type": "string"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    list: {"type": "array", "items": {"type": "string"}},
    dict: {"type": "object", "additionalProperties": {"type": "string"}},
}


def _python_type_to_json_schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a type; a type that says nothing to a model is a string."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if kind in _PLAIN:
        return copy.deepcopy(_PLAIN[kind])
    if (origin := get_origin(kind)) is not None:
        return _generic_schema(origin, get_args(kind))
    return _class_schema(kind) if isinstance(kind, type) else {"type": "string"}


def _generic_schema(origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    if origin is Literal:
        return _literal_schema(args)
    if origin in (list, Sequence, set, frozenset):
        items = _python_type_to_json_schema(args[0] if args else Any)
        unique = {"uniqueItems": True} if issubclass(origin, Set) else {}
        return {"type": "array", "items": items, **unique}
    if origin is tuple:
        return _tuple_schema(args)
    if origin in (dict, Mapping):
        values = _python_type_to_json_schema(args[1] if len(args) > 1 else Any)
        return {"type": "object", "additionalProperties": values}
    if origin in (Union, types.UnionType):
        schemas = [_python_type_to_json_schema(it) for it in args if it is not types.NoneType]
        return schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    return {"type": "string"}


def _tuple_schema(args: tuple[Any, ...]) -> dict[str, Any]:
    if not args or args[1:] == (...,):
        items = _python_type_to_json_schema(args[0] if args else Any)
        return {"type": "array", "items": items}
    items = [_python_type_to_json_schema(it) for it in args]
    return {"type": "array", "prefixItems": items, "minItems": len(args), "maxItems": len(args)}


def _literal_schema(values: tuple[Any, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = {"enum": list(values)}
    if all(isinstance(it, bool) for it in values):
        schema["type"] = "boolean"
    elif not any(isinstance(it, bool) for it in values):
        kinds = ((str, "string"), (int, "integer"), (int | float, "number"))
        names = [name for kind, name in kinds if all(isinstance(it, kind) for it in values)]
        schema |= {"type": names[0]} if names else {}
    return schema


def _class_schema(kind: Any) -> dict[str, Any]:
    if issubclass(kind, enum.Enum):
        return _enum_schema([it.value for it in kind])
    if is_typeddict(kind):
        needed: frozenset[str] = kind.__required_keys__
        return _object_schema(
            (name, it, name in needed) for name, it in kind.__annotations__.items()
        )
    if dataclasses.is_dataclass(kind):
        hints, missing = get_type_hints(kind), dataclasses.MISSING
        return _object_schema(
            (it.name, hints.get(it.name, Any), it.default is it.default_factory is missing)
            for it in dataclasses.fields(kind)
        )
    if issubclass(kind, BaseModel):
        hints = get_type_hints(kind)
        return _object_schema(
            (name, hints.get(name, Any), it.is_required()) for name, it in kind.model_fields.items()
        )
    return {"type": "string"}


def _enum_schema(values: list[Any]) -> dict[str, Any]:
    kinds: set[Any] = {type(it) for it in values}
    schema: dict[str, Any] = {"enum": values}
    if kinds <= {int, float}:
        schema["type"] = "integer" if kinds == {int} else "number"
    elif kinds in ({str}, {bool}):
        schema["type"] = "string" if kinds == {str} else "boolean"
    return schema


def _object_schema(fields: Iterable[tuple[str, Any, bool]]) -> dict[str, Any]:
    """Return the schema of an object from the name and type of each field, and if it is needed."""
    known = list(fields)
    required = [name for name, _, needed in known if needed]
    return {
        "type": "object",
        "properties": {name: _python_type_to_json_schema(kind) for name, kind, _ in known},
        **({"required": required} if required else {}),
    }
