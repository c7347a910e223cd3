"""RegistryTools's `ToolRegistry`: register metadata of tools, search them, count their use."""

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from pegboard.compat.registrytools.algorithms import (
    SearchAlgorithm,
    SearchMethod,
    ToolIndexer,
    ToolSearchResult,
    method_name,
    results_of,
)
from pegboard.compat.registrytools.metadata import (
    HOT_TOOL_INACTIVE_DAYS,
    WARM_TOOL_INACTIVE_DAYS,
    ToolMetadata,
    ToolTemperature,
    local_time,
    temperature_of,
    tool_of,
)
from pegboard.compat.registrytools.storage import ToolStorage
from pegboard.errors import InvalidQueryError, InvalidToolError
from pegboard.model import Tool
from pegboard.registry.usage_boost import usage_boost_of
from pegboard.search.options import SearchOptions, query_of

__all__ = ["ToolRegistry"]

# The words by which users of RegistryTools know these errors.
_OTHER_METHOD = "搜索器类型不匹配"
_NOT_REGISTERED = "搜索方法 {} 未注册"
_COOLER = {ToolTemperature.HOT: ToolTemperature.WARM, ToolTemperature.WARM: ToolTemperature.COLD}
_IDLE_DAYS = {
    ToolTemperature.HOT: HOT_TOOL_INACTIVE_DAYS,
    ToolTemperature.WARM: WARM_TOOL_INACTIVE_DAYS,
}


