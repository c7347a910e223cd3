"""The page with the tools that the gateway itself has for models."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.passthrough.resources import OwnResources
from pegboard.gateway.tools import (
    call_tool,
    get_skill,
    get_tool_definition,
    list_tools_by_category,
    read_result,
    register_tool,
    search_tools,
)
from pegboard.model import Tool
from pegboard.model.tool import definition_of
from pegboard.policies.access import IMPLIED, METHODS
from pegboard.registry import Registry
from scripts.struct_tables import table

__all__ = ["DEFINITIONS", "page"]

DEFINITIONS: tuple[Tool, ...] = (
    search_tools.DEFINITION,
    get_tool_definition.DEFINITION,
    get_skill.DEFINITION,
    list_tools_by_category.DEFINITION,
    register_tool.REGISTER,
    register_tool.UNREGISTER,
    call_tool.DEFINITION,
    read_result.DEFINITION,
)
"""In the order in which they are listed."""

_OPENING = """# Tools of the gateway

<!-- Made by `python -m scripts.reference` out of the code: change it there. -->

What a model sees on the `search` surface, exactly as `tools/list` says it. `get_skill` is listed
only where there are [skills](../guides/skills.md). How they are used:
[What clients of the gateway see](../guides/gateway.md). A credential is shown those that its scopes
allow. A client over HTTP without a credential has every scope but `register`, which
`pegboard serve --allow-register` adds.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [_OPENING, _overview()]
    parts += [_section(tool) for tool in DEFINITIONS]
    parts += ["## Resources\n", _resources(), ""]
    return "\n".join(parts)


def _overview() -> str:
    rows = [(f"[`{it.name}`](#{it.name})", f"`{METHODS[it.name]}`") for it in DEFINITIONS]
    implied = "; ".join(
        f"`{action}` by {', '.join(f'`{it}`' for it in sorted(scopes))}"
        for action, scopes in IMPLIED.items()
    )
    return f"{table(rows, 'Tool', 'Scope that it needs')}\n\nA scope is granted: {implied}.\n"


def _section(tool: Tool) -> str:
    definition = msgspec.to_builtins(definition_of(tool))
    schema: Mapping[str, Any] = definition["inputSchema"]
    required = schema.get("required", [])
    rows = [
        (f"`{name}`", _type(it), _default(name, it, required), _meaning(it))
        for name, it in schema["properties"].items()
    ]
    hints = definition.get("annotations", {}).items()
    said = ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in hints)
    return "\n".join(
        [
            f"## `{tool.name}`\n",
            f"{tool.description}\n",
            table(rows, "Argument", "What it holds", "Default", "Meaning"),
            f"\nHints: {said}.\n" if said else "",
            "```json",
            json.dumps(schema, indent=2),
            "```\n",
        ]
    )


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{it}`" for it in schema["enum"])
    kinds: str | list[str] = schema["type"]
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _default(name: str, schema: Mapping[str, Any], required: list[str]) -> str:
    if name in required:
        return "required"
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def _meaning(schema: Mapping[str, Any]) -> str:
    limits = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "maxLength": "at most {} characters",
        "maxItems": "at most {} items",
    }
    said = ", ".join(words.format(schema[it]) for it, words in limits.items() if it in schema)
    limit = f"{said.capitalize()}." if said else ""
    return " ".join(it for it in (schema.get("description", ""), limit) if it)


def _resources() -> str:
    registry = Registry()
    tools = ToolList(registry, lambda _: None)
    rows = [(f"`{it['uri']}`", it["description"]) for it in OwnResources(registry, tools).items]
    tools.close()
    return table(rows, "Resource", "What it says")
