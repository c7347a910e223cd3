"""Searching: what a registry adds to the search engine, which knows neither groups nor use."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from pegboard.errors import SearcherNotFoundError
from pegboard.model import Tool
from pegboard.model.tool_names import nearest_names
from pegboard.registry.catalog import Catalog
from pegboard.registry.persistence import Persistence
from pegboard.registry.usage_boost import UsageBoost
from pegboard.search.engine import DEFAULT_METHOD, SearchEngine
from pegboard.search.facets import hint
from pegboard.search.options import Boost, SearchOptions, Visible, names_of, queries_of
from pegboard.search.searcher import SearchResponse
from pegboard.storage import DEFAULT_TENANT, Store
from pegboard.storage.open_store import path_of, scheme_of

__all__ = ["Searching", "index_place"]

_FILES = ("json", "sqlite")


def index_place(store: Store) -> Path | None:
    """Return a file beside the store, or in the user's cache; ``None`` if the store is no place."""
    try:
        scheme = scheme_of(store.url)
    except ValueError:
        return None
    if scheme in _FILES:
        path = path_of(store.url).absolute()
        tenant = "" if store.tenant == DEFAULT_TENANT else f".{_digest(store.tenant)}"
        return path.with_name(f"{path.name}{tenant}.search")
    if scheme == "memory":
        return None
    cache = Path(platformdirs.user_cache_dir("pegboard", appauthor=False))
    return cache / f"{_digest(store.url, store.tenant)}.search"


def _digest(*texts: str) -> str:
    whole = "\0".join(texts).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(whole, digest_size=8).hexdigest()


_SHOWN = 5


class Searching:
    """Searches the visible tools of a catalogue."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._heat: UsageBoost | None = None
        self.engine: SearchEngine = SearchEngine(catalog.follow)

    def keep_with(self, keeping: Persistence) -> None:
        """Prefer what is used, as a storage knows it, and keep the index beside the storage."""
        self._heat = UsageBoost(keeping.counter.usage)
        self.engine.keep_index_at(index_place(keeping.store))

    def let_go(self) -> None:
        """Save the index, and know of no use any more."""
        self._heat = None
        self.engine.save_index()
        self.engine.keep_index_at(None)

    def search(self, text: str, options: SearchOptions) -> SearchResponse:
        """Return what fits a text; see `Registry.search`."""
        [answer] = self.search_many([text], options)
        return answer

    def search_many(self, texts: Iterable[str], options: SearchOptions) -> list[SearchResponse]:
        """Return what fits each of many texts; see `Registry.search_many`."""
        groups = names_of("groups", options.get("groups", ()))
        visible, boost = self._visible(groups), self._boost(options)
        queries = queries_of(texts, options, visible=visible, boost=boost)
        method = options.get("method", DEFAULT_METHOD)
        if not queries:
            return []
        if groups and not self._has_any(groups):
            # Nothing could be found, however long one looks.
            if method not in (known := self.engine.methods()):
                raise SearcherNotFoundError(method, known=known)
            return [SearchResponse(hints=self._group_hints(groups))] * len(queries)
        return self.engine.search_many(queries, method=method, budget=options.get("budget"))

    def _visible(self, groups: frozenset[str]) -> Visible | None:
        if not groups:
            return None
        entries = self._catalog.entries

        def belongs(tool: Tool) -> bool:
            entry = entries.get(tool.name)
            return entry is not None and not groups.isdisjoint(entry.groups)

        return belongs

    def _boost(self, options: SearchOptions) -> Boost | None:
        if self._heat is None or not options.get("usage", True):
            return None
        heat = self._heat.current()
        return lambda name: heat.get(name, 0.0)

    def _has_any(self, groups: frozenset[str]) -> bool:
        entries = list(self._catalog.entries.values())
        return any(not groups.isdisjoint(entry.groups) for entry in entries)

    def _group_hints(self, groups: frozenset[str]) -> tuple[str, ...]:
        """Return groups that may be meant, when none of these exists."""
        entries = list(self._catalog.entries.values())
        known = {group for entry in entries for group in entry.groups}
        near = [name for group in sorted(groups) for name in nearest_names(group, known)]
        return tuple(hint("group", name) for name in (near or sorted(known))[:_SHOWN])
