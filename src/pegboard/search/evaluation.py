"""Evaluation of a search method on a set of questions: recall, MRR, nDCG, latency and memory."""

import gc
import math
import threading
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pegboard.config.atomic_write import read_named_file
from pegboard.errors import ConfigError, InvalidQueryError, InvalidToolError
from pegboard.model import Tool
from pegboard.search.engine import SearchEngine
from pegboard.search.options import query_of

__all__ = [
    "Build",
    "Definitions",
    "Evaluation",
    "EvaluationSet",
    "Quality",
    "Question",
    "Search",
    "build_by",
    "evaluate",
    "percentile",
    "quality_of",
    "read_evaluation_set",
    "read_tools",
]

Search = Callable[[str], Sequence[str]]
"""Takes a text, and returns the names of the found tools, best first."""

Build = Callable[[Sequence[Tool]], Search]
"""Takes tools, and returns a search over them that is ready."""

DEPTH = 10
"""How many hits of a response count."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a user might ask, and the names of the tools that would be right."""

    id: str
    text: str
    relevant: frozenset[str] = frozenset()
    """Empty when no tool of the catalogue fits, so that an empty response is the right one."""
    language: str = ""


class EvaluationSet(msgspec.Struct, frozen=True, kw_only=True):
    """A catalogue of tools, and questions about it."""

    name: str
    tools: tuple[Tool, ...]
    questions: tuple[Question, ...]
    ids: Mapping[str, str]
    """The id of each tool by its name: in the files ids are unique, but names need not be."""


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How good the responses were: each figure is a mean over the questions, from 0 to 1.

    Questions that no tool answers count only in `refused`.
    """

    recall_1: float
    """The share of the right tools that the first hit finds; the next three look at more hits."""
    recall_3: float
    recall_5: float
    recall_10: float
    mrr_10: float
    """One over the rank of the first right tool; 0 when it is not among the first ten."""
    ndcg_10: float
    """The gain of the right tools among the first ten, divided by that of the best order."""
    empty: float
    """How often nothing was found although a tool fits."""
    refused: float | None = None
    """How often nothing was found when no tool fits; `None` without such questions."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one search method on one set."""

    data: str
    method: str
    tools: int
    questions: int
    quality: Quality
    p50_ms: float
    """The median time of one search."""
    p95_ms: float
    build_seconds: float
    """The time until the search was ready."""
    index_bytes: int
    """The memory that Python and numpy allocated for it."""


