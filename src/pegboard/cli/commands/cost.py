"""`pegboard cost`: the tokens that a model reads for each server and tool."""

from collections.abc import Sequence
from typing import Annotated

import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.catalogue import Places, open_catalogue, tell_failures
from pegboard.cli.terminal.output import room_beside, say, show_table, warn, write_json
from pegboard.cli.terminal.spinner import waiting
from pegboard.model.principal import ANONYMOUS, LOCAL
from pegboard.reports.cost import (
    Cost,
    SurfaceCost,
    ToolCost,
    by_server,
    cost_as_json,
    counting,
    estimated,
    largest_first,
    surface_costs,
    tool_costs,
)

__all__ = ["add_to"]

_WIDEST = 30
_SHORTEST = 4
"""Shorter bars say nothing."""
_NUMBERS = ("TOOLS", "TOKENS", "SHARE")
_REGISTERED = "(registered)"


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("cost")(cost)


def cost(
    *,
    most: Annotated[
        int, typer.Option("--tools", metavar="N", min=0, help="Number of tools to list.")
    ] = 10,
    count: Annotated[
        bool,
        typer.Option(
            "--count", help="Count with a tokenizer (needs pegboard[tokens]), which takes seconds."
        ),
    ] = False,
    config: option.Config = None,
    store: option.StoreUrl = None,
    alone: option.Alone = False,
    refresh: option.Refresh = False,
    json: option.Json = False,
) -> None:
    """Count the tokens that a model reads for each server and tool, and at each address."""
    places = Places(config=config, store=store, alone=alone, refresh=refresh)
    with open_catalogue(places) as catalogue:
        tell_failures(catalogue)
        with waiting("Counting tokens"):
            cost_of = counting() if count else estimated
            definitions = ((it, catalogue.definition(it)) for it in catalogue.tools.values())
            tools = tool_costs(definitions, cost_of)
            surfaces = _surfaces(config, tools, cost_of)
    if json:
        write_json(cost_as_json(tools, surfaces, counted=count))
        return
    _show(tools, surfaces, most)
    if count:
        warn("Counted with the tokenizer o200k; the tokenizers of other models differ a little.")
    else:
        warn("Estimated at four characters a token; `--count` counts with a tokenizer.")
    if 0 < surfaces[0].tokens < surfaces[1].tokens:
        warn("With so few tools, `pegboard serve --surface full` costs less than search.")


def _surfaces(config: str | None, tools: Sequence[ToolCost], cost_of: Cost) -> list[SurfaceCost]:
    from pegboard.auth import load_auth_settings  # noqa: PLC0415 - slow to import
    from pegboard.cli.catalogue.gateway_tools import (  # noqa: PLC0415 - slow to import
        gateway_options,
        own_definitions,
    )

    options = gateway_options(config)
    http_caller = LOCAL if load_auth_settings(config).allow_register else ANONYMOUS
    lists = (
        ("/mcp-search", "tools to find and call others", own_definitions(options, http_caller)),
        ("--stdio", "also tools to register some", own_definitions(options, LOCAL)),
    )
    return list(surface_costs(tools, lists, pinned=options.pinned, cost_of=cost_of))


def _show(tools: Sequence[ToolCost], surfaces: Sequence[SurfaceCost], most: int) -> None:
    servers = {
        name or _REGISTERED: (len(own), sum(it.tokens for it in own))
        for name, own in by_server(tools).items()
    }
    rows = [(name, f"{count:,}", f"{tokens:,}") for name, (count, tokens) in servers.items()]
    _with_bars(("SERVER", "TOOLS", "TOKENS"), rows, [tokens for _, tokens in servers.values()])
    shown = largest_first(tools)[:most]
    if shown:
        say()
        heading = "LARGEST TOOL" if len(shown) < len(tools) else "TOOL"
        rows = [(it.name, f"{it.tokens:,}") for it in shown]
        _with_bars((heading, "TOKENS"), rows, [it.tokens for it in shown])
    say()
    compared = surfaces[:3]
    rows = [
        (it.address, it.what, f"{it.tokens:,}", _share(it.tokens, surfaces[0].tokens))
        for it in compared
    ]
    columns = ("ADDRESS", "WHAT A CLIENT LOADS", "TOKENS", "SHARE")
    _with_bars(columns, rows, [it.tokens for it in compared])


def _with_bars(
    columns: Sequence[str], rows: Sequence[Sequence[str]], amounts: Sequence[int]
) -> None:
    """Print a table with a bar for each row, as long as there is room beside the words."""
    room = room_beside((*columns, ""), [(*row, "") for row in rows])
    longest = _WIDEST if room is None else min(room, _WIDEST)
    if longest >= _SHORTEST:
        columns = (*columns, "")
        most = max(amounts, default=0)
        bars = [_bar(it, most, longest) for it in amounts]
        rows = [(*row, bar) for row, bar in zip(rows, bars, strict=True)]
    show_table(columns, rows, right=_NUMBERS)


def _bar(tokens: int, most: int, longest: int) -> str:
    return "█" * max(1, round(longest * tokens / most)) if tokens and most else ""


def _share(tokens: int, whole: int) -> str:
    return f"{tokens / whole:.0%}" if whole else ""
