"""`pegboard eval search`: measure the quality of each search method on your own data."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer

from pegboard.cli.terminal.output import progress, show_table, warn, write_json
from pegboard.search.evaluation import (
    Evaluation,
    EvaluationSet,
    build_by,
    evaluate,
    read_evaluation_set,
)

__all__ = ["add_to"]

METHODS = ("regex", "bm25", "embedding", "hybrid")
_MOST_NAMED = 10

_eval = typer.Typer(help="Measure the search quality on your own data.", no_args_is_help=True)


def add_to(root: typer.Typer) -> None:
    """Add the commands to an application."""
    _eval.callback()(_only_a_group)
    root.add_typer(_eval, name="eval")


def _only_a_group() -> None:
    """Measure the search quality on your own data."""


@_eval.command()
def search(
    *,
    folders: Annotated[
        list[str] | None, typer.Argument(metavar="DIR", help="Folder with tools and queries.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="The same as DIR. Can be repeated.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(METHODS)}, or a plug-in. Can be repeated (default: all four).",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how well and how fast each method finds tools.

    A folder holds `tools.jsonl` (id, name, description, server, input_schema, tags) and
    `queries.jsonl` (id, query, relevant: ids of tools, lang), one JSON object a line. A query
    with an empty `relevant` asks for a tool that does not exist; `refused` is the share of such
    queries that found nothing.
    """
    asked_for = [*(data or ()), *(folders or ())]
    if not asked_for:
        raise typer.BadParameter("Name a folder: `pegboard eval search DIR`.")
    sets = [read_evaluation_set(folder) for folder in asked_for]
    for asked in sets:
        _name_those_without_tools(asked)
    methods = method or METHODS
    found: list[Evaluation] = []
    with progress() as bar:
        task = bar.add_task("Measuring", total=len(sets) * len(methods))
        for asked in sets:
            for name in methods:
                bar.update(task, description=f"Measuring {name} on {asked.name}")
                found.append(evaluate(asked, build_by(name), method=name))
                bar.advance(task)
    if json:
        write_json([evaluation_as_json(it) for it in found])
        return
    rows = ([write(it) for write in _COLUMNS.values()] for it in found)
    # Words to the left, numbers to the right.
    show_table(list(_COLUMNS), rows, right=list(_COLUMNS)[2:])


def evaluation_as_json(it: Evaluation) -> dict[str, Any]:
    """Return an evaluation as ``--json`` prints it: an array, one object a folder and method.

    ``data`` (the name of the folder), ``method``, ``tools`` and ``questions`` (how many);
    ``quality``: ``recall_1``, ``recall_3``, ``recall_5``, ``recall_10``, ``mrr_10``, ``ndcg_10``,
    ``empty`` (the share of questions that found nothing) and ``refused`` (the same share among
    questions without a relevant tool; null if there is no such question); ``p50_ms`` and
    ``p95_ms`` of one question, ``build_seconds`` and ``index_bytes``.
    """
    return msgspec.to_builtins(it)


def _name_those_without_tools(asked: EvaluationSet) -> None:
    """Name the queries that count only in `refused`; refuse a set that has no others."""
    without = [it.id for it in asked.questions if not it.relevant]
    if len(without) == len(asked.questions):
        raise typer.BadParameter(
            f"{asked.name}: no query of `queries.jsonl` has a tool in `relevant`, so nothing can "
            "be measured. Name the tools that would be right."
        )
    if without:
        more = len(without) - _MOST_NAMED
        besides = f" and {more:,} more" if more > 0 else ""
        warn(
            f"{asked.name}: these queries have no relevant tool, and count only in REFUSED: "
            f"{', '.join(without[:_MOST_NAMED])}{besides}."
        )


_COLUMNS: dict[str, Callable[[Evaluation], str]] = {
    "DATA": lambda it: it.data,
    "METHOD": lambda it: it.method,
    "TOOLS": lambda it: f"{it.tools:,}",
    "QUERIES": lambda it: f"{it.questions:,}",
    "R@1": lambda it: f"{it.quality.recall_1:.3f}",
    "R@3": lambda it: f"{it.quality.recall_3:.3f}",
    "R@5": lambda it: f"{it.quality.recall_5:.3f}",
    "R@10": lambda it: f"{it.quality.recall_10:.3f}",
    "MRR@10": lambda it: f"{it.quality.mrr_10:.3f}",
    "NDCG@10": lambda it: f"{it.quality.ndcg_10:.3f}",
    "EMPTY": lambda it: f"{it.quality.empty:.1%}",
    "REFUSED": lambda it: "" if it.quality.refused is None else f"{it.quality.refused:.1%}",
    "P50 MS": lambda it: f"{it.p50_ms:.2f}",
    "P95 MS": lambda it: f"{it.p95_ms:.2f}",
    "BUILD S": lambda it: f"{it.build_seconds:.2f}",
    "INDEX": lambda it: f"{it.index_bytes / 1e6:,.1f} MB",
}
