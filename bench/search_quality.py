"""How well each engine finds the right tools, on every set."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from bench.search_data import MERGED, SETS, Asked
from bench.search_rivals import ENGINES, Engine, WorkerError, run_job
from pegboard.search.evaluation import Quality, percentile, quality_of

LEFT_OUT = "hybrid, set left out"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one engine did on one set."""

    engine: str
    data: str
    tools: int
    questions: int
    quality: Quality
    p50_ms: float
    p95_ms: float
    build_seconds: float
    bytes: int


def measure(engines: Sequence[str], sets: Sequence[Asked], left_out: Path | None) -> list[Measured]:
    """Ask every engine all questions of all sets; each pair in a process of its own."""
    found: list[Measured] = []
    failed: set[str] = set()
    for asked in sets:
        for name in engines:
            engine = ENGINES[name]
            try:
                if name not in failed and not (engine.builds_slowly and asked.name == MERGED):
                    found.append(_ask(engine.title, engine, asked, {}))
            except WorkerError as error:
                if engine.peer is None:
                    raise
                # A long measurement is not lost because one rival does not run here.
                failed.add(name)
                print(error, file=sys.stderr)
        if left_out is not None:
            found += _left_out(asked, left_out, found)
    return found


def overview(found: Sequence[Measured]) -> str:
    """The means over the nine sets, then quality, speed and cost on the merged catalogue.

    Whoever was not asked on that has the speed and cost on the largest set that it was asked on.
    """
    head = "| engine | R@1 | R@3 | R@5 | R@10 | MRR@10 | nDCG@10 | empty | merged: nDCG@10 | R@5 "
    head += "| p50 | p95 | build | memory |"
    lines = [head, "| --- |" + " ---: |" * 13]
    for engine, measured in _on_all_sets(found).items():
        means = [fmean(it) for it in zip(*(_figures(measured[name]) for name in SETS), strict=True)]
        cells = [*(f"{it:.3f}" for it in means[:6]), f"{means[6]:.1%}"]
        largest = max(measured.values(), key=lambda it: it.tools)
        if largest.data == MERGED:
            cells += [f"{largest.quality.ndcg_10:.3f}", f"{largest.quality.recall_5:.3f}"]
        else:
            cells += ["", f"({largest.data}:)"]
        cells += [f"{largest.p50_ms:,.2f} ms", f"{largest.p95_ms:,.2f} ms"]
        cells += [f"{largest.build_seconds:,.1f} s", f"{largest.bytes / 1e6:,.0f} MB"]
        lines.append(f"| {engine} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_set(found: Sequence[Measured]) -> str:
    """The nDCG@10 of every engine on every set."""
    engines = _by_engine(found)
    sizes = {it.data: f"{it.tools:,} tools, {it.questions:,} queries" for it in found}
    lines = [
        "| set | " + " | ".join(engines) + " |",
        "| --- |" + " ---: |" * len(engines),
    ]
    for name in sizes:
        cells = [
            f"{measured[name].quality.ndcg_10:.3f}" if name in measured else ""
            for measured in engines.values()
        ]
        lines.append(f"| {name} ({sizes[name]}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def macro_ndcg(found: Sequence[Measured], engine: str) -> float | None:
    """Return the mean nDCG@10 of an engine over the nine sets; `None` when some are missing."""
    measured = _on_all_sets(found).get(engine)
    return None if measured is None else fmean(measured[it].quality.ndcg_10 for it in SETS)


def _left_out(asked: Asked, folder: Path, found: Sequence[Measured]) -> list[Measured]:
    """Ask with a table that was trained without this set; the shipped one, if it never was."""
    table = folder / f"without-{asked.name}.table"
    if table.is_file():
        environment = {"PEGBOARD_WORD_TABLE": str(table.resolve())}
        if _table_in_use({}) == _table_in_use(environment):
            raise SystemExit(f"{table} is not used: `PEGBOARD_WORD_TABLE` has no effect.")
        return [_ask(LEFT_OUT, ENGINES["hybrid"], asked, environment)]
    # Questions of the merged catalogue are those of the sets: the shipped table may know them.
    shipped = ENGINES["hybrid"].title if asked.name != MERGED else None
    return [
        replace(it, engine=LEFT_OUT)
        for it in found
        if (it.engine, it.data) == (shipped, asked.name)
    ]


def _table_in_use(environment: Mapping[str, str]) -> str:
    worker = replace(ENGINES["hybrid"], worker="search_ours_speed")
    return run_job(worker, environment=environment, measurement="version")["version"]


def _by_engine(found: Sequence[Measured]) -> Mapping[str, Mapping[str, Measured]]:
    engines: dict[str, dict[str, Measured]] = {}
    for it in found:
        engines.setdefault(it.engine, {})[it.data] = it
    return engines


def _on_all_sets(found: Sequence[Measured]) -> Mapping[str, Mapping[str, Measured]]:
    # A mean over fewer sets could not be compared with the others.
    return {
        name: measured
        for name, measured in _by_engine(found).items()
        if all(it in measured for it in SETS)
    }


def _ask(title: str, engine: Engine, asked: Asked, environment: Mapping[str, str]) -> Measured:
    found = run_job(
        engine,
        environment=environment,
        tools=str(asked.tools_file),
        texts=str(asked.texts_file),
    )
    measured = Measured(
        engine=title,
        data=asked.name,
        tools=len(asked.data.tools),
        questions=len(asked.questions),
        quality=quality_of(
            [asked.names(it) for it in found["answers"]], [it.relevant for it in asked.questions]
        ),
        p50_ms=percentile(found["seconds"], 0.5) * 1e3,
        p95_ms=percentile(found["seconds"], 0.95) * 1e3,
        build_seconds=found["build"],
        bytes=found["bytes"],
    )
    print(_line(measured), file=sys.stderr)
    return measured


def _figures(it: Measured) -> tuple[float, ...]:
    quality = it.quality
    recalls = (quality.recall_1, quality.recall_3, quality.recall_5, quality.recall_10)
    return (*recalls, quality.mrr_10, quality.ndcg_10, quality.empty)


def _line(it: Measured) -> str:
    return (
        f"{it.data:16} {it.engine:30} nDCG@10 {it.quality.ndcg_10:.3f}  R@5 "
        f"{it.quality.recall_5:.3f}  p50 {it.p50_ms:8.2f} ms  build {it.build_seconds:6.2f} s"
    )
