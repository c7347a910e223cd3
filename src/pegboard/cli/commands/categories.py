"""`pegboard categories`: list the categories of the tools."""

from typing import Any

import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.catalogue import Places, open_catalogue, tell_failures
from pegboard.cli.terminal.output import show_table, write_json
from pegboard.model.tool import categories_of

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("categories")(categories)


def categories(
    *,
    config: option.Config = None,
    store: option.StoreUrl = None,
    alone: option.Alone = False,
    refresh: option.Refresh = False,
    json: option.Json = False,
) -> None:
    """List the categories of the tools; tools without one are under the name of their server."""
    places = Places(config=config, store=store, alone=alone, refresh=refresh)
    with open_catalogue(places) as catalogue:
        tell_failures(catalogue)
        counts = categories_of(catalogue.tools.values())
    if json:
        write_json([category_as_json(name, count) for name, count in counts.items()])
        return
    rows = [(name, f"{count:,}") for name, count in counts.items()]
    show_table(("CATEGORY", "TOOLS"), rows, right=["TOOLS"])


def category_as_json(name: str, tools: int) -> dict[str, Any]:
    """Return a category as ``--json`` has it: the listing is an array of these.

    ``category`` (of tools that have none: the name of their server, or ``other``) and ``tools``
    (how many it has).
    """
    return {"category": name, "tools": tools}
