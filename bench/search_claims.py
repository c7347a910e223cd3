"""What search promises beside quality: speed, growth, names in any spelling, empty answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from bench.measure import Row, at_least, limit
from bench.search_data import MERGED, Asked
from bench.search_quality import LEFT_OUT, Measured, macro_ndcg
from bench.search_rivals import ENGINES, run_job

SIZES = {10_000: 1.0, 100_000: 4.0, 1_000_000: 25.0}
"""Tools, and the milliseconds that half of the questions may take."""
CHINESE = {"ultratool_zh": 0.75, "ultratool_zh2en": 0.68}
"""Chinese questions about Chinese tools, and about English ones; what nDCG@10 should be."""
NAMES_SAMPLE = 2_000
BATCH = 10_000
SKILLS = 2_000
_OURS = ENGINES["hybrid"]
_LEXICAL = ("RegistryTools", "FastMCP", "bm25s", "tantivy", "SQLite")


def quality(found: Sequence[Measured]) -> list[Row]:
    """The goals of quality, as far as the run has what they need."""
    rows: list[Row] = []
    for engine in (LEFT_OUT, ENGINES["hybrid"].title):
        mean = macro_ndcg(found, engine)
        if mean is not None:
            # Figures on data that it was trained on say nothing; then they stay out.
            rows.append(_share(f"mean nDCG@10 over the nine sets, {engine}", mean, 0.80))
            break
    by_set: dict[str, dict[str, float]] = {}
    for it in found:
        by_set.setdefault(it.data, {})[it.engine] = it.quality.ndcg_10
    for data, engines in by_set.items():
        ours = engines.get(LEFT_OUT, engines.get(ENGINES["hybrid"].title))
        lexical = {name: it for name, it in engines.items() if name.startswith(_LEXICAL)}
        if ours is not None and data in CHINESE:
            rows.append(_share(f"nDCG@10 on {data}", ours, CHINESE[data]))
        if ours is not None and lexical:
            best = max(lexical, key=lexical.__getitem__)
            claim = f"nDCG@10 on {data}, at least the best lexical rival"
            rows.append(_share(claim, ours, lexical[best], f"{best}: {lexical[best]:.3f}"))
    return rows


def names(sets: Sequence[Asked]) -> list[Row]:
    """The share of tools that come first when their name is given, by spelling, on all sets."""
    by_spelling: dict[str, dict[str, float]] = {}
    missed: dict[str, list[str]] = {}
    for asked in sets:
        found = _probe("names", asked, sample=NAMES_SAMPLE)
        for way, share in found["shares"].items():
            by_spelling.setdefault(way, {})[asked.name] = share
            missed.setdefault(way, []).extend(found["missed"].get(way, []))
    rows: list[Row] = []
    for way, shares in by_spelling.items():
        worst = min(shares, key=shares.__getitem__)
        examples = f"{worst}; not for {', '.join(missed[way][:3])}" if missed[way] else ""
        claim = f"a name comes first, {way}, on the worst of all sets"
        rows.append(_share(claim, shares[worst], 1.0, examples))
    return rows


def abstention(sets: Sequence[Asked]) -> list[Row]:
    """Empty answers where nothing fits, and what they cost where something does."""
    found = [_probe("abstention", asked) for asked in sets if asked.name != MERGED]
    recall, always = (fmean(it[key] for it in found) for key in ("recall", "recall_always"))
    rows = [
        _share(
            "empty answers to questions whose tools were taken out",
            fmean(it["taken_out"] for it in found),
            0.60,
            f"{min(it['taken_out'] for it in found):.2f} on the worst set",
        )
    ]
    for kind in found[0]["nonsense"]:
        shares = [it["nonsense"][kind] for it in found]
        worst = f"{min(shares):.3f} on the worst set"
        rows.append(_share(f"empty answers to nonsense, {kind}", fmean(shares), 0.99, worst))
    cost = (always - recall) * 100
    detail = f"{recall:.3f} with, {always:.3f} without"
    return [*rows, limit("points of recall@5 that abstention costs", cost, 1.0, "", detail)]


def speed(merged: Asked, sizes: Sequence[int]) -> list[Row]:
    """Times and memory of the hybrid search at several sizes of the catalogue."""
    rows: list[Row] = []
    for count in sizes:
        # Many more questions to many more tools would take minutes and say nothing new.
        batch = BATCH if count <= 10_000 else 500
        found = _speed("scale", merged, count=count, batch=batch)
        rows += _scale_rows(count, batch, found)
        if count == 10_000:
            rows += _registrytools(merged, count, found)
    return [*rows, *_skill_rows(merged), _name_row(merged), *_start_rows(merged)]


def _skill_rows(merged: Asked) -> list[Row]:
    rows: list[Row] = []
    for count in (400, 10_000):
        found = _speed("skills", merged, count=count, skills=SKILLS, rounds=9)
        claim = f"a question over {count:,} tools and {SKILLS:,} skills, over the tools alone = 1"
        ratio = found["both"] / found["alone"]
        detail = f"{found['both'] * 1e3:.3f} ms against {found['alone'] * 1e3:.3f} ms"
        if count < SKILLS:
            # The index is six times as large; through a gateway the rest of a search counts more.
            rows.append(Row(claim=claim, measured=ratio, unit="×", detail=detail))
        else:
            rows.append(limit(claim, ratio, 1.10, "×", detail))
    return rows


def _scale_rows(count: int, batch: int, found: Mapping[str, float]) -> list[Row]:
    at = f"at {count:,} tools"
    mean = found["memory"] / count / 1e3
    taken = (
        f"beside {found['fixed'] / 1e6:,.0f} MB for numpy and the table of words; the process has "
        f"{found['total'] / 1e6:,.0f} MB in all; index built in {found['build']:.1f} s"
    )
    tail = f"{found['p95'] * 1e3:.2f} ms"
    added = f"p95 {found['add_p95'] * 1e3:.2f} ms; until it is found {found['found'] * 1e3:.2f} ms"
    return [
        limit(f"a question {at}, p50", found["p50"] * 1e3, SIZES[count], " ms"),
        limit(f"a question {at}, p95 / p50", found["p95"] / found["p50"], 3, "×", tail),
        _batch_row(count, batch, found),
        limit(f"one tool more {at}, until it can be found", found["add"] * 1e3, 1, " ms", added),
        limit(f"memory of the index {at}, a tool", mean, 8, " KB", taken),
    ]


def _batch_row(count: int, batch: int, found: Mapping[str, float]) -> Row:
    claim = f"a batch of {batch:,} questions at {count:,} tools, one by one = 1"
    faster = found["batch_rate"] / found["single_rate"]
    rates = f"{found['batch_rate']:,.0f} against {found['single_rate']:,.0f} a second"
    if batch == BATCH:
        return at_least(claim, faster, 3, rates)
    return Row(claim=claim, measured=faster, unit="×", detail=rates)


def _name_row(merged: Asked) -> Row:
    found = _speed("names", merged, count=100_000)
    return Row(
        claim="telling at 100,000 tools whether a question is a name, p50",
        measured=found["question"] * 1e3,
        unit=" ms",
        detail=f"a name {found['name'] * 1e3:.3f} ms, one with a typo {found['typo'] * 1e3:.3f} ms",
    )


def _registrytools(merged: Asked, count: int, ours: Mapping[str, float]) -> list[Row]:
    worker = replace(ENGINES["registrytools-bm25"], worker="search_registrytools_speed")
    peer = run_job(worker, **_files(merged), count=count)
    asked = f"{ours['p50'] * 1e3:.2f} ms against {peer['p50'] * 1e3:,.0f} ms"
    grown = f"{ours['found'] * 1e3:.2f} ms against {peer['found'] * 1e3:,.0f} ms"
    return [
        Row(
            claim=f"a question at {count:,} tools, RegistryTools' BM25 = 1",
            measured=ours["p50"] / peer["p50"],
            unit="×",
            detail=asked,
        ),
        Row(
            claim=f"one tool more at {count:,}, until it is found, RegistryTools = 1",
            measured=ours["found"] / peer["found"],
            unit="×",
            detail=grown,
        ),
    ]


def _start_rows(merged: Asked) -> list[Row]:
    built = _speed("build", merged, count=10_000)
    first = _speed("first", merged)
    kept = f"{built['file'] / 1e6:.1f} MB on disk"
    return [
        limit("building the index of 10,000 real tools", built["build"], 0.7, " s"),
        limit("loading the index of 10,000 tools", built["load"] * 1e3, 50, " ms", kept),
        limit("the first question by meaning, beyond numpy", first["first"] * 1e3, 150, " ms"),
    ]


def _probe(probe: str, asked: Asked, **more: Any) -> dict[str, Any]:
    worker = replace(_OURS, worker="search_ours_probes")
    relevant = str(asked.relevant_file)
    return run_job(worker, probe=probe, relevant=relevant, **_files(asked), **more)


def _speed(measurement: str, asked: Asked, **more: Any) -> dict[str, Any]:
    worker = replace(_OURS, worker="search_ours_speed")
    files = {"tools": str(asked.tools_file), "texts": str(asked.all_texts_file)}
    return run_job(worker, measurement=measurement, **files, **more)


def _files(asked: Asked) -> dict[str, str]:
    return {"tools": str(asked.tools_file), "texts": str(asked.texts_file)}


def _share(claim: str, measured: float, goal: float, detail: str = "") -> Row:
    # Compared as they are printed, so that a table never contradicts itself.
    met = round(measured, 4) >= round(goal, 4)
    wanted = f"≥ {goal * 100:.4g} %"
    return Row(claim=claim, measured=measured * 100, unit=" %", goal=wanted, met=met, detail=detail)
