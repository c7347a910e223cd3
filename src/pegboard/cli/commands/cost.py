"""`pegboard cost`: the tokens that a model reads for each server and tool."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.catalogue import Catalogue, Places, open_catalogue, tell_failures
from pegboard.cli.terminal.output import room_beside, say, show_table, warn, write_json
from pegboard.cli.terminal.spinner import waiting
from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra
from pegboard.model.principal import ANONYMOUS, LOCAL
from pegboard.model.tool_names import name_matcher
from pegboard.search.budget import tokens_of

__all__ = ["Cost", "add_to", "counting", "estimated"]

_WIDEST = 30
_SHORTEST = 4
"""Shorter bars say nothing."""
_NUMBERS = ("TOOLS", "TOKENS", "SHARE")
_REGISTERED = "(registered)"
_ENCODING = "o200k_base"

Cost: TypeAlias = Callable[[object], int]
"""Returns the tokens of a definition as a client hands it to a model: JSON on one line."""


class _Tool(msgspec.Struct, frozen=True):
    name: str
    server: str | None
    tokens: int


class _Surface(msgspec.Struct, frozen=True):
    address: str
    what: str
    tools: int
    tokens: int


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
            tools = list(_tools(catalogue, cost_of))
            surfaces = list(_surfaces(config, tools, cost_of))
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


def cost_as_json(
    tools: Sequence[_Tool], surfaces: Sequence[_Surface], *, counted: bool
) -> dict[str, Any]:
    """Return all costs as ``--json`` prints them: one object.

    ``counted`` (false if tokens are estimated); ``servers`` (``server``, ``tools``,
    ``tokens``), ``tools`` (``name``, ``server``, ``tokens``; the largest first) and ``surfaces``
    (``address``, ``what``, ``tools``, ``tokens``: what a client loads there).
    """
    return {
        "counted": counted,
        "servers": [
            {"server": server, "tools": len(own), "tokens": sum(it.tokens for it in own)}
            for server, own in _by_server(tools).items()
        ],
        "tools": _largest_first(tools),
        "surfaces": surfaces,
    }


def estimated(definition: object) -> int:
    """Return about how many tokens a definition has, at four letters a token."""
    return tokens_of(_written(definition))


def counting() -> Cost:
    """Return what counts tokens with a tokenizer of OpenAI's; it takes seconds to load.

    Raises:
        ConfigError: when it is not installed.
    """
    try:
        with warnings.catch_warnings():
            # It reads its tables in a way that Python frowns at.
            warnings.simplefilter("ignore", DeprecationWarning)
            encoding: Any = import_module("bpe_openai").get_encoding(_ENCODING)
    except ImportError as error:
        raise ConfigError(
            f"Counting needs a tokenizer: `{install_extra('tokens')}`. Without `--count`, "
            "tokens are estimated."
        ) from error
    return lambda definition: len(encoding.encode_ordinary(_written(definition)))


def _tools(catalogue: Catalogue, cost_of: Cost) -> Iterator[_Tool]:
    for tool in catalogue.tools.values():
        yield _Tool(tool.name, tool.server, cost_of(catalogue.definition(tool)))


def _surfaces(config: str | None, tools: Sequence[_Tool], cost_of: Cost) -> Iterator[_Surface]:
    from pegboard.auth import load_auth_settings  # noqa: PLC0415 - slow to import
    from pegboard.cli.catalogue.gateway_tools import (  # noqa: PLC0415 - slow to import
        gateway_options,
        own_definitions,
    )

    options = gateway_options(config)
    http_caller = LOCAL if load_auth_settings(config).allow_register else ANONYMOUS
    is_pinned = name_matcher("pinned", options.pinned)
    pinned = [it.tokens for it in tools if options.pinned and is_pinned(it.name)]
    yield _Surface("/mcp-full", "all definitions", len(tools), sum(it.tokens for it in tools))
    for address, what, principal in (
        ("/mcp-search", "tools to find and call others", http_caller),
        ("--stdio", "also tools to register some", LOCAL),
    ):
        own = own_definitions(options, principal)
        tokens = sum(cost_of(it) for it in own) + sum(pinned)
        yield _Surface(address, what, len(own) + len(pinned), tokens)
    for server, theirs in _by_server(tools).items():
        if server is not None:
            tokens = sum(it.tokens for it in theirs)
            yield _Surface(f"/mcp-full/{server}", f"all of {server}", len(theirs), tokens)


def _by_server(tools: Sequence[_Tool]) -> Mapping[str | None, list[_Tool]]:
    found: dict[str | None, list[_Tool]] = {}
    for tool in tools:
        found.setdefault(tool.server, []).append(tool)
    return dict(sorted(found.items(), key=lambda it: -sum(tool.tokens for tool in it[1])))


def _largest_first(tools: Sequence[_Tool]) -> list[_Tool]:
    return sorted(tools, key=lambda it: (-it.tokens, it.name))


def _show(tools: Sequence[_Tool], surfaces: Sequence[_Surface], most: int) -> None:
    servers = {
        name or _REGISTERED: (len(own), sum(it.tokens for it in own))
        for name, own in _by_server(tools).items()
    }
    rows = [(name, f"{count:,}", f"{tokens:,}") for name, (count, tokens) in servers.items()]
    _with_bars(("SERVER", "TOOLS", "TOKENS"), rows, [tokens for _, tokens in servers.values()])
    shown = _largest_first(tools)[:most]
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


def _written(definition: object) -> str:
    return msgspec.json.encode(definition).decode()
