"""Pegboard: the speed, the growth and the memory of its search at some size."""

import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from search_generated import generated
from search_ours import shipped_meaning, tool_of
from shared import resident_bytes

from pegboard import Registry, Tool
from pegboard.model import CatalogChange, freeze
from pegboard.search import NameIndex

ADDED = 200


def scale(job: dict[str, Any]) -> dict[str, float]:
    """Single questions, a batch of them, and tools added, at one size of the catalogue."""
    real, texts = _read(job)
    registry = Registry()
    registry.register_many(_tools(real, job["count"]))
    gc.collect()
    without = resident_bytes()
    _few(real).search("send an e-mail")
    gc.collect()
    before = resident_bytes()
    build = _seconds(lambda: registry.search("send an e-mail"))
    gc.collect()
    after = resident_bytes()
    for text in texts[:100]:
        registry.search(text)
    singles = sorted(_seconds(lambda text=text: registry.search(text)) for text in texts)
    many = (texts * (1 + job["batch"] // len(texts)))[: job["batch"]]
    batch = _seconds(lambda: registry.search_many(many))
    return {
        "build": build,
        "memory": after - before,
        "fixed": before - without,
        "total": after,
        "p50": singles[len(singles) // 2],
        "p95": singles[int(0.95 * len(singles))],
        "single_rate": len(singles) / sum(singles),
        "batch_rate": len(many) / batch,
        **_growth(registry, real, job["count"]),
    }


def names(job: dict[str, Any]) -> dict[str, float]:
    """How long it takes to tell which tool a text names, as every search does."""
    real, texts = _read(job)
    tools = _tools(real, job["count"])
    index = NameIndex()
    index.apply(CatalogChange(revision=1, added=tuple(tools)))
    called = [tool.name for tool in random.Random(1).sample(tools, len(texts))]
    wrong = [f"{name[:-1]}_{name[-1]}x" for name in called]
    return {
        kind: median(_seconds(lambda text=text: index.find(text)) for text in asked)
        for kind, asked in (("question", texts), ("name", called), ("typo", wrong))
    }


def build(job: dict[str, Any]) -> dict[str, float]:
    """The index of so many real tools, built for the first time, and loaded from where it was."""
    real, _ = _read(job)
    tools = tuple(tool_of(it) for it in real[: job["count"]])
    _few(real).search("send an e-mail")
    # Here, so that `first` is measured without it.
    from pegboard.search.index.index import ToolIndex

    change = CatalogChange(revision=1, added=tools)
    meaning = shipped_meaning()
    index = ToolIndex(meaning)
    gc.collect()
    built = _seconds(lambda: index.apply(change))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tools.search"
        index.save(place)
        loaded = [_seconds(lambda: ToolIndex(meaning, saved=place).apply(change)) for _ in range(5)]
        size = place.stat().st_size
    return {"build": built, "load": median(loaded), "file": size}


def first(job: dict[str, Any]) -> dict[str, float]:
    """The first question by meaning in a fresh process, numpy being there."""
    real, _ = _read(job)
    registry = _few(real)
    import numpy as np

    assert np.ones(3).sum() == 3
    return {"first": _seconds(lambda: registry.search("send an e-mail", method="embedding"))}


def skills(job: dict[str, Any]) -> dict[str, float]:
    """A question over tools alone, and over as many tools and skills in the same index."""
    real, texts = _read(job)
    tools = _tools(real, job["count"])
    alone, both = Registry(), Registry()
    for registry in (alone, both):
        registry.register_many(tools)
    # Skills have a name and a description, as some tools do.
    made = _tools(real, job["skills"], seed=2640)
    documents = (
        Tool(
            name=f"skill:docs/{number}-{it.name}"[:500], description=it.description, tags=("skill",)
        )
        for number, it in enumerate(made)
    )
    both.show_documents({it.name: it for it in documents})
    texts = texts[:300]
    ways: dict[str, Callable[[str], object]] = {
        "alone": alone.search,
        "both": lambda text: both.search(text, documents=True),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(job["rounds"]):
        # In turns, so that what else the machine does slows both.
        turn = list(ways) if number % 2 else list(ways)[::-1]
        for name in turn:
            search = ways[name]
            times[name] += [
                _seconds(lambda text=text, search=search: search(text)) for text in texts
            ]
    return {name: median(it[len(texts) :]) for name, it in times.items()}


def version(_: dict[str, Any]) -> dict[str, str]:
    """Which table of words is in use."""
    return {"version": shipped_meaning().version}


def _few(real: list[dict[str, Any]]) -> Registry:
    registry = Registry()
    registry.register_many(tool_of(it) for it in real[:20])
    return registry


def _growth(registry: Registry, real: list[dict[str, Any]], count: int) -> dict[str, float]:
    """What one tool more costs: adding it, and what the next question takes longer for it."""
    adds: list[float] = []
    found: list[float] = []
    for tool in _tools(real, ADDED, seed=count):
        if tool.name in registry:
            continue
        began = time.perf_counter()
        registry.register(tool)
        hits = registry.search(tool.name, limit=1).hits
        found.append(time.perf_counter() - began)
        assert hits[0].tool.name == tool.name
        adds.append(found[-1] - _seconds(lambda tool=tool: registry.search(tool.name, limit=1)))
    late = sorted(adds)[int(0.95 * len(adds))]
    return {"add": median(adds), "add_p95": late, "found": median(found)}


def _tools(real: list[dict[str, Any]], count: int, *, seed: int = 20_240) -> list[Tool]:
    return [tool_of(it) for it in generated(real, count, seed=seed)]


def _read(job: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    real = json.loads(Path(job["tools"]).read_text("utf-8"))
    for it in real:
        # Frozen once, schemas are shared by all tools that are made from them.
        it["input_schema"] = freeze(it["input_schema"])
    # Some sets have schemas of their own kind ("type": "str"), which a registry refuses.
    refused = Registry().register_many([tool_of(it) for it in real], on_error="report").rejected
    for index in sorted((it.index for it in refused), reverse=True):
        del real[index]
    texts = json.loads(Path(job["texts"]).read_text("utf-8"))
    random.Random(1).shuffle(texts)
    return real, texts


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


_job = json.loads(sys.argv[1])
_measurements = {
    "scale": scale,
    "names": names,
    "build": build,
    "first": first,
    "skills": skills,
    "version": version,
}
print(json.dumps(_measurements[_job["measurement"]](_job)))
