"""RegistryTools's search algorithms: regex, BM25, embedding, hybrid, and custom ones."""

import hashlib
import logging
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import ClassVar

from pydantic import BaseModel, Field

from pegboard.compat.registrytools.bm25_okapi import Okapi
from pegboard.compat.registrytools.metadata import ToolMetadata
from pegboard.errors import InvalidPatternError, InvalidToolError
from pegboard.model import CatalogChange, Tool
from pegboard.search import Query, Searcher, SearchResponse, open_searcher

__all__ = [
    "DEFAULT_SEARCH_METHOD",
    "SUPPORTED_SEARCH_METHODS",
    "BM25Search",
    "EmbeddingSearch",
    "EmbeddingSearchLazyLoader",
    "HybridSearch",
    "RegexSearch",
    "SearchAlgorithm",
    "SearchMethod",
    "ToolIndexer",
    "ToolSearchResult",
    "get_supported_search_methods",
    "method_name",
    "results_of",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

_DEVICE = re.compile(r"auto|cpu|gpu|cuda|(gpu|cuda):.*")
# What RE2 writes otherwise than Python: escapes, also in classes, and possessive repetition.
_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_OTHER_SYNTAX = re.compile(
    rf"{_ESCAPE.pattern}|\[\^?\]?(?:\\.|[^\]\\])*\]|(?:[*+?]|\d,?\}})\+", re.DOTALL
)
# In RE2, `\w` and `\d` are those of ASCII.
_LETTERS = {r"\w": r"\p{L}\p{N}_", r"\d": r"\p{Nd}"}
# How much processor time a pattern may take in one search.
_REGEX_SECONDS = 2.0
# What a pattern is worth that is the whole of a text, and that is found in it.
_IN_NAME, _IN_DESCRIPTION, _IN_TAG = (1.0, 0.8), (0.6, 0.4), (0.5, 0.3)

_WorthOf = Callable[[str, tuple[float, float]], float]


class SearchMethod(str, Enum):  # noqa: UP042 - as there, so `str()` says the same
    """The search method; the default is `BM25`."""

    REGEX = "regex"
    BM25 = "bm25"
    EMBEDDING = "embedding"


DEFAULT_SEARCH_METHOD = SearchMethod.BM25
"""How `ToolRegistry.search` searches."""


def get_supported_search_methods() -> list[SearchMethod]:
    """Return the methods that work here: all of them."""
    return list(SearchMethod)


SUPPORTED_SEARCH_METHODS: list[SearchMethod] = get_supported_search_methods()
"""The methods that work here."""


class ToolSearchResult(BaseModel):
    """A tool that was found."""

    tool_name: str
    description: str
    score: float = Field(ge=0.0, le=1.0)
    """How well the tool fits, from 0 to 1."""
    match_reason: str
    """The algorithm's reason, such as ``bm25_keyword_similarity``."""


class SearchAlgorithm(ABC):
    """A search algorithm: subclass it, write `index` and `search`, and register it."""

    method: SearchMethod | str | None = None
    """Its search method; ``None`` for an algorithm that can be registered for any method."""

    # A subclass may forget to call `__init__`.
    _indexed: bool = False
    _tools: Sequence[ToolMetadata] = ()
    _tools_hash: str | None = None

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @abstractmethod
    def index(self, tools: list[ToolMetadata]) -> None:
        """Build an index of exactly these tools; a subclass may call this to remember them."""
        self._tools = list(tools)
        self._tools_hash = self._compute_tools_hash(tools)
        self._indexed = True

    def index_layered(
        self,
        hot_tools: list[ToolMetadata],
        warm_tools: list[ToolMetadata],
        cold_tools: list[ToolMetadata] | None = None,
    ) -> None:
        """Build an index of the hot, the warm and, if they are given, the cold tools."""
        self.index([*hot_tools, *warm_tools, *(cold_tools or ())])

    @abstractmethod
    def search(self, query: str, tools: list[ToolMetadata], limit: int) -> list[ToolSearchResult]:
        """Return the tools that fit, the best first, at most ``limit``.

        It is called from any thread, also while another thread searches or indexes.
        """

    def is_indexed(self) -> bool:
        """Tell whether there is an index."""
        return self._indexed

    # The rest is for subclasses, under the names that those of RegistryTools call.

    def _compute_tools_hash(self, tools: list[ToolMetadata]) -> str:
        """Return a hash of what can be searched for in these tools, in whatever order."""
        texts = sorted(
            (it.name, it.description, sorted(it.tags), it.category or "") for it in tools
        )
        return hashlib.sha256(repr(texts).encode("utf-8", "surrogatepass")).hexdigest()

    def _should_rebuild_index(self, tools: list[ToolMetadata]) -> bool:
        """Tell whether the index is one of other tools."""
        return self._compute_tools_hash(tools) != self._tools_hash

    def _filter_by_score(
        self, results: list[tuple[ToolMetadata, float]], limit: int
    ) -> list[ToolSearchResult]:
        """Return the best tools; the scores are stretched to 0 to 1, and are 1 if all are equal."""
        ranked = sorted(results, key=lambda it: -it[1])
        if not ranked:
            return []
        lowest = ranked[-1][1]
        span = ranked[0][1] - lowest
        reason = self._get_match_reason()
        return [
            ToolSearchResult(
                tool_name=tool.name,
                description=tool.description,
                score=(score - lowest) / span if span > 0 else 1.0,
                match_reason=reason,
            )
            for tool, score in ranked[:limit]
        ]

    def _get_match_reason(self) -> str:
        """Return what the results of this algorithm give as their reason."""
        return f"{method_name(self.method)}_match"


class _Ranking(SearchAlgorithm):
    """An algorithm that scores the tools of its index."""

    def search(self, query: str, tools: list[ToolMetadata], limit: int) -> list[ToolSearchResult]:
        """Return the tools that fit, the best first, at most ``limit``."""
        # The index holds the tools of one search: no other thread may change it meanwhile.
        with self._lock:
            if self._should_rebuild_index(tools):
                self.index(tools)
            scored = self._scored(query)
        return self._filter_by_score(scored, limit)

    @abstractmethod
    def _scored(self, query: str) -> list[tuple[ToolMetadata, float]]:
        """Return the tools with their scores."""


class RegexSearch(_Ranking):
    """Search by a regular expression, in linear time, in names, descriptions and tags.

    Args:
        case_sensitive: whether capital letters differ from small ones.
    """

    method: SearchMethod | str | None = SearchMethod.REGEX

    def __init__(self, case_sensitive: bool = False) -> None:  # noqa: FBT001, FBT002 - as there
        super().__init__()
        self.case_sensitive = case_sensitive

    def index(self, tools: list[ToolMetadata]) -> None:
        """Remember the tools."""
        super().index(tools)

    def search(self, query: str, tools: list[ToolMetadata], limit: int) -> list[ToolSearchResult]:
        """Return the tools that match, the best first; none when the pattern is invalid.

        Raises:
            InvalidPatternError: when the pattern cannot be searched for in linear time; it is a
                `ValueError`.
        """
        return super().search(query, tools, limit)

    def _scored(self, query: str) -> list[tuple[ToolMetadata, float]]:
        worth_of = _compiled(query, case_sensitive=self.case_sensitive)
        if worth_of is None:
            return []
        scored = [
            (
                tool,
                max(
                    worth_of(tool.name, _IN_NAME),
                    worth_of(tool.description, _IN_DESCRIPTION),
                    *(worth_of(tag, _IN_TAG) for tag in tool.tags),
                ),
            )
            for tool in self._tools
        ]
        return [(tool, worth) for tool, worth in scored if worth > 0]

    def _get_match_reason(self) -> str:
        return "regex_pattern_match"


class BM25Search(_Ranking):
    """Search by keywords, English and Chinese, in names, descriptions and tags.

    Args:
        k1: how much a word counts that occurs again in the same tool.
        b: how much less a word counts in a long text, 0 to 1.
        epsilon: which part of the average weight a word gets that most of the tools have.
    """

    method: SearchMethod | str | None = SearchMethod.BM25

    def __init__(self, k1: float = 1.5, b: float = 0.75, epsilon: float = 0.25) -> None:
        super().__init__()
        self.k1 = k1
        self.b = b
        self.epsilon = epsilon
        self._okapi: Okapi | None = None

    def index(self, tools: list[ToolMetadata]) -> None:
        """Count the words of the tools."""
        texts = [f"{it.name} {it.description} {' '.join(it.tags)}" for it in tools]
        options = {"k1": self.k1, "b": self.b, "epsilon": self.epsilon}
        okapi = Okapi(texts, **options) if texts else None
        with self._lock:
            super().index(tools)
            self._okapi = okapi

    def get_index_size(self) -> int:
        """Return how many tools the index has."""
        return len(self._tools)

    def _scored(self, query: str) -> list[tuple[ToolMetadata, float]]:
        scores = [] if self._okapi is None else self._okapi.scores(query)
        return list(zip(self._tools, scores, strict=True))

    def _get_match_reason(self) -> str:
        return "bm25_keyword_similarity"


class _Searching(_Ranking):
    """One of Pegboard's own searchers."""

    def __init__(self) -> None:
        super().__init__()
        self._indexer: ToolIndexer | None = None

    def index(self, tools: list[ToolMetadata]) -> None:
        """Update the index: add new and changed tools, and remove missing ones."""
        with self._lock:
            if tools:
                self._indexer = self._indexer or ToolIndexer(method_name(self.method))
                self._indexer.update(_described(tools))
            super().index(tools)

    def get_index_size(self) -> int:
        """Return how many tools the index has."""
        return len(self._tools) if self._indexer is not None else 0

    def _scored(self, query: str) -> list[tuple[ToolMetadata, float]]:
        if self._indexer is None or not self._tools:
            return []
        most = len(self._tools)
        asked = Query(text=query, limit=most, abstain=False, matches=False)
        hits = self._indexer.searcher.search(asked).hits if query.strip() else ()
        scores = {hit.tool.name: hit.score for hit in hits}
        return [(tool, scores.get(tool.name, 0.0)) for tool in self._tools]


class EmbeddingSearch(_Searching):
    """Search by meaning. The vectors are part of Pegboard: nothing is downloaded.

    Args:
        model_name: kept, but Pegboard's own vectors are used.
        _validated_device: like ``device``.
        device: ``cpu``, ``gpu:N``, ``cuda:N`` or ``auto``; it makes no difference here. By default
            it comes from the environment variable ``REGISTRYTOOLS_DEVICE``.

    Raises:
        ValueError: when the given device is none of these.
    """

    method: SearchMethod | str | None = SearchMethod.EMBEDDING
    DEFAULT_MODEL: ClassVar[str] = "paraphrase-multilingual-MiniLM-L12-v2"

    def __init__(
        self,
        model_name: str | None = None,
        _validated_device: str | None = None,
        *,
        device: str | None = None,
    ) -> None:
        super().__init__()
        self.model_name: str = model_name or self.DEFAULT_MODEL
        given = device or _validated_device
        self.device: str = given or os.environ.get("REGISTRYTOOLS_DEVICE", "").strip() or "cpu"
        if _DEVICE.fullmatch(self.device.lower()):
            return
        if given:
            raise ValueError(
                f"The device must be 'cpu', 'gpu:N', 'cuda:N' or 'auto', not {given!r}."
            )
        logger.warning("device_unknown", extra={"device": self.device})
        self.device = "cpu"

    def get_embedding_dimension(self) -> int | None:
        """Return how many numbers a vector has; ``None`` without an index."""
        if not self.get_index_size():
            return None
        # Imported only here: the table brings NumPy, which the metadata of tools do not need.
        from pegboard.search.word_table import open_table  # noqa: PLC0415

        return open_table().vectors.shape[1]

    def unload_model(self) -> None:
        """Release the index; the next search builds it again."""
        with self._lock:
            self._indexer, self._tools_hash = None, None

    def _get_match_reason(self) -> str:
        return "semantic_similarity"


class EmbeddingSearchLazyLoader(EmbeddingSearch):
    """The same as `EmbeddingSearch`, which reads its vectors at the first search anyway."""

    def __init__(self) -> None:
        super().__init__()


class HybridSearch(_Searching):
    """Search by keywords and meaning together: Pegboard's own default."""

    method: SearchMethod | str | None = "hybrid"


class ToolIndexer:
    """One of Pegboard's searchers, which learns what changes from one list of tools to the next."""

    def __init__(self, method: str) -> None:
        self.searcher: Searcher = open_searcher(method)
        self._known: dict[str, Tool] = {}
        self._revision = 0

    def update(self, tools: Iterable[Tool]) -> None:
        """Add the new and changed tools to the index, and remove the missing ones."""
        known = self._known
        wanted = {tool.name: tool for tool in tools}
        change = CatalogChange(
            revision=self._revision + 1,
            added=tuple(tool for name, tool in wanted.items() if name not in known),
            changed=tuple(
                tool for name, tool in wanted.items() if name in known and tool != known[name]
            ),
            removed=tuple(tool for name, tool in known.items() if name not in wanted),
        )
        if change.added or change.changed or change.removed:
            self.searcher.apply(change)
        self._known, self._revision = wanted, change.revision


def results_of(answer: SearchResponse) -> list[ToolSearchResult]:
    """Return a search response in the form of the document: by descending score."""
    results: list[ToolSearchResult] = []
    score = 1.0
    for hit in answer.hits:
        # Keeps the order of the hits: a later hit may have a higher confidence than an earlier one.
        score = min(score, max(0.0, hit.confidence))
        fields = (("tag" if it.field == "tags" else it.field, it.words) for it in hit.matches)
        reason = "; ".join(f"{field}: {', '.join(words)}".rstrip(": ") for field, words in fields)
        results.append(
            ToolSearchResult(
                tool_name=hit.tool.name,
                description=hit.tool.description,
                score=score,
                match_reason=reason,
            )
        )
    return results


def method_name(method: object) -> str:
    """Return the name of a search method."""
    return str(method.value if isinstance(method, SearchMethod) else method)


def _described(tools: Iterable[ToolMetadata]) -> Iterable[Tool]:
    """Yield what is searched of the tools; one whose name no tool of Pegboard has is not found."""
    for tool in tools:
        try:
            tags = tuple(sorted(tool.tags))
            yield Tool(name=tool.name, description=tool.description, tags=tags)
        except InvalidToolError:
            continue


def _compiled(query: str, *, case_sensitive: bool) -> _WorthOf | None:
    """Return what tells how a pattern fits a text; nothing when the pattern is invalid."""
    # Imported only here: RE2 costs more than all the rest of a start.
    from pegboard.search.methods.regex_patterns import compile_pattern  # noqa: PLC0415

    source = f"{'(?-i)' if case_sensitive else ''}{_OTHER_SYNTAX.sub(_in_re2, query)}"
    try:
        pattern = compile_pattern(source, seconds=_REGEX_SECONDS)
        whole = compile_pattern(f"^(?:{source})$", seconds=_REGEX_SECONDS)
    except InvalidPatternError as error:
        try:
            re.compile(query)
        except re.error:
            return None
        raise InvalidPatternError(query, error.problem) from None

    def worth_of(text: str, worths: tuple[float, float]) -> float:
        if pattern.first(text) is None:
            return 0.0
        return worths[0] if whole.first(text) is not None else worths[1]

    return worth_of


def _in_re2(found: re.Match[str]) -> str:
    token = found[0]
    if token.startswith("["):
        return _ESCAPE.sub(_escape_in_re2, token)
    if token.startswith("\\"):
        escape = _escape_in_re2(found)
        return f"[{escape}]" if token in _LETTERS else escape
    # Possessive repetition; RE2 tries nothing twice anyway.
    return token[:-1]


def _escape_in_re2(found: re.Match[str]) -> str:
    token = found[0]
    return rf"\x{{{token[2:]}}}" if token.startswith("\\u") else _LETTERS.get(token, token)
