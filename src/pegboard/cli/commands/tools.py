"""`pegboard tools`: list the tools."""

from collections.abc import Collection, Iterator
from typing import Any

import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.catalogue import Catalogue, Places, open_catalogue, tell_failures
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.terminal.output import show_table, warn, write_json
from pegboard.gateway.tool_lines import first_sentence
from pegboard.model import Tool
from pegboard.model.tool import category_of
from pegboard.model.tool_names import nearest_names

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
    """List the tools under the names that the gateway shows."""
    places = Places(config=config, store=store, alone=alone, refresh=refresh)
    with open_catalogue(places) as catalogue:
        tell_failures(catalogue, server)
        found = option.chosen(
            catalogue.tools.values(), servers=server, categories=category, tags=tag
        )
        if json:
            write_json([tool_as_json(tool) for tool in found])
        elif found:
            rows = [(it.name, category_of(it), first_sentence(it.description)) for it in found]
            show_table(("TOOL", "CATEGORY", "DESCRIPTION"), rows)
        near = [] if found else list(_near(catalogue, server or (), category or (), tag or ()))
    if not found:
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        is_chosen = server or category or tag
        warn(f"No tool matches.{hint}" if is_chosen else "There are no tools.")
        raise typer.Exit(NOT_FOUND)


def tool_as_json(tool: Tool) -> dict[str, Any]:
    """Return a tool as ``--json`` prints it: an array of objects.

    ``name``, ``description`` (its first sentence), ``server`` (null for a registered
    definition), ``category`` (if a tool has none: the name of its server, or ``other``) and
    ``tags``.
    """
    return {
        "name": tool.name,
        "description": first_sentence(tool.description),
        "server": tool.server,
        "category": category_of(tool),
        "tags": list(tool.tags),
    }


def _near(
    catalogue: Catalogue,
    servers: Collection[str],
    categories: Collection[str],
    tags: Collection[str],
) -> Iterator[str]:
    """Give what was meant, as it is typed, for each name that nothing has."""
    tools = catalogue.tools.values()
    there = {it.server for it in tools if it.server}
    for option_name, asked, known in (
        ("--server", servers, {*there, *catalogue.disabled(), *catalogue.failures()}),
        ("--category", categories, {category_of(it) for it in tools}),
        ("--tag", tags, {tag for it in tools for tag in it.tags}),
    ):
        for name in asked:
            if name not in known:
                yield from (f"`{option_name} {it}`" for it in nearest_names(name, known, limit=1))
