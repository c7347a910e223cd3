"""`pegboard search`: find tools by what they do."""

import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Annotated, Any

import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.catalogue import Places, open_catalogue, tell_failures
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.terminal.output import result_console, say, warn, write_json
from pegboard.errors import ConfigError
from pegboard.gateway.tool_lines import first_sentence, signature
from pegboard.model import Tool
from pegboard.model.tool import category_of
from pegboard.search.options import SearchOptions, query_of
from pegboard.search.searcher import Hit, SearchResponse

__all__ = ["add_to"]

_INDENT = " " * 7


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("search")(search)


def search(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What the tool should do, in your own words.")
    ],
    *,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="hybrid, bm25, embedding, regex, or a plug-in.")
    ] = "hybrid",
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of tools.")] = 5,
    server: option.Servers = None,
    category: option.Categories = None,
    tag: option.Tags = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each part of the ranking contributed.")
    ] = False,
    catalog: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Search the tools of this file instead of your servers': one JSON object a line, "
            "with name, description, input_schema, … Can be repeated.",
        ),
    ] = None,
    config: option.Config = None,
    store: option.StoreUrl = None,
    alone: option.Alone = False,
    refresh: option.Refresh = False,
    json: option.Json = False,
) -> None:
    """Find tools by what they do."""
    options: SearchOptions = {
        "method": method,
        "limit": limit,
        "servers": server or [],
        "categories": category or [],
        "tags": tag or [],
        "explain": explain,
    }
    # A wrong query is reported before a server is started for it.
    query_of(text, options)
    if catalog:
        _finish(_search_files(catalog, text, options), json=json)
        return
    places = Places(config=config, store=store, alone=alone, refresh=refresh)
    with open_catalogue(places) as catalogue:
        tell_failures(catalogue)
        _finish(catalogue.search(text, options), json=json)


def hit_as_json(hit: Hit) -> dict[str, Any]:
    """Return a hit as ``--json`` prints it: an array of objects.

    ``name``, ``signature``, ``description`` (its first sentence), ``server``, ``category`` and
    ``tags`` of the tool; ``confidence`` (0 to 1: how likely it does what was asked), ``score``
    (larger is better, within one answer), ``matches`` (``field``, ``words``), and with
    ``--explain`` ``parts`` (what each part of the ranking gave to the score), else null.
    """
    tool = hit.tool
    return {
        "name": tool.name,
        "signature": signature(tool),
        "description": first_sentence(tool.description),
        "server": tool.server,
        "category": category_of(tool),
        "tags": list(tool.tags),
        "confidence": hit.confidence,
        "score": hit.score,
        "matches": [{"field": it.field, "words": list(it.words)} for it in hit.matches],
        "parts": None if hit.parts is None else dict(hit.parts),
    }


def _finish(answer: SearchResponse, *, json: bool) -> None:
    if json:
        write_json([hit_as_json(hit) for hit in answer.hits])
    else:
        for hit, confidence in zip(answer.hits, _falling(answer.hits), strict=True):
            _show(hit, confidence)
    sys.stdout.flush()
    if not answer.hits:
        # A hint is `server: notes`.
        named = ", ".join(it.replace(": ", " ", 1) for it in answer.hints)
        nearby = f" Nearby: {named}." if named else ""
        warn(f"No tool matches.{nearby}")
        raise typer.Exit(NOT_FOUND)


def _falling(hits: Sequence[Hit]) -> Iterator[float]:
    """Give the confidence of each hit, never above the one before, as people expect of an order."""
    return accumulate((hit.confidence for hit in hits), min)


def _show(hit: Hit, confidence: float) -> None:
    where = f" ({hit.tool.server})" if hit.tool.server else ""
    if sys.stdout.isatty():
        from rich.text import Text  # noqa: PLC0415 - only where a person looks

        line = Text.assemble(f"{confidence:5.0%}  ", (hit.tool.name, "bold"), (where, "dim"))
        result_console().print(line, soft_wrap=True)
    else:
        say(f"{confidence:5.0%}  {hit.tool.name}{where}")
    for line in _details(hit):
        say(f"{_INDENT}{line}")


def _details(hit: Hit) -> Iterator[str]:
    yield first_sentence(hit.tool.description) or "(no description)"
    reasons = [
        f"{it.field} ({', '.join(it.words)})" if it.words else it.field for it in hit.matches
    ]
    if reasons:
        yield f"found by {', '.join(reasons)}"
    if hit.parts:
        parts = (f"{part} {share:.3f}" for part, share in hit.parts.items())
        yield f"score {hit.score:.3f} = {', '.join(parts)}"


def _search_files(files: Sequence[str], text: str, options: SearchOptions) -> SearchResponse:
    from pegboard.search.engine import DEFAULT_METHOD, SearchEngine  # noqa: PLC0415 - the same
    from pegboard.search.evaluation import Definitions  # noqa: PLC0415 - only for files

    definitions = Definitions(_tools_in(files))
    engine = SearchEngine(lambda: definitions, once=True)
    return engine.search(query_of(text, options), method=options.get("method", DEFAULT_METHOD))


def _tools_in(files: Sequence[str]) -> tuple[Tool, ...]:
    from pegboard.search.evaluation import read_tools  # noqa: PLC0415 - only for files

    try:
        return read_tools(*files)
    except ConfigError as error:
        if error.line is None:
            raise
        # Most likely it is a whole JSON document, such as an mcp.json.
        problem = (
            f"{error.problem} Each line of a catalogue is one tool as a JSON object; the servers "
            "of an mcp.json are searched with `--config`."
        )
        raise ConfigError(problem, path=error.path, line=error.line) from error
