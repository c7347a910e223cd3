"""SearchAlgorithm: the ways to search of the RegistryTools document, and those of one's own."""

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
    """How to search; `BM25` unless you say otherwise. `HYBRID` is Pegboard's own."""

    REGEX = "regex"
    BM25 = "bm25"
    EMBEDDING = "embedding"
    HYBRID = "hybrid"


KEYWORDS = frozenset({SearchMethod.BM25})
"""For these a word in common is reason enough to answer, as the document has it."""


class ToolSearchResult(BaseModel):
    """A tool that was found."""

    tool_name: str
    description: str
    score: float = Field(ge=0.0, le=1.0)
    """How likely it is what was asked for, 0 to 1."""
    match_reason: str
    """Where it matched, and by which words: ``name: send; tag: mail``."""


class SearchAlgorithm(ABC):
    """A way to search: subclass it, write `index` and `search`, and register it."""

    method: ClassVar[SearchMethod | str | None] = None
    """What it is; ``None`` for one that can be registered under any name."""

    @abstractmethod
    def index(self, tools: list[ToolMetadata]) -> None:
        """Prepare to search these tools, and no others."""

    @abstractmethod
    def search(self, query: str, tools: list[ToolMetadata], limit: int) -> list[ToolSearchResult]:
        """Return those of the tools that fit, the best first, at most ``limit``.

        Called from any thread, also while another one searches or indexes.
        """


class _Searching(SearchAlgorithm):
    """One of Pegboard's own searchers, with an index of its own that follows what it is given."""

    def __init__(self) -> None:
        # An index is of the tools of one search: nobody else may change it meanwhile.
        self._lock = threading.RLock()
        self._searcher: Searcher | None = None
        self._known: dict[str, Tool] = {}
        self._revision = 0

    def index(self, tools: list[ToolMetadata]) -> None:
        """Take in what is new or different since the last time, and forget what is gone."""
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
        """Return those of the tools that fit, the best first, at most ``limit``.

        Raises:
            InvalidQueryError: when it cannot be searched for; it is a `ValueError`.
        """
        abstain = self.method not in KEYWORDS
        with self._lock:
            self.index(tools)
            searcher = self._searcher
            if searcher is None or not query.strip() or limit < 1:
                return []
            return results_of(searcher.search(Query(text=query, limit=limit, abstain=abstain)))


class RegexSearch(_Searching):
    """By a regular expression, in linear time; exact names."""

    method: ClassVar[SearchMethod | str | None] = SearchMethod.REGEX


class BM25Search(_Searching):
    """By keywords, English and Chinese."""

    method: ClassVar[SearchMethod | str | None] = SearchMethod.BM25


class EmbeddingSearch(_Searching):
    """By meaning. The vectors come with Pegboard: nothing is downloaded, and any device will do.

    Args:
        device: ``cpu``, ``gpu:N``, ``cuda:N`` or ``auto``; they are all the same here.

    Raises:
        ValueError: when the device is none of these.
    """

    method: ClassVar[SearchMethod | str | None] = SearchMethod.EMBEDDING

    def __init__(self, device: str = "auto") -> None:
        if not _DEVICE.fullmatch(device):
            raise ValueError(f"A device is 'cpu', 'gpu:N', 'cuda:N' or 'auto', not {device!r}.")
        super().__init__()
        self.device = device

    def unload_model(self) -> None:
        """Let go of the index; the next search makes it again."""
        with self._lock:
            self._searcher, self._known = None, {}


class HybridSearch(_Searching):
    """By keywords and meaning together: Pegboard's own default."""

    method: ClassVar[SearchMethod | str | None] = SearchMethod.HYBRID


def results_of(answer: SearchResponse) -> list[ToolSearchResult]:
    """Return an answer as the document has it: by descending score."""
    results: list[ToolSearchResult] = []
    score = 1.0
    for hit in answer.hits:
        # The order is that of the hits, which one of them alone may be surer of than it is first.
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
