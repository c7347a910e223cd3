"""`pegboard categories`: list the tool categories."""

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
    """List the tool categories; a tool without one belongs to the category of its server's name."""
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
    """Return a category as ``--json`` prints it: an array of objects.

    ``category`` (for tools that have none: the name of their server, or ``other``) and ``tools``
    (the number of its tools).
    """
    return {"category": name, "tools": tools}
