"""`pegboard show`: everything about one tool."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.catalogue import Catalogue, Places, find_tool, open_catalogue
from pegboard.cli.terminal.output import say, show_table, write_json
from pegboard.errors import ConfigError
from pegboard.gateway.tool_lines import signature, type_name
from pegboard.model import Tool
from pegboard.model.json_values import object_in
from pegboard.model.tool import category_of
from pegboard.reports.cost import estimated

__all__ = ["add_to"]

Dialect: TypeAlias = Literal["mcp", "openai", "anthropic", "gemini"]
"""The format of a definition: the protocol's, or that of a model provider."""


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("show")(show)


def show(
    tool: Annotated[
        str,
        typer.Argument(metavar="TOOL", help="Name of the tool, or its end if only one has it."),
    ],
    *,
    dialect: Annotated[
        Dialect | None,
        typer.Option(help="Print only the definition, in the format of this protocol or provider."),
    ] = None,
    config: option.Config = None,
    store: option.StoreUrl = None,
    alone: option.Alone = False,
    refresh: option.Refresh = False,
    json: option.Json = False,
) -> None:
    """Show one tool: its description, arguments, definition and token cost."""
    places = Places(config=config, store=store, alone=alone, refresh=refresh, wanted=tool)
    with open_catalogue(places) as catalogue:
        found = find_tool(catalogue, tool, or_only_match=True)
        if dialect is not None:
            write_json(_in_dialect(catalogue, found, dialect))
        elif json:
            write_json(tool_as_json(catalogue, found))
        else:
            _show(catalogue, found)


def tool_as_json(catalogue: Catalogue, tool: Tool) -> dict[str, Any]:
    """Return a tool as ``--json`` prints it: one object.

    ``name``, ``signature``, ``description`` (all of it), ``server``, ``category``, ``tags``;
    ``definition`` (as MCP clients see it) and ``tokens`` (of that definition, estimated;
    `pegboard cost --count` counts them).
    """
    definition = catalogue.definition(tool)
    return {
        "name": tool.name,
        "signature": signature(tool),
        "description": tool.description,
        "server": tool.server,
        "category": category_of(tool),
        "tags": list(tool.tags),
        "definition": definition,
        "tokens": estimated(definition),
    }


def _in_dialect(catalogue: Catalogue, tool: Tool, dialect: Dialect) -> dict[str, Any]:
    if dialect == "mcp":
        return catalogue.definition(tool)
    from pegboard.registry import Registry  # noqa: PLC0415 - only for providers
    from pegboard.toolsets import Toolset  # noqa: PLC0415 - the same

    registry = Registry()
    registry.register(tool)
    view = Toolset(registry)
    match dialect:
        case "openai":
            written = view.openai()
        case "anthropic":
            written = view.anthropic()
        case "gemini":
            written = view.gemini()
    if not written:
        reason = next(iter(view.skipped.values()), "it has no equivalent there")
        raise ConfigError(f"Tool {tool.name!r} cannot be converted for {dialect}: {reason}.")
    return written[0]


def _show(catalogue: Catalogue, tool: Tool) -> None:
    definition = catalogue.definition(tool)
    say(signature(tool))
    if tool.description:
        say()
        say(tool.description.strip())
    say()
    for label, value in _facts(tool, estimated(definition)):
        say(f"{label:<10} {value}")
    rows = list(_parameters(tool.input_schema))
    if rows:
        say()
        show_table(("ARGUMENT", "TYPE", "", "DESCRIPTION"), rows)
    for label, field in (("Input schema:", "inputSchema"), ("Output schema:", "outputSchema")):
        if field in definition:
            written = msgspec.json.format(msgspec.json.encode(definition[field]), indent=2)
            say(f"\n{label}\n{written.decode()}")


def _facts(tool: Tool, tokens: int) -> Iterator[tuple[str, str]]:
    if tool.annotations.title:
        yield "title", tool.annotations.title
    yield "server", tool.server or "none (a registered definition)"
    yield "category", category_of(tool)
    if tool.tags:
        yield "tags", ", ".join(tool.tags)
    hints = {
        "read-only": tool.annotations.read_only,
        "destructive": tool.annotations.destructive,
        "idempotent": tool.annotations.idempotent,
        "open world": tool.annotations.open_world,
    }
    said = [name if value else f"not {name}" for name, value in hints.items() if value is not None]
    if said:
        yield "hints", ", ".join(said)
    yield "cost", f"about {tokens:,} tokens if a client loads the whole definition"


def _parameters(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    needed: Any = schema.get("required")
    required = cast("Sequence[object]", needed) if isinstance(needed, list | tuple) else ()
    for name, part in object_in(schema.get("properties")).items():
        about = object_in(part)
        words = str(about.get("description") or about.get("title") or "")
        mark = "required" if name in required else _default(about)
        yield name, type_name(part, schema), mark, words


def _default(schema: Mapping[str, Any]) -> str:
    if schema.get("default") is None:
        return ""
    return f"= {msgspec.json.encode(schema['default']).decode()}"
