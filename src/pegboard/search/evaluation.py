"""Evaluate a way to search: how often it finds the right tools, how fast, and at what size."""

import gc
import math
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from pegboard.errors import InvalidQueryError
from pegboard.model import Tool
from pegboard.search.engine import SearchEngine
from pegboard.search.evaluation_set import Definitions, EvaluationSet
from pegboard.search.options import query_of

__all__ = [
    "Build",
    "Evaluation",
    "Quality",
    "Search",
    "build_by",
    "evaluate",
    "percentile",
    "quality_of",
]

Search = Callable[[str], Sequence[str]]
"""Takes a text, and gives the names of what was found, best first."""

Build = Callable[[Sequence[Tool]], Search]
"""Takes tools, and gives a search over them that is ready."""

DEPTH = 10
"""How many hits of an answer count."""


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How good the answers were, each figure from 0 to 1, the mean over the questions.

    Questions that no tool answers count in `refused` alone.
    """

    recall_1: float
    """The share of the right tools that are among the first hit; the same for the next three."""
    recall_3: float
    recall_5: float
    recall_10: float
    mrr_10: float
    """One over the rank of the first right tool, 0 when it is not among ten."""
    ndcg_10: float
    """Right tools among ten, the earlier the better, against the best order there is."""
    empty: float
    """How often nothing was found although there is something."""
    refused: float | None = None
    """How often nothing was found and there is nothing; `None` without such questions."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What one way to search did on one set."""

    data: str
    method: str
    tools: int
    questions: int
    quality: Quality
    p50_ms: float
    """The time of one answer: half of them were faster."""
    p95_ms: float
    build_seconds: float
    """Until the search was ready."""
    index_bytes: int
    """The memory that Python and numpy took for it."""


def build_by(method: str) -> Build:
    """Return what builds our own search by a method, with everything at its default.

    Raises:
        InvalidQueryError: when it builds, if nobody knows the method.
    """

    def build(tools: Sequence[Tool]) -> Search:
        definitions = Definitions(tools)
        engine = SearchEngine(lambda: definitions)

        def search(text: str) -> Sequence[str]:
            try:
                answer = engine.search(query_of(text, {"limit": DEPTH}), method=method)
            except InvalidQueryError:
                return ()  # what cannot be asked finds nothing
            return [hit.tool.name for hit in answer.hits]

        # Nothing is built before the first search, which also tells whether there is the method.
        engine.search(query_of("anything", {}), method=method)
        return search

    return build


def evaluate(data: EvaluationSet, build: Build, *, method: str = "") -> Evaluation:
    """Ask every question of a set, one after the other, and say how it went."""
    began = time.perf_counter()
    search = build(data.tools)
    build_seconds = time.perf_counter() - began
    search(data.questions[0].text)  # the first answer warms up caches
    answers: list[Sequence[str]] = []
    seconds: list[float] = []
    for question in data.questions:
        began = time.perf_counter()
        answer = search(question.text)
        seconds.append(time.perf_counter() - began)
        answers.append(answer)
    relevant = [question.relevant for question in data.questions]
    return Evaluation(
        data=data.name,
        method=method,
        tools=len(data.tools),
        questions=len(data.questions),
        quality=quality_of(answers, relevant),
        p50_ms=percentile(seconds, 0.5) * 1e3,
        p95_ms=percentile(seconds, 0.95) * 1e3,
        build_seconds=build_seconds,
        index_bytes=_bytes_of(lambda: build(data.tools)),
    )


def quality_of(answers: Iterable[Sequence[str]], relevant: Iterable[Collection[str]]) -> Quality:
    """Judge answers, best hit first, by what would have been right."""
    judged: list[tuple[float, ...]] = []
    refusals: list[bool] = []
    for answer, right in zip(answers, relevant, strict=True):
        if right:
            judged.append(_judge(answer, right))
        else:
            refusals.append(not answer)
    recall_1, recall_3, recall_5, recall_10, mrr, ndcg, empty = _means(judged)
    return Quality(
        recall_1=recall_1,
        recall_3=recall_3,
        recall_5=recall_5,
        recall_10=recall_10,
        mrr_10=mrr,
        ndcg_10=ndcg,
        empty=empty,
        refused=sum(refusals) / len(refusals) if refusals else None,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that the given share of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _judge(answer: Sequence[str], right: Collection[str]) -> tuple[float, ...]:
    # A name that comes twice is one tool, found where it came first.
    hits = [name in right for name in dict.fromkeys(answer)][:DEPTH]
    recalls = (sum(hits[:depth]) / len(right) for depth in (1, 3, 5, 10))
    reciprocal = 1 / (hits.index(True) + 1) if any(hits) else 0.0
    gain = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits))
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(DEPTH, len(right))))
    return (*recalls, reciprocal, gain / ideal, not answer)


def _means(judged: Sequence[tuple[float, ...]]) -> list[float]:
    if not judged:
        return [math.nan] * 7
    return [math.fsum(column) / len(judged) for column in zip(*judged, strict=True)]


def _bytes_of(build: Callable[[], object]) -> int:
    gc.collect()
    # Counting makes everything slow, which is why it is not done while time is taken.
    tracemalloc.start()
    try:
        built = build()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        del built
    finally:
        tracemalloc.stop()
    return size
