"""Tool: the definition of a tool, its annotations and category, and the change of a catalogue."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model.json_values import FrozenDict, freeze
from pegboard.model.tool_names import check_name

__all__ = [
    "Annotations",
    "CatalogChange",
    "DefinedTool",
    "Definition",
    "Tool",
    "categories_of",
    "category_of",
    "definition_of",
]


_UNCATEGORIZED = "other"


class Annotations(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Hints about a tool's behaviour; ``None`` means that its author did not say."""

    title: str | None = None
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    destructive: bool | None = msgspec.field(default=None, name="destructiveHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")
    open_world: bool | None = msgspec.field(default=None, name="openWorldHint")


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The definition of a tool. Its name is its key; schemas are frozen copies."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = msgspec.field(default_factory=FrozenDict)
    output_schema: Mapping[str, Any] | None = None
    annotations: Annotations = Annotations()
    server: str | None = None
    """The upstream server it comes from; ``None`` for a tool of this process."""
    tags: tuple[str, ...] = ()
    category: str | None = None
    defer_loading: bool = False
    """True when a client should load the definition only after finding it by search."""
    app_only: bool = False
    """True for a tool that only the app of its server calls (MCP Apps): no model is offered it."""

    def __post_init__(self) -> None:
        fix = msgspec.structs.force_setattr
        fix(self, "name", check_name(self.name))
        fix(self, "input_schema", _frozen_schema(self.name, "input_schema", self.input_schema))
        if self.output_schema is not None:
            fix(
                self,
                "output_schema",
                _frozen_schema(self.name, "output_schema", self.output_schema),
            )
        fix(self, "tags", _strings(self.name, self.tags))
        for field, kind in _KINDS.items():
            value = getattr(self, field)
            if not isinstance(value, kind):
                wanted = getattr(kind, "__name__", kind)
                raise InvalidToolError(
                    f"The {field} of tool {self.name!r} must be of type {wanted}, "
                    f"not {type(value).__name__!r}."
                )

    def __hash__(self) -> int:
        return hash(self.name)


class DefinedTool:
    """A callable tool, with the parts of its definition that a program asks for most."""

    definition: Tool
    """The whole definition, with tags, server and annotations."""

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.definition.name

    @property
    def description(self) -> str:
        """What the tool does, in the words of its author."""
        return self.definition.description

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return self.definition.input_schema


class CatalogChange(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that one step added to a catalogue, redefined or removed."""

    revision: int
    """Grows by one with each change; a subscriber sees every revision, in order."""
    added: tuple[Tool, ...] = ()
    changed: tuple[Tool, ...] = ()
    removed: tuple[Tool, ...] = ()


Definition = dict[str, Any]
"""A tool as the protocol writes it."""


def category_of(tool: Tool) -> str:
    """Return the category of a tool, or else the name of its server."""
    return tool.category or tool.server or _UNCATEGORIZED


def categories_of(tools: Iterable[Tool]) -> dict[str, int]:
    """Return how many tools each category has, sorted by category."""
    return dict(sorted(Counter(category_of(tool) for tool in tools).items()))


def definition_of(tool: Tool, raw: Mapping[str, Any] | None = None) -> Definition:
    """Return a tool as the protocol writes it, with every field that its server sent."""
    schema = tool.input_schema
    if schema.get("type") != "object":
        # The protocol requires it, even if the server left it out.
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


_KINDS = {
    "description": str,
    "annotations": Annotations,
    "server": str | None,
    "category": str | None,
    "defer_loading": bool,
    "app_only": bool,
}


def _frozen_schema(name: str, field: str, schema: object) -> FrozenDict:
    if not isinstance(schema, Mapping):
        raise InvalidToolError(
            f"The {field} of tool {name!r} must be a JSON Schema object (a dict), "
            f"not {type(schema).__name__!r}."
        )
    try:
        return freeze(cast("Mapping[str, Any]", schema))
    except RecursionError:
        raise InvalidToolError(f"The {field} of tool {name!r} is nested too deeply.") from None


def _strings(name: str, tags: Iterable[object]) -> tuple[str, ...]:
    found = () if isinstance(tags, str) else tuple(tags)
    strings = tuple(tag for tag in found if isinstance(tag, str))
    if isinstance(tags, str) or len(strings) != len(found):
        raise InvalidToolError(f"The tags of tool {name!r} must be a sequence of strings.")
    return strings
