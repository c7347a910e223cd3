"""RegistryTools's search algorithms: regex, BM25, embedding, hybrid, and custom ones."""

import re
import threading
from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar

from pydantic import BaseModel, Field

from pegboard.compat.registrytools.metadata import ToolMetadata, tool_of
from pegboard.model import CatalogChange, Tool
from pegboard.search import Query, Searcher, SearchResponse, open_searcher

__all__ = [
    "KEYWORDS",
    "BM25Search",
    "EmbeddingSearch",
    "HybridSearch",
    "RegexSearch",
    "SearchAlgorithm",
    "SearchMethod",
    "ToolSearchResult",
    "results_of",
]

_DEVICE = re.compile(r"auto|cpu|(gpu|cuda)(:\d+)?")


class SearchMethod(StrEnum):
    """The search method; the default is `BM25`. `HYBRID` is Pegboard's own."""

    REGEX = "regex"
    BM25 = "bm25"
    EMBEDDING = "embedding"
    HYBRID = "hybrid"


KEYWORDS = frozenset({SearchMethod.BM25})
"""For these methods, one common word is enough for a hit, as in the document."""


class ToolSearchResult(BaseModel):
    """A tool that was found."""

    tool_name: str
    description: str
    score: float = Field(ge=0.0, le=1.0)
    """How likely the tool fits the query, from 0 to 1."""
    match_reason: str
    """Where it matched, and by which words: ``name: send; tag: mail``."""


class SearchAlgorithm(ABC):
    """A search algorithm: subclass it, write `index` and `search`, and register it."""

    method: ClassVar[SearchMethod | str | None] = None
    """Its search method; ``None`` for an algorithm that can be registered for any method."""

    @abstractmethod
    def index(self, tools: list[ToolMetadata]) -> None:
        """Build an index of exactly these tools."""

    @abstractmethod
    def search(self, query: str, tools: list[ToolMetadata], limit: int) -> list[ToolSearchResult]:
        """Return the tools that fit, the best first, at most ``limit``.

        It is called from any thread, also while another thread searches or indexes.
        """


class _Searching(SearchAlgorithm):
    """One of Pegboard's own searchers, with an index of the tools it is given."""

    def __init__(self) -> None:
        # The index holds the tools of one search: no other thread may change it meanwhile.
        self._lock = threading.RLock()
        self._searcher: Searcher | None = None
        self._known: dict[str, Tool] = {}
        self._revision = 0

    def index(self, tools: list[ToolMetadata]) -> None:
        """Update the index: add new and changed tools, and remove missing ones."""
        wanted = {tool.name: tool_of(tool) for tool in tools}
        with self._lock:
            known = self._known
            change = CatalogChange(
                revision=self._revision + 1,
                added=tuple(tool for name, tool in wanted.items() if name not in known),
                changed=tuple(
                    tool for name, tool in wanted.items() if name in known and tool != known[name]
                ),
                removed=tuple(tool for name, tool in known.items() if name not in wanted),
            )
            searcher = self._searcher or open_searcher(str(self.method))
            if change.added or change.changed or change.removed:
                searcher.apply(change)
            self._searcher, self._known, self._revision = searcher, wanted, change.revision

    def search(self, query: str, tools: list[ToolMetadata], limit: int) -> list[ToolSearchResult]:
        """Return the tools that fit, the best first, at most ``limit``.

        Raises:
            InvalidQueryError: when the query is invalid; it is a `ValueError`.
        """
        abstain = self.method not in KEYWORDS
        with self._lock:
            self.index(tools)
            searcher = self._searcher
            if searcher is None or not query.strip() or limit < 1:
                return []
            return results_of(searcher.search(Query(text=query, limit=limit, abstain=abstain)))


class RegexSearch(_Searching):
    """Search by a regular expression, in linear time, and by exact names."""

    method: ClassVar[SearchMethod | str | None] = SearchMethod.REGEX


class BM25Search(_Searching):
    """Search by keywords, English and Chinese."""

    method: ClassVar[SearchMethod | str | None] = SearchMethod.BM25


class EmbeddingSearch(_Searching):
    """Search by meaning. The vectors are part of Pegboard: nothing is downloaded.

    Args:
        device: ``cpu``, ``gpu:N``, ``cuda:N`` or ``auto``; it makes no difference here.

    Raises:
        ValueError: when the device is none of these.
    """

    method: ClassVar[SearchMethod | str | None] = SearchMethod.EMBEDDING

    def __init__(self, device: str = "auto") -> None:
        if not _DEVICE.fullmatch(device):
            raise ValueError(
                f"The device must be 'cpu', 'gpu:N', 'cuda:N' or 'auto', not {device!r}."
            )
        super().__init__()
        self.device = device

    def unload_model(self) -> None:
        """Release the index; the next search builds it again."""
        with self._lock:
            self._searcher, self._known = None, {}


class HybridSearch(_Searching):
    """Search by keywords and meaning together: Pegboard's own default."""

    method: ClassVar[SearchMethod | str | None] = SearchMethod.HYBRID


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
