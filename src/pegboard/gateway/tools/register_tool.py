"""register_tool and unregister_tool: add and remove tool definitions while the gateway runs."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio.to_thread
import msgspec

from pegboard.errors import (
    AccessDeniedError,
    InvalidArgumentsError,
    RevisionConflictError,
    ToolConflictError,
    Violation,
)
from pegboard.gateway.builtin_tool import OWN_NAMES, BuiltinTool, CallerContext, respond
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.request import object_in
from pegboard.gateway.tools.registration_quota import RegisteredTools
from pegboard.gateway.visibility import Visibility
from pegboard.model import Annotations, Tool
from pegboard.model.hidden_characters import visible_json
from pegboard.model.tool_names import MAX_LENGTH, legal_name
from pegboard.policies import may
from pegboard.registry import Registry

__all__ = ["register_tool", "unregister_tool"]

_NAME = {"type": "string", "minLength": 1, "maxLength": 512}
_FIELDS: dict[str, Any] = {
    "name": _NAME,
    "description": {"type": "string", "maxLength": 1000},
    "category": {"type": ["string", "null"], "maxLength": 200},
    "tags": {
        "type": ["array", "null"],
        "items": {"type": "string", "maxLength": 200},
        "maxItems": 100,
    },
    "input_schema": {"type": ["object", "null"]},
    "output_schema": {"type": ["object", "null"]},
    "mcp_server": {"type": ["string", "null"], "maxLength": 200},
}
_LISTED, _SHOWN = 5, 64
_LARGEST_SCHEMA = 32_000
_SCHEMAS = ("input_schema", "output_schema", "inputSchema", "outputSchema")
_COUNTED_HERE = ("defer_loading", "use_frequency", "last_used")
_TAKEN = frozenset({*_FIELDS, *_SCHEMAS, *_COUNTED_HERE})
_NAME_RULE = (
    f"must be 1 to {MAX_LENGTH} letters (a-z, A-Z), digits, `_` and `-`: models accept no others"
)

REGISTER = Tool(
    name="register_tool",
    description="Register the definition of a tool, so that searches find it; the gateway cannot "
    "run it. Give name and description, or the whole definition in tool_def. mcp_server names the "
    "server that has the tool.",
    input_schema={
        "type": "object",
        "properties": {
            **_FIELDS,
            "tool_def": {
                "type": "object",
                "properties": _FIELDS,
                "required": ["name", "description"],
                "additionalProperties": True,
            },
        },
        "additionalProperties": False,
    },
    annotations=Annotations(read_only=False, destructive=False, open_world=False),
)
UNREGISTER = Tool(
    name="unregister_tool",
    description="Remove a definition that was registered with register_tool.",
    input_schema={
        "type": "object",
        "properties": {"tool_name": _NAME},
        "required": ["tool_name"],
        "additionalProperties": False,
    },
    annotations=Annotations(read_only=False, destructive=True, open_world=False),
)


def register_tool(registry: Registry, registered: RegisteredTools) -> BuiltinTool:
    """Return the tool that registers others, within the limits of the tenant and the key."""

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        tool = _tool_of(arguments)
        if tool.name in OWN_NAMES:
            words = f"{tool.name!r} is a tool of the gateway itself"
            raise InvalidArgumentsError(REGISTER.name, [Violation("name", words)])
        if not may(caller.client.principal, "register", tool):
            raise _denied(tool.name)
        register = partial(_register, registry, tool, caller.visibility)
        subject = caller.client.principal.subject
        # In a thread: when this returns, the definition is on disk.
        async with registered.turn:
            await anyio.to_thread.run_sync(registered.add, tool, subject, register)
        words = (
            f"Registered {tool.name!r}; searches find it now. If a server offers a tool with this "
            "name, searches and calls use that tool instead while it is there."
        )
        return respond(words, {"name": tool.name})

    return BuiltinTool(REGISTER, run)


def unregister_tool(
    registry: Registry, tools: ToolList, registered: RegisteredTools
) -> BuiltinTool:
    """Return the tool that removes definitions."""

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        name = arguments["tool_name"]
        registering = caller.visibility.to("register")
        tool = tools.get(name, registering)
        if tool is None:
            remove = partial(_unregister_behind, registry, name, caller.visibility)
            async with registered.turn:
                is_removed = await anyio.to_thread.run_sync(registered.remove, name, remove)
            if is_removed:
                return respond(f"Unregistered {name!r}.", {"name": name})
            # Only now is it worth a search for similar names.
            tool = tools.find(name, registering)
        if not tools.is_definition(tool):
            words = f"{tool.name!r} was not registered with register_tool, so it cannot be removed"
            raise InvalidArgumentsError(UNREGISTER.name, [Violation("tool_name", words)])
        remove = partial(registry.unregister, tool.name)
        async with registered.turn:
            await anyio.to_thread.run_sync(registered.remove, tool.name, remove)
        return respond(f"Unregistered {tool.name!r}.", {"name": tool.name})

    return BuiltinTool(UNREGISTER, run)


def _register(registry: Registry, tool: Tool, visibility: Visibility) -> None:
    name = tool.name
    try:
        registry.register(tool)
    except ToolConflictError:
        if not _may_know(registry, name, visibility):
            _register_behind(registry, tool, visibility)
            return
        words = f"a tool named {name!r} already exists; unregister it first"
        if registry.runs(name):
            words = f"the gateway already runs a tool named {name!r}; choose another name"
        raise InvalidArgumentsError(REGISTER.name, [Violation("name", words)]) from None


def _may_know(registry: Registry, name: str, visibility: Visibility) -> bool:
    there = registry.get_many([name]).get(name)
    return there is None or visibility.sees(there) or visibility.to("register").sees(there)


def _register_behind(registry: Registry, tool: Tool, visibility: Visibility) -> None:
    """Store a definition behind a running tool that the caller may not see or learn of."""
    storage = registry.storage
    if storage is None or not registry.runs(tool.name):
        raise _denied(tool.name)
    try:
        storage.save_many([tool], expected=None)
    except RevisionConflictError:
        kept = storage.load([tool.name]).get(tool.name)
        if kept is not None and not visibility.to("register").sees(kept.tool):
            raise _denied(tool.name) from None
        words = f"a tool named {tool.name!r} already exists; unregister it first"
        raise InvalidArgumentsError(REGISTER.name, [Violation("name", words)]) from None


def _unregister_behind(registry: Registry, name: str, visibility: Visibility) -> bool:
    """Remove a definition that is stored behind a running tool that the caller may not see."""
    storage = registry.storage
    kept = None if storage is None or not registry.runs(name) else storage.load([name]).get(name)
    if storage is None or kept is None or not visibility.to("register").sees(kept.tool):
        return False
    storage.delete(name, expected=kept.revision)
    return True


def _denied(name: str) -> AccessDeniedError:
    return AccessDeniedError(f"This credential may not register {name!r}.", tool=name)


def _tool_of(arguments: Mapping[str, Any]) -> Tool:
    whole = object_in(arguments.get("tool_def"))
    given = {**arguments, **whole}
    problems = [
        Violation(name, "is required, here or in `tool_def`")
        for name in ("name", "description")
        if not given.get(name)
    ]
    if not problems and legal_name(given["name"], ("", "")) != given["name"]:
        problems = [Violation("name", _NAME_RULE)]
    problems += [
        Violation(name, "is not the same as in `tool_def`; give it once")
        for name in _FIELDS
        if None not in (arguments.get(name), whole.get(name)) and arguments[name] != whole[name]
    ]
    unknown = [repr(name[:_SHOWN]) for name in sorted(whole.keys() - _TAKEN)]
    if unknown:
        words = f"has no field {', '.join(unknown[:_LISTED])}; it takes {', '.join(_FIELDS)}"
        problems.append(Violation("tool_def", words))
    problems += [
        Violation(name, f"has more than {_LARGEST_SCHEMA} bytes")
        for name in _SCHEMAS
        if _size(given.get(name)) > _LARGEST_SCHEMA
    ]
    problems += [
        Violation(name, "must be an object")
        for name in _SCHEMAS
        if not isinstance(given.get(name), Mapping | None)
    ]
    if problems:
        raise InvalidArgumentsError(REGISTER.name, problems)
    # Other callers' models read it.
    given = visible_json(given)
    return Tool(
        name=given["name"],
        description=given["description"],
        input_schema=_schema(given, "input_schema", "inputSchema") or {},
        output_schema=_schema(given, "output_schema", "outputSchema"),
        category=given.get("category"),
        tags=tuple(given.get("tags") or ()),
        server=given.get("mcp_server") or None,
    )


def _size(schema: object) -> int:
    try:
        return len(msgspec.json.encode(schema))
    except ValueError:
        # Lone surrogates, which are refused later.
        return 0


def _schema(given: Mapping[str, Any], *names: str) -> Mapping[str, Any] | None:
    for name in names:
        value: object = given.get(name)
        if isinstance(value, Mapping):
            return object_in(value)  # pyright: ignore[reportUnknownArgumentType]
    return None
