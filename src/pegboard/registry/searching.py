"""Searching: the ranking of `Registry.search`: groups, the caller's filter, usage boost, budget."""

from collections.abc import Iterable

from pegboard.errors import SearcherNotFoundError
from pegboard.model import Tool
from pegboard.model.tool_names import nearest_names
from pegboard.registry.catalog import Catalog
from pegboard.registry.persistence import Persistence
from pegboard.registry.usage_boost import UsageBoost
from pegboard.search.engine import SearchEngine
from pegboard.search.facets import hint
from pegboard.search.options import (
    DEFAULT_METHOD,
    Boost,
    SearchOptions,
    Visible,
    names_of,
    queries_of,
)
from pegboard.search.searcher import SearchResponse
from pegboard.storage.open_store import index_place

__all__ = ["Searching"]

_SHOWN = 5
_QUICK = frozenset({"bm25", "hybrid", "embedding"})
_SHORT, _FEW = 300, 50_000
"""A query of at most this length over at most this many tools takes about a millisecond."""


class Searching:
    """Searches the visible tools of a catalogue; the engine below knows no groups and no usage."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._usage_boost: UsageBoost | None = None
        self.engine: SearchEngine = SearchEngine(catalog.follow)

    def keep_with(self, keeping: Persistence) -> None:
        """Prefer the tools that a storage has counted calls of; keep the index beside it."""
        self._usage_boost = UsageBoost(keeping.counter.usage)
        self.engine.keep_index_at(index_place(keeping.store))

    def let_go(self) -> None:
        """Save the index, and stop preferring used tools."""
        self._usage_boost = None
        self.engine.save_index()
        self.engine.keep_index_at(None)

    def is_quick(self, text: object, method: str) -> bool:
        """Tell whether a search takes about a millisecond; see `Registry.is_search_quick`."""
        if method not in _QUICK or not isinstance(text, str) or len(text) > _SHORT:
            return False
        if len(self._catalog.entries) > _FEW:
            return False
        has_usage = self._usage_boost is None or self._usage_boost.is_known
        return has_usage and self.engine.is_warm(method)

    def search_many(
        self, texts: Iterable[str], options: SearchOptions, *, where: Visible | None = None
    ) -> list[SearchResponse]:
        """Return the tools that fit each of many texts; see `Registry.search_many`."""
        if self._catalog.documents and not options.get("documents", False):
            where = self._only_tools(where)
        groups = names_of("groups", options.get("groups", ()))
        visible = self._in_groups(groups, where) if groups else where
        queries = queries_of(texts, options, visible=visible, boost=self._boost(options))
        method = options.get("method", DEFAULT_METHOD)
        if not queries:
            return []
        if visible is not None and groups and not any(map(visible, self._tools())):
            # No tool is left to find, so the search is not worth its time.
            if method not in (known := self.engine.methods()):
                raise SearcherNotFoundError(method, known=known)
            return [SearchResponse(hints=self._group_hints(groups, where))] * len(queries)
        return self.engine.search_many(queries, method=method, budget=options.get("budget"))

    def _only_tools(self, where: Visible | None) -> Visible:
        documents = self._catalog.documents

        def is_tool(tool: Tool) -> bool:
            return tool.name not in documents and (where is None or where(tool))

        return is_tool

    def _in_groups(self, groups: frozenset[str], where: Visible | None) -> Visible:
        entries = self._catalog.entries

        def belongs(tool: Tool) -> bool:
            entry = entries.get(tool.name)
            in_group = entry is not None and not groups.isdisjoint(entry.groups)
            return in_group and (where is None or where(tool))

        return belongs

    def _boost(self, options: SearchOptions) -> Boost | None:
        if self._usage_boost is None or not options.get("usage", True):
            return None
        boosts = self._usage_boost.current()
        return (lambda name: boosts.get(name, 0.0)) if boosts else None

    def _tools(self) -> list[Tool]:
        return [entry.tool for entry in list(self._catalog.entries.values())]

    def _group_hints(self, groups: frozenset[str], where: Visible | None) -> tuple[str, ...]:
        """Return groups that the caller may have meant, among those with a tool it may see."""
        entries = list(self._catalog.entries.values())
        known = {
            group
            for entry in entries
            if where is None or where(entry.tool)
            for group in entry.groups
        }
        near = [name for group in sorted(groups) for name in nearest_names(group, known)]
        return tuple(hint("group", name) for name in (near or sorted(known))[:_SHOWN])
