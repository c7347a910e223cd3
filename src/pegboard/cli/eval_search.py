"""`pegboard eval search`: how good each method of search is on data of your own."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from pegboard.cli.wording import sentence
from pegboard.search.evaluation import Evaluation, build_by, evaluate
from pegboard.search.evaluation_set import read_evaluation_set

if TYPE_CHECKING:
    from pegboard.cli.search import Commands

__all__ = ["add_to"]

METHODS = ("regex", "bm25", "embedding", "hybrid")
_COLUMNS: dict[str, Callable[[Evaluation], str]] = {
    "data": lambda it: it.data,
    "method": lambda it: it.method,
    "tools": lambda it: f"{it.tools:,}",
    "queries": lambda it: f"{it.questions:,}",
    "R@1": lambda it: f"{it.quality.recall_1:.3f}",
    "R@3": lambda it: f"{it.quality.recall_3:.3f}",
    "R@5": lambda it: f"{it.quality.recall_5:.3f}",
    "R@10": lambda it: f"{it.quality.recall_10:.3f}",
    "MRR@10": lambda it: f"{it.quality.mrr_10:.3f}",
    "nDCG@10": lambda it: f"{it.quality.ndcg_10:.3f}",
    "empty": lambda it: f"{it.quality.empty:.1%}",
    "refused": lambda it: "" if it.quality.refused is None else f"{it.quality.refused:.1%}",
    "p50 ms": lambda it: f"{it.p50_ms:.2f}",
    "p95 ms": lambda it: f"{it.p95_ms:.2f}",
    "build s": lambda it: f"{it.build_seconds:.2f}",
    "index": lambda it: f"{it.index_bytes / 1e6:,.1f} MB",
}


def add_to(commands: "Commands") -> None:
    """Add the command to a parser."""
    words = "measure how well and how fast tools are found"
    parser = commands.add_parser(
        "search",
        help=words,
        description=f"{sentence(words)} A folder holds `tools.jsonl` (id, name, description, "
        "server, input_schema, tags) and `queries.jsonl` (id, query, relevant: ids of tools, "
        "lang), one JSON object a line. A query with an empty `relevant` asks for what is not "
        "there: `refused` is the share of those that got an empty answer.",
    )
    parser.add_argument("--data", nargs="+", required=True, metavar="DIR", help="what to ask")
    parser.add_argument(
        "--method",
        action="append",
        metavar="NAME",
        help=f"{', '.join(METHODS)}, or a plug-in; may be given several times (all four)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    sets = [read_evaluation_set(folder) for folder in options.data]
    found: list[Evaluation] = []
    for data in sets:
        for method in options.method or METHODS:
            found.append(evaluate(data, build_by(method), method=method))
            if options.json:
                _say(msgspec.json.encode(found[-1]).decode())
    if not options.json:
        _say(_table(found))
    return 0


def _table(found: Sequence[Evaluation]) -> str:
    rows = [list(_COLUMNS), *([write(it) for write in _COLUMNS.values()] for it in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # Words to the left, numbers to the right.
    aligned = ["<", "<", *[">"] * (len(widths) - 2)]
    return "\n".join(
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, aligned, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
