"""Repetitions, medians, and the table they end up in."""

import dataclasses
import json
import os
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WORKERS = ROOT / "bench" / "workers"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured claim."""

    claim: str
    measured: float | None
    unit: str
    goal: str = ""
    met: bool | None = None
    detail: str = ""


def run_worker(
    python: Path, worker: str, *arguments: str, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run one measurement in a fresh process."""
    run = subprocess.run(
        [python, WORKERS / f"{worker}.py", *arguments],
        check=False,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    if run.returncode != 0:
        raise SystemExit(f"{worker}.py {' '.join(arguments)} failed:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def interleave(
    repetitions: int, contenders: Mapping[str, Callable[[], dict[str, Any]]]
) -> dict[str, dict[str, float]]:
    """Run the contenders in turn, and return the median of each figure of each."""
    figures: dict[str, dict[str, list[float]]] = {name: {} for name in contenders}
    for _ in range(repetitions):
        for name, measure in contenders.items():
            for figure, value in measure().items():
                figures[name].setdefault(figure, []).append(value)
    return {
        name: {figure: statistics.median(values) for figure, values in found.items()}
        for name, found in figures.items()
    }


Figures = dict[str, float]
Rounds = Sequence[Mapping[str, Figures]]
"""What each contender reached, round by round."""


def take_turns(repetitions: int, contenders: Mapping[str, Callable[[], Figures]]) -> Rounds:
    """Run the contenders in turn, always in the same order.

    Each comes after the same one every time. If the order changed, a contender would sometimes
    follow itself, and find the processor's caches as it left them.
    """
    return [{name: it() for name, it in contenders.items()} for _ in range(repetitions)]


def median_of(rounds: Rounds, name: str, figure: str) -> float:
    """Return the median of a figure over the rounds."""
    return statistics.median(it[name][figure] for it in rounds)


def median_ratio(rounds: Rounds, name: str, other: str, figure: str) -> float:
    """Return the median of the ratios of two contenders, which share the minutes of a round."""
    return statistics.median(it[name][figure] / it[other][figure] for it in rounds)


def at_least(claim: str, measured: float, goal: float, detail: str) -> Row:
    """A ratio that should be large."""
    met = measured >= goal
    return Row(
        claim=claim, measured=measured, unit="×", goal=f"≥ {goal:g}×", met=met, detail=detail
    )


def at_most(claim: str, measured: float, goal: float, detail: str) -> Row:
    """A ratio that should be small."""
    met = measured <= goal
    return Row(
        claim=claim, measured=measured, unit="×", goal=f"≤ {goal:g}×", met=met, detail=detail
    )


def limit(claim: str, measured: float, goal: float, unit: str, detail: str = "") -> Row:
    """A figure that should stay below something."""
    return Row(
        claim=claim,
        measured=measured,
        unit=unit,
        goal=f"≤ {goal:g}{unit}",
        met=measured <= goal,
        detail=detail,
    )


def not_measured(row: Row, reason: str) -> Row:
    """Keep the claim and the goal of a row, and say why there is no figure."""
    return dataclasses.replace(row, measured=None, met=None, detail=f"not measured: {reason}")


def table(rows: list[Row]) -> str:
    """Render rows for a terminal, and for README."""
    lines = ["| claim | measured | goal | met | detail |", "| --- | ---: | ---: | :---: | --- |"]
    for row in rows:
        met = {True: "yes", False: "NO", None: ""}[row.met]
        number = "" if row.measured is None else f"{row.measured:,.2f}{row.unit}"
        lines.append(f"| {row.claim} | {number} | {row.goal} | {met} | {row.detail} |")
    return "\n".join(lines)