class ToolRegistry:
    """The tools by name; any number of threads may use it.

    It searches by the algorithms that you register. Without any, it searches by Pegboard's own:
    then ``match_reason`` names the fields and words that match, and ``score`` is a confidence.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tools: dict[str, ToolMetadata] = {}
        # By these names, because the subclasses and tests of RegistryTools's users read them.
        self._hot_tools: dict[str, ToolMetadata] = {}
        self._warm_tools: dict[str, ToolMetadata] = {}
        self._cold_tools: dict[str, ToolMetadata] = {}
        self._categories: dict[str, None] = {}
        self._searchers: dict[str, SearchAlgorithm] = {}
        self._indexers: dict[str, ToolIndexer] = {}
        self._changes = 0
        self._indexed: dict[str, tuple[int, bool]] = {}

    def register(self, tool: ToolMetadata) -> None:
        """Register a tool, and set its temperature; it replaces a tool of the same name.

        After you edit a tool, register it again.
        """
        with self._lock:
            self._tools[tool.name] = tool
            if tool.category:
                self._categories[tool.category] = None
            self._place(tool, self._classify_tool_temperature(tool))

    def register_many(self, tools: Iterable[ToolMetadata]) -> None:
        """Register many tools."""
        for tool in tools:
            self.register(tool)

    def unregister(self, tool_name: str) -> bool:
        """Remove a tool, and tell whether it existed."""
        with self._lock:
            if self._tools.pop(tool_name, None) is None:
                return False
            self._displace(tool_name)
            return True

    def clear(self) -> None:
        """Remove all tools and categories."""
        with self._lock:
            for names in (self._tools, self._categories, *self._layers().values()):
                names.clear()
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
        """Return the categories that tools were registered with."""
        return list(self._categories)

    @property
    def tool_count(self) -> int:
        """How many tools there are."""
        return len(self._tools)

    @property
    def category_count(self) -> int:
        """How many categories there are."""
        return len(self._categories)

    def is_empty(self) -> bool:
        """Tell whether there are no tools."""
        return not self._tools

    def search(
        self, query: str, method: SearchMethod | str = SearchMethod.BM25, limit: int = 5
    ) -> list[ToolSearchResult]:
        """Return the tools that fit, the best first.

        Raises:
            InvalidQueryError: when the query is invalid, or no searcher is registered for the
                method; it is a `ValueError`.
        """
        if not self._tools:
            return []
        searcher = self._searcher(method)
        if searcher is None:
            return self._search(query, method, limit, among=None)
        tools = self.list_tools()
        self._index(method, searcher, tools, used=False)
        return searcher.search(query, tools, limit)

    def search_many(
        self, queries: Iterable[str], method: SearchMethod | str = SearchMethod.BM25, limit: int = 5
    ) -> list[list[ToolSearchResult]]:
        """Return the results of many queries, in their order."""
        return [self.search(query, method, limit) for query in queries]

    def search_hot_warm(
        self, query: str, method: SearchMethod | str = SearchMethod.BM25, limit: int = 5
    ) -> list[ToolSearchResult]:
        """Search only the hot and warm tools.

        Raises:
            InvalidQueryError: as `search` does.
        """
        searcher = self._searcher(method)
        tools = [*self._hot_tools.values(), *self._warm_tools.values()]
        if not tools:
            return []
        if searcher is None:
            return self._search(query, method, limit, among=self._is_used)
        self._index(method, searcher, tools, used=True)
        return searcher.search(query, tools, limit)

    def update_usage(self, tool_name: str) -> bool:
        """Count one use of a tool, and tell whether there is such a tool.

        When the tool is hot or warm then, those that were not used for long cool down.
        """
        with self._lock:
            tool = self._tools.get(tool_name)
            if tool is None:
                return False
            tool.use_frequency += 1
            tool.last_used = local_time()
            temperature = self._classify_tool_temperature(tool)
            if temperature is not tool.temperature:
                self._place(tool, temperature)
            if temperature is not ToolTemperature.COLD:
                for layer in (self._hot_tools, self._warm_tools):
                    for name in [
                        it.name for it in layer.values() if self._check_downgrade_tool(it)
                    ]:
                        self._downgrade_tool(name)
            return True

    def get_usage_stats(self) -> dict[str, int]:
        """Return how often each tool was used."""
        return {tool.name: tool.use_frequency for tool in self.list_tools()}

    def get_most_used(self, limit: int = 10) -> list[ToolMetadata]:
        """Return the tools that were used most, at most ``limit``."""
        return sorted(self.list_tools(), key=lambda tool: -tool.use_frequency)[:limit]

    def load_hot_tools(self, storage: ToolStorage, limit: int | None = None) -> int:
        """Register the hot tools of a storage that are missing here, and return how many it has."""
        hot = storage.load_by_temperature(ToolTemperature.HOT, limit)
        self.register_many([tool for tool in hot if tool.name not in self._tools])
        return len(hot)

    def register_searcher(self, method: SearchMethod | str, searcher: SearchAlgorithm) -> None:
        """Use an algorithm for a search method. Others have to be registered, too, from then on.

        Raises:
            ValueError: when it is for another method.
        """
        if searcher.method not in (None, method):
            raise ValueError(
                f"{_OTHER_METHOD}: this searcher is for {method_name(searcher.method)!r}, "
                f"not {method_name(method)!r}."
            )
        with self._lock:
            self._searchers[method_name(method)] = searcher
            self._indexed.pop(method_name(method), None)

    def get_searcher(self, method: SearchMethod | str) -> SearchAlgorithm | None:
        """Return the algorithm that is registered for a method; ``None`` if there is none."""
        return self._searchers.get(method_name(method))

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes now. This is optional: an index follows every change by itself."""
        for method, searcher in list(self._searchers.items()):
            with self._lock:
                self._indexed.pop(method, None)
            self._index(method, searcher, self.list_tools(), used=False)

    def _searcher(self, method: SearchMethod | str) -> SearchAlgorithm | None:
        """Return the algorithm for a method, or nothing for Pegboard's own."""
        found = self.get_searcher(method)
        if found is None and self._searchers:
            name, known = method_name(method), ", ".join(map(repr, self._searchers))
            raise InvalidQueryError(
                f"{_NOT_REGISTERED.format(name)}: no searcher is registered for {name!r}, only for "
                f"{known}. Call `register_searcher` first.",
                option="method",
            )
        return found

    def _index(
        self,
        method: SearchMethod | str,
        searcher: SearchAlgorithm,
        tools: list[ToolMetadata],
        *,
        used: bool,
    ) -> None:
        """Let an algorithm index the tools, unless it has done so since the last change."""
        if not isinstance(searcher, SearchAlgorithm):  # pyright: ignore[reportUnnecessaryIsInstance]
            # Any object with a `search` will do, as there.
            return
        name = method_name(method)
        with self._lock:
            state = self._changes, used
            if self._indexed.get(name) != state:
                searcher.index(tools)
                self._indexed[name] = state

    def _search(
        self,
        query: str,
        method: SearchMethod | str,
        limit: int,
        *,
        among: Callable[[Tool], bool] | None,
    ) -> list[ToolSearchResult]:
        """Search by one of Pegboard's own methods, as the gateway does."""
        name = method_name(method)
        # With BM25, one common word is enough for a hit.
        options: SearchOptions = {"limit": limit, "abstain": name != SearchMethod.BM25.value}
        asked = query_of(query, options, visible=among, boost=self._usage_boost)
        with self._lock:
            if name not in self._indexers:
                self._indexers[name] = ToolIndexer(name)
            indexer = self._indexers[name]
            if self._indexed.get(name) != (self._changes, False):
                indexer.update(self._definitions())
                self._indexed[name] = self._changes, False
        return results_of(indexer.searcher.search(asked))

    def _definitions(self) -> Iterator[Tool]:
        for tool in self.list_tools():
            try:
                yield tool_of(tool)
            except InvalidToolError:
                # A registry keeps it, but Pegboard's search has no tool of such a name.
                continue

    def _is_used(self, tool: Tool) -> bool:
        return tool.name in self._hot_tools or tool.name in self._warm_tools

    def _usage_boost(self, name: str) -> float:
        tool = self._tools.get(name)
        return 0.0 if tool is None else usage_boost_of(tool.usage, datetime.now(UTC))

    def _layers(self) -> dict[ToolTemperature, dict[str, ToolMetadata]]:
        return {
            ToolTemperature.HOT: self._hot_tools,
            ToolTemperature.WARM: self._warm_tools,
            ToolTemperature.COLD: self._cold_tools,
        }

    def _place(self, tool: ToolMetadata, temperature: ToolTemperature) -> None:
        self._displace(tool.name)
        tool.temperature = temperature
        self._layers()[temperature][tool.name] = tool

    def _displace(self, tool_name: str) -> None:
        for layer in self._layers().values():
            layer.pop(tool_name, None)
        self._changes += 1

    def _classify_tool_temperature(self, tool: ToolMetadata) -> ToolTemperature:
        return temperature_of(tool.use_frequency)

    def _cool_down(self, layer: dict[str, ToolMetadata]) -> None:
        for tool in list(layer.values()):
            if self._check_downgrade_tool(tool):
                self._downgrade_tool(tool.name)

    def _check_downgrade_tool(self, tool: ToolMetadata) -> bool:
        """Tell whether a tool was not used for so long that it cools down."""
        if tool.last_used is None or tool.temperature not in _IDLE_DAYS:
            return False
        return (local_time() - local_time(tool.last_used)).days >= _IDLE_DAYS[tool.temperature]

    def _downgrade_tool(self, tool_name: str) -> bool:
        """Make a tool cooler by one step, and tell whether that was possible."""
        tool = self._tools.get(tool_name)
        if tool is None or tool.temperature not in _COOLER:
            return False
        self._place(tool, _COOLER[tool.temperature])
        return True
