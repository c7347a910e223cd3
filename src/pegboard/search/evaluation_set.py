"""EvaluationSet: tools, questions, and which tools answer them, read from a folder."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pegboard.config.atomic_write import read_named_file
from pegboard.errors import ConfigError, InvalidToolError
from pegboard.model import Tool

__all__ = ["Definitions", "EvaluationSet", "Question", "read_evaluation_set", "read_tools"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody might ask, and the names of the tools that would be right."""

    id: str
    text: str
    relevant: frozenset[str] = frozenset()
    """Empty when nothing in the catalogue fits, so that an empty answer is the right one."""
    language: str = ""


class EvaluationSet(msgspec.Struct, frozen=True, kw_only=True):
    """A catalogue and questions to it."""

    name: str
    tools: tuple[Tool, ...]
    questions: tuple[Question, ...]
    ids: Mapping[str, str]
    """The id of each tool by its name: ids are unique in the files, names only here."""


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


def read_evaluation_set(folder: str | Path) -> EvaluationSet:
    """Read `tools.jsonl` and `queries.jsonl` of a folder; a tool without an id goes by its name.

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
            raise _problem(path, number, f"The id {line.id!r} is there twice.")
        unknown = [it for it in line.relevant if it not in names]
        if unknown:
            what = f"No tool has the id {unknown[0]!r}; `relevant` lists ids of `tools.jsonl`."
            raise _problem(path, number, what)
        questions[line.id] = Question(
            id=line.id,
            text=line.query,
            relevant=frozenset(names[it] for it in line.relevant),
            language=line.lang or "",
        )
    if not questions:
        raise _problem(path, None, "There are no queries in it.")
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


def _add_tools(path: Path, tools: dict[str, Tool]) -> dict[str, str]:
    """Add the tools of a file to others, and return their names by their ids."""
    names: dict[str, str] = {}
    for number, line in _lines(path, _ToolLine):
        key = line.id or line.name
        if key in names:
            raise _problem(path, number, f"The id {key!r} is there twice.")
        name = line.name
        while name in tools:
            # Tools of different servers may share a name, a board has one of each. No searcher
            # takes a full stop for a word, so the ranking stays that of the name they share.
            name += "."
        try:
            tools[name] = _tool(line, name)
        except InvalidToolError as error:
            raise _problem(path, number, str(error)) from error
        names[key] = name
    if not names:
        raise _problem(path, None, "There are no tools in it.")
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
        what = f"{error.strerror or error}. A file with one JSON object a line is expected here."
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


class Definitions:
    """Tools by name, as a `SearchEngine` follows them; their schemas may be of any kind."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._lock = threading.Lock()
        self._news: dict[str, Tool | None] = {}
        self.revision: int = 0
        """That of the last change."""
        self.add(tools)

    def add(self, tools: Iterable[Tool]) -> None:
        """Put tools on the board, in place of those that have their names."""
        self._note({tool.name: tool for tool in tools})

    def remove(self, names: Iterable[str]) -> None:
        """Take tools off the board."""
        self._note(dict.fromkeys(names))

    def take(self) -> tuple[int, Mapping[str, Tool | None]]:
        """Return the revision, and what came or went since the last time."""
        with self._lock:
            news, self._news = self._news, {}
            return self.revision, news

    def _note(self, news: Mapping[str, Tool | None]) -> None:
        with self._lock:
            self._news.update(news)
            self.revision += 1
