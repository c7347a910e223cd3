"""`pegboard tools`: list the tools."""

from typing import Any

import typer

from pegboard.cli import tool_options as option
from pegboard.cli.catalogue import Places, open_catalogue
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.output import show_table, warn, write_json
from pegboard.gateway.signatures import first_sentence
from pegboard.model import Tool
from pegboard.model.categories import category_of

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("tools")(tools)


def tools(
    *,
    server: option.Servers = None,
    category: option.Categories = None,
    tag: option.Tags = None,
    config: option.Config = None,
    store: option.StoreUrl = None,
    alone: option.Alone = False,
    refresh: option.Refresh = False,
    json: option.Json = False,
) -> None:
    """List the tools, under the names that the gateway shows."""
    places = Places(config=config, store=store, alone=alone, refresh=refresh)
    with open_catalogue(places) as catalogue:
        found = option.chosen(
            catalogue.tools.values(), servers=server, categories=category, tags=tag
        )
        if json:
            write_json([tool_as_json(tool) for tool in found])
        elif found:
            rows = [(it.name, category_of(it), first_sentence(it.description)) for it in found]
            show_table(("TOOL", "CATEGORY", "WHAT IT DOES"), rows)
    if not found:
        warn("There are no such tools." if server or category or tag else "There are no tools.")
        raise typer.Exit(NOT_FOUND)


def tool_as_json(tool: Tool) -> dict[str, Any]:
    """Return a tool as ``--json`` has it: the listing is an array of these.

    ``name``, ``description`` (its first sentence), ``server`` (null for a definition that was
    registered), ``category`` (of a tool that has none: the name of its server, or ``other``) and
    ``tags``.
    """
    return {
        "name": tool.name,
        "description": first_sentence(tool.description),
        "server": tool.server,
        "category": category_of(tool),
        "tags": list(tool.tags),
    }