class Definitions:
    """Tools by name that a `SearchEngine` can follow; their schemas are not checked."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._lock = threading.Lock()
        self._news: dict[str, Tool | None] = {}
        self.revision: int = 0
        """The revision of the last change."""
        self.add(tools)

    def add(self, tools: Iterable[Tool]) -> None:
        """Add tools; they replace those with the same names."""
        self._note({tool.name: tool for tool in tools})

    def remove(self, names: Iterable[str]) -> None:
        """Remove tools."""
        self._note(dict.fromkeys(names))

    def take(self) -> tuple[int, Mapping[str, Tool | None]]:
        """Return the revision, and what was added or removed since the last call."""
        with self._lock:
            news, self._news = self._news, {}
            return self.revision, news

    def _note(self, news: Mapping[str, Tool | None]) -> None:
        with self._lock:
            self._news.update(news)
            self.revision += 1


def read_evaluation_set(folder: str | Path) -> EvaluationSet:
    """Read `tools.jsonl` and `queries.jsonl` of a folder; the id of a tool defaults to its name.

    Raises:
        ConfigError: when a file is missing or damaged; `path` and `line` say where.
    """
    place = Path(folder)
    tools: dict[str, Tool] = {}
    names = _add_tools(place / "tools.jsonl", tools)
    path = place / "queries.jsonl"
    questions: dict[str, Question] = {}
    for number, line in _lines(path, _QuestionLine):
        if line.id in questions:
            raise _problem(path, number, f"The id {line.id!r} appears twice.")
        unknown = [it for it in line.relevant if it not in names]
        if unknown:
            what = f"No tool has the id {unknown[0]!r}. `relevant` lists ids of `tools.jsonl`."
            raise _problem(path, number, what)
        questions[line.id] = Question(
            id=line.id,
            text=line.query,
            relevant=frozenset(names[it] for it in line.relevant),
            language=line.lang or "",
        )
    if not questions:
        raise _problem(path, None, "The file contains no queries.")
    return EvaluationSet(
        name=place.resolve().name,
        tools=tuple(tools.values()),
        questions=tuple(questions.values()),
        ids={name: id_ for id_, name in names.items()},
    )


def read_tools(*paths: str | Path) -> tuple[Tool, ...]:
    """Read the tools of some files, one JSON object a line.

    Raises:
        ConfigError: when a file is missing or damaged; `path` and `line` say where.
    """
    tools: dict[str, Tool] = {}
    for path in paths:
        _add_tools(Path(path), tools)
    return tuple(tools.values())


def build_by(method: str) -> Build:
    """Return a function that builds Pegboard's search by a method, with default options.

    Raises:
        InvalidQueryError: when that function is called and the method is unknown.
    """

    def build(tools: Sequence[Tool]) -> Search:
        definitions = Definitions(tools)
        engine = SearchEngine(lambda: definitions)

        def search(text: str) -> Sequence[str]:
            try:
                answer = engine.search(query_of(text, {"limit": DEPTH}), method=method)
            except InvalidQueryError:
                return ()  # an invalid query finds nothing
            return [hit.tool.name for hit in answer.hits]

        # The first search builds the index, and fails if the method is unknown.
        engine.search(query_of("anything", {}), method=method)
        return search

    return build


def evaluate(data: EvaluationSet, build: Build, *, method: str = "") -> Evaluation:
    """Ask every question of a set, one after the other, and return the figures."""
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
    """Compare answers, best hit first, with the right tools."""
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
    """Return the smallest value that the given share of all values does not exceed."""
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
    # Tracing makes everything slow, so it is not done while time is measured.
    tracemalloc.start()
    try:
        built = build()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        del built
    finally:
        tracemalloc.stop()
    return size


class _ToolLine(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    id: str = ""
    description: str | None = None
    server: str | None = None
    input_schema: dict[str, Any] | None = None
    tags: list[str] | None = None
    category: str | None = None


class _QuestionLine(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    query: str
    relevant: list[str]
    lang: str | None = None


_Line = TypeVar("_Line", _ToolLine, _QuestionLine)


def _add_tools(path: Path, tools: dict[str, Tool]) -> dict[str, str]:
    """Add the tools of a file to others, and return their names by their ids."""
    names: dict[str, str] = {}
    for number, line in _lines(path, _ToolLine):
        key = line.id or line.name
        if key in names:
            raise _problem(path, number, f"The id {key!r} appears twice.")
        name = line.name
        while name in tools:
            # Tools of different servers may share a name, but a board has one of each. No searcher
            # reads a full stop as a word, so the ranking stays that of the shared name.
            name += "."
        try:
            tools[name] = _tool(line, name)
        except InvalidToolError as error:
            raise _problem(path, number, str(error)) from error
        names[key] = name
    if not names:
        raise _problem(path, None, "The file contains no tools.")
    return names


def _tool(line: _ToolLine, name: str) -> Tool:
    return Tool(
        name=name,
        description=line.description or "",
        input_schema=line.input_schema or {},
        server=line.server or None,
        tags=tuple(line.tags or ()),
        category=line.category or None,
    )


def _lines(path: Path, kind: type[_Line]) -> Iterator[tuple[int, _Line]]:
    decoder = msgspec.json.Decoder(kind)
    try:
        text = read_named_file(path)
    except OSError as error:
        what = f"{error.strerror or error}. This must be a file with one JSON object per line."
        is_missing = isinstance(error, FileNotFoundError)
        raise ConfigError(what, path=str(path), is_missing=is_missing) from error
    # Only these separate lines in JSON; `splitlines` would also cut at U+2028 inside a text.
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            try:
                yield number, decoder.decode(line)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                raise _problem(path, number, f"{error}.") from error


def _problem(path: Path, line: int | None, problem: str) -> ConfigError:
    return ConfigError(problem, path=str(path), line=line)
