"""RegistryTools's `ToolRegistry`: register metadata of tools, search them, count their use."""

import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from pegboard.compat.registrytools.algorithms import (
    KEYWORDS,
    SearchAlgorithm,
    SearchMethod,
    ToolSearchResult,
    results_of,
)
from pegboard.compat.registrytools.metadata import ToolMetadata, tool_of
from pegboard.compat.registrytools.storage import ToolStorage
from pegboard.model import Temperature, Tool
from pegboard.registry import Registry
from pegboard.registry.usage_boost import usage_boost_of
from pegboard.search.options import SearchOptions, query_of

__all__ = ["ToolRegistry"]


class ToolRegistry:
    """The tools by name; any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tools: dict[str, ToolMetadata] = {}
        self._registry = Registry()
        self._algorithms: dict[str, SearchAlgorithm] = {}
        self._changes = 0
        self._indexed: dict[str, int] = {}

    def register(self, tool: ToolMetadata) -> None:
        """Register a tool; it replaces a tool of the same name.

        After you edit a tool, register it again.

        Raises:
            InvalidToolError: when the tool is invalid.
        """
        self.register_many([tool])

    def register_many(self, tools: Iterable[ToolMetadata]) -> None:
        """Register many tools, all or none."""
        given = {tool.name: tool for tool in tools}
        definitions = [tool_of(tool) for tool in given.values()]
        with self._lock:
            self._registry.register_many(definitions, on_conflict="override")
            self._tools.update(given)
            self._changes += 1

    def unregister(self, tool_name: str) -> bool:
        """Remove a tool, and tell whether it existed."""
        with self._lock:
            if self._tools.pop(tool_name, None) is None:
                return False
            self._registry.unregister(tool_name)
            self._changes += 1
            return True

    def clear(self) -> None:
        """Remove all tools."""
        with self._lock:
            self._registry.register_many([], replacing=list(self._tools))
            self._tools.clear()
            self._changes += 1

    def get_tool(self, name: str) -> ToolMetadata | None:
        """Return a tool, or ``None``."""
        return self._tools.get(name)

    def get_tools(self, names: Iterable[str]) -> dict[str, ToolMetadata]:
        """Return many tools by name; unknown names are left out."""
        return {name: tool for name in names if (tool := self._tools.get(name)) is not None}

    def list_tools(self, category: str | None = None) -> list[ToolMetadata]:
        """Return all tools, or those of a category."""
        tools = list(self._tools.values())
        return [tool for tool in tools if tool.category == category] if category else tools

    def list_categories(self) -> list[str]:
        """Return the categories of the tools."""
        found = {tool.category: None for tool in self.list_tools()}
        return [category for category in found if category is not None]

    @property
    def tool_count(self) -> int:
        """How many tools there are."""
        return len(self._tools)

    @property
    def category_count(self) -> int:
        """How many categories there are."""
        return len(self.list_categories())

    def is_empty(self) -> bool:
        """Tell whether there are no tools."""
        return not self._tools

    def search(
        self, query: str, method: SearchMethod | str = SearchMethod.BM25, limit: int = 5
    ) -> list[ToolSearchResult]:
        """Return the tools that fit, the best first.

        Raises:
            InvalidQueryError: when the query is invalid, or the method is unknown; it is a
                `ValueError`.
        """
        return self._search(query, method, limit, among=None)

    def search_many(
        self, queries: Iterable[str], method: SearchMethod | str = SearchMethod.BM25, limit: int = 5
    ) -> list[list[ToolSearchResult]]:
        """Return the results of many queries, in their order."""
        return [self.search(query, method, limit) for query in queries]

    def search_hot_warm(
        self, query: str, method: SearchMethod | str = SearchMethod.BM25, limit: int = 5
    ) -> list[ToolSearchResult]:
        """Search only the hot and warm tools."""
        return self._search(query, method, limit, among=self._is_used)

    def update_usage(self, tool_name: str) -> bool:
        """Count one use of a tool, and tell whether there is such a tool."""
        with self._lock:
            tool = self._tools.get(tool_name)
            if tool is None:
                return False
            tool.use_frequency += 1
            tool.last_used = datetime.now(UTC)
            return True

    def get_usage_stats(self) -> dict[str, int]:
        """Return how often each tool was used."""
        return {tool.name: tool.use_frequency for tool in self.list_tools()}

    def get_most_used(self, limit: int = 10) -> list[ToolMetadata]:
        """Return the tools that were used most, at most ``limit``."""
        return sorted(self.list_tools(), key=lambda tool: -tool.use_frequency)[:limit]

    def load_hot_tools(self, storage: ToolStorage, limit: int | None = None) -> int:
        """Register the hot tools of a storage that are missing here, and return how many it has."""
        hot = storage.load_by_temperature(Temperature.HOT, limit)
        self.register_many([tool for tool in hot if tool.name not in self._tools])
        return len(hot)

    def register_searcher(self, method: SearchMethod | str, searcher: SearchAlgorithm) -> None:
        """Use an algorithm of your own for a search method.

        Raises:
            TypeError: when it is not a `SearchAlgorithm`.
            ValueError: when it is for another method.
        """
        if not isinstance(searcher, SearchAlgorithm):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"A searcher must be a SearchAlgorithm, not {type(searcher).__name__!r}."
            )
        if searcher.method not in (None, method):
            raise ValueError(f"This searcher is for {str(searcher.method)!r}, not {str(method)!r}.")
        with self._lock:
            self._algorithms[str(method)] = searcher
            self._indexed.pop(str(method), None)

    def get_searcher(self, method: SearchMethod | str) -> SearchAlgorithm | None:
        """Return your own algorithm for a method; ``None`` when Pegboard's own is used."""
        return self._algorithms.get(str(method))

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes now. This is optional: an index follows every change by itself."""
        for method in list(self._algorithms):
            self._index(method, anew=True)

    def _search(
        self,
        query: str,
        method: SearchMethod | str,
        limit: int,
        *,
        among: Callable[[ToolMetadata], bool] | None,
    ) -> list[ToolSearchResult]:
        name = str(method)
        options: SearchOptions = {"limit": limit, "abstain": name not in KEYWORDS}
        asked = query_of(query, options, visible=self._seen(among), boost=self._usage_boost)
        algorithm = self._algorithms.get(name)
        if algorithm is None:
            return results_of(self._registry.search_engine.search(asked, method=name))
        self._index(name)
        tools = [tool for tool in self.list_tools() if among is None or among(tool)]
        found = algorithm.search(query, tools, limit)
        return sorted(found, key=lambda result: -result.score)[:limit]

    def _index(self, method: str, *, anew: bool = False) -> None:
        with self._lock:
            if anew or self._indexed.get(method) != self._changes:
                self._algorithms[method].index(self.list_tools())
                self._indexed[method] = self._changes

    def _seen(self, among: Callable[[ToolMetadata], bool] | None) -> Callable[[Tool], bool] | None:
        if among is None:
            return None

        def seen(tool: Tool) -> bool:
            metadata = self._tools.get(tool.name)
            return metadata is not None and among(metadata)

        return seen

    def _is_used(self, tool: ToolMetadata) -> bool:
        return tool.temperature is not Temperature.COLD

    def _usage_boost(self, name: str) -> float:
        tool = self._tools.get(name)
        return 0.0 if tool is None else usage_boost_of(tool.usage, datetime.now(UTC))
