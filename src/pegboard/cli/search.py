"""`pegboard search`: find tools in files of definitions."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pegboard.cli.wording import sentence
from pegboard.errors import ConfigError
from pegboard.model import Tool
from pegboard.search.definitions import Definitions
from pegboard.search.engine import DEFAULT_METHOD, SearchEngine
from pegboard.search.evaluation_set import read_tools
from pegboard.search.options import query_of
from pegboard.search.searcher import Answer, Hit

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]

__all__ = ["add_to"]


def add_to(commands: "Commands") -> None:
    """Add the command to a parser."""
    words = "find tools by what they do"
    parser = commands.add_parser("search", help=words, description=sentence(words))
    parser.add_argument("text", help="what the tool should do, in your own words")
    parser.add_argument(
        "--catalog",
        action="append",
        required=True,
        metavar="FILE",
        help="tools to search: id, name, description, input_schema, …, one JSON object a line; "
        "may be given several times",
    )
    parser.add_argument(
        "--method", default=DEFAULT_METHOD, help="regex, bm25, embedding, hybrid, …"
    )
    parser.add_argument("--limit", type=int, default=5, help="how many at most (5)")
    parser.add_argument(
        "--explain", action="store_true", help="say how each part of the ranking contributed"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    definitions = Definitions(_tools_in(options.catalog))
    query = query_of(options.text, {"limit": options.limit, "explain": options.explain})
    answer = SearchEngine(lambda: definitions).search(query, method=options.method)
    sys.stdout.write(_page(answer))
    return 0


def _tools_in(files: Sequence[str]) -> tuple[Tool, ...]:
    try:
        return read_tools(*files)
    except ConfigError as error:
        if error.line is None:
            raise
        # Most likely it is a whole JSON document, such as an mcp.json.
        problem = (
            f"{error.problem} Each line of a catalogue is one tool as a JSON object; the servers "
            "of an mcp.json are searched with `pegboard serve`."
        )
        raise ConfigError(problem, path=error.path, line=error.line) from error


def _page(answer: Answer) -> str:
    if answer.hits:
        return "".join(_entry(hit) for hit in answer.hits)
    nearby = f" Nearby: {', '.join(answer.hints)}." if answer.hints else ""
    return f"Nothing fits.{nearby}\n"


def _entry(hit: Hit) -> str:
    first = (hit.tool.description.strip() or "(no description)").splitlines()[0]
    where = f" ({hit.tool.server})" if hit.tool.server else ""
    lines = [f"{hit.confidence:5.0%}  {hit.tool.name}{where}", f"       {first[:100]}"]
    reasons = [
        f"{it.field} ({', '.join(it.words)})" if it.words else it.field for it in hit.matches
    ]
    if reasons:
        lines.append(f"       found by {', '.join(reasons)}")
    if hit.parts:
        parts = (f"{part} {share:.3f}" for part, share in hit.parts.items())
        lines.append(f"       score {hit.score:.3f} = {', '.join(parts)}")
    return "\n".join(lines) + "\n"
