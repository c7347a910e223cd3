"""Definitions as the protocol writes them."""

from collections.abc import Mapping
from typing import Any

from pegboard.model.tool import Tool

__all__ = ["Definition", "definition_of"]

Definition = dict[str, Any]
"""A tool as the protocol writes it."""


def definition_of(tool: Tool, raw: Mapping[str, Any] | None = None) -> Definition:
    """Return a tool as the protocol writes it, with all that its server said of it."""
    schema = tool.input_schema
    if schema.get("type") != "object":
        # What the protocol wants to see there, whatever the server left out.
        schema = {**schema, "type": "object"}
    if raw is not None:
        return {**raw, "name": tool.name, "inputSchema": schema}
    hints = tool.annotations
    definition: Definition = {"name": tool.name}
    if hints.title is not None:
        definition["title"] = hints.title
    definition["description"] = tool.description
    definition["inputSchema"] = schema
    if tool.output_schema is not None:
        definition["outputSchema"] = tool.output_schema
    said = {
        "readOnlyHint": hints.read_only,
        "destructiveHint": hints.destructive,
        "idempotentHint": hints.idempotent,
        "openWorldHint": hints.open_world,
    }
    said = {key: value for key, value in said.items() if value is not None}
    if said:
        definition["annotations"] = said
    return definition
