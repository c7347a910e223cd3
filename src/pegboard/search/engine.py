"""SearchEngine: follows the catalogue of tools, opens searchers by name, and queries them."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pegboard.errors import SearcherNotFoundError
from pegboard.model import CatalogChange, Tool
from pegboard.model.fork_guard import GuardedLock
from pegboard.model.garbage_collection import postponed_collections
from pegboard.search.budget import within_budget
from pegboard.search.facets import Facets
from pegboard.search.index.shared_index import SharedIndex
from pegboard.search.methods.names import NameIndex, ScannedNames, with_named_first
from pegboard.search.open_searcher import (
    BUILT_IN,
    INDEXED,
    checked_searcher,
    open_searcher,
    search_methods,
)
from pegboard.search.options import DEFAULT_METHOD
from pegboard.search.plugin_results import checked_answers
from pegboard.search.searcher import Query, Searcher, SearchResponse

__all__ = ["DEFAULT_METHOD", "CatalogSource", "SearchEngine"]

logger: logging.Logger = logging.getLogger("pegboard.search")

MOST_HITS = 1000
"""The most hits of one search; `Registry.tools` lists all tools."""


MANY = 2_000
"""While a thread applies a change of more tools, other threads search the tools of before it."""


class CatalogSource(Protocol):
    """The tools of a catalogue as a stream of changes, which begins with all of them."""

    @property
    def revision(self) -> int:
        """The revision of the last change."""
        ...

    def take(self) -> tuple[int, Mapping[str, Tool | None]]:
        """Return the revision and each changed tool by name; ``None`` for a removed tool."""
        ...


class SearchEngine:
    """Searches the tools of a catalogue, from any thread; the first search builds the index.

    A change is recorded when it happens and applied by the next search. So adding tools stays
    fast, and an added tool is found at once. Only while a thread applies a change of more than
    2,000 tools, searches of other threads do not wait for it: they find what was there before.

    Args:
        follow: begins to follow the catalogue.
        index_path: where the index is saved between runs; ``None`` to save it nowhere.
        once: prepare nothing that pays off only with a second search.
    """

    def __init__(
        self,
        follow: Callable[[], CatalogSource],
        *,
        index_path: Path | None = None,
        once: bool = False,
    ) -> None:
        self._follow = follow
        self._index = SharedIndex(index_path)
        self._source: CatalogSource | None = None
        self._new_names = ScannedNames if once else NameIndex
        self._names = self._new_names()
        self._facets: tuple[int, Facets] | None = None
        self._makers: dict[str, Callable[[], Searcher]] = {}
        self._searchers: dict[str, Searcher] = {}
        self._revision = -1
        self._is_taking_in_many = False
        self._updating = GuardedLock("search engine", threading.Lock())

    def add_searcher(self, method: str, make: Callable[[], Searcher]) -> None:
        """Add a search method, or replace the searcher of an existing one.

        Args:
            method: the name of the method.
            make: returns a searcher without tools; a class without parameters will do.

        Raises:
            TypeError: when ``make`` is not callable, for example a searcher itself.
        """
        if not callable(make):
            raise TypeError(
                f"`add_searcher` takes a class or a function that returns a searcher, not a "
                f"{type(make).__name__!r}. Write `lambda: …` around your searcher."
            )
        with self._updating:
            self._makers[method] = make
            self._searchers.pop(method, None)

    def methods(self) -> tuple[str, ...]:
        """Return the names of all methods: built-in ones, plug-ins, and added ones."""
        return tuple(dict.fromkeys((*search_methods(), *sorted(self._makers))))

    def keep_index_at(self, path: Path | None) -> None:
        """Save the index in this file from now on, or nowhere."""
        self._index.keep_at(path)

    def save_index(self) -> None:
        """Save the index for the next start, if it has a file; blocks."""
        self._index.save()

    def is_warm(self, method: str) -> bool:
        """Tell whether a search by this method would start at once, without building an index."""
        source = self._source
        return (
            method in self._searchers and source is not None and self._revision == source.revision
        )

    def search(
        self, query: Query, *, method: str = DEFAULT_METHOD, budget: int | None = None
    ) -> SearchResponse:
        """Return the hits of a method; tools that the query names come first.

        Args:
            query: the query.
            method: the name of the search method.
            budget: how many tokens the hits may take; see `brief`.

        Raises:
            InvalidQueryError: when the query is not valid, or the method is unknown.
        """
        [answer] = self.search_many([query], method=method, budget=budget)
        return answer

    def search_many(
        self, queries: Sequence[Query], *, method: str = DEFAULT_METHOD, budget: int | None = None
    ) -> list[SearchResponse]:
        """Return the hits of a method for many queries, in their order.

        Raises:
            InvalidQueryError: when a query is not valid, or the method is unknown.
        """
        searcher = self._searcher(method)
        # A limit that no response could reach must not cost time.
        most = min(MOST_HITS, max(1, len(self._names)))
        asked = [
            msgspec.structs.replace(it, limit=most) if it.limit > most else it for it in queries
        ]
        answers = [searcher.search(asked[0])] if len(asked) == 1 else searcher.search_many(asked)
        if method in self._makers or method not in BUILT_IN:
            answers = checked_answers(answers, asked, method=method, known=self._names.get)
        return [
            self._finished(answer, query, budget)
            for answer, query in zip(answers, asked, strict=True)
        ]

    def _finished(self, answer: SearchResponse, query: Query, budget: int | None) -> SearchResponse:
        named = self._names.find(query.text)
        if named:
            answer = with_named_first(answer, named, query=query)
        if answer.hits:
            return answer if budget is None else within_budget(answer, budget)
        if not (query.servers or query.categories or query.tags):
            return answer
        hints = self._facets_for(query).hints_for_unknown(query)
        return answer if hints is None else SearchResponse(hints=hints)

    def _facets_for(self, query: Query) -> Facets:
        """Return the facets of the tools that the caller may see."""
        if query.visible is not None:
            return Facets(filter(query.visible, self._names.tools()))
        revision = self._revision
        counted = self._facets
        if counted is None or counted[0] != revision:
            # A change that another thread applies meanwhile has a later revision.
            counted = self._facets = revision, Facets(self._names.tools())
        return counted[1]

    def _searcher(self, method: object) -> Searcher:
        if not isinstance(method, str):
            raise SearcherNotFoundError(method, known=search_methods())
        searcher = self._searchers.get(method)
        if searcher is not None and self._is_taking_in_many:
            # Another thread applies so large a change that the tools of before are the better
            # answer now.
            return searcher
        if searcher is None or self._source is None or self._revision != self._source.revision:
            with self._updating:
                self._catch_up()
                searcher = self._searchers.get(method)
                if searcher is None:
                    searcher = self._searchers[method] = self._open(method)
        return searcher

    def _open(self, method: str) -> Searcher:
        make = self._makers.get(method)
        if make is not None:
            searcher = checked_searcher(make())
        elif method in INDEXED:
            searcher = self._open_indexed(method)
        else:
            searcher = open_searcher(method)
        tools = self._names.tools()
        if tools:
            # An index that other searchers share already knows this revision.
            with postponed_collections(len(tools)):
                searcher.apply(CatalogChange(revision=self._revision, added=tools))
        if make is None and method in INDEXED:
            self._index.save_aside()
        return searcher

    def _open_indexed(self, method: str) -> Searcher:
        meaning = method != "bm25"
        if self._index.lacks(meaning=meaning):
            # From now on it searches the new index, too.
            self._searchers.pop("bm25", None)
        return open_searcher(method, index=self._index.open(meaning=meaning))

    def _catch_up(self) -> None:
        if self._source is None:
            self._source = self._follow()
        elif self._revision == self._source.revision:
            return
        try:
            revision, news = self._source.take()
            self._take_in(news, revision)
        except BaseException:
            # Interrupted half-way: the next search starts from nothing.
            self._start_anew()
            raise
        self._revision = revision

    def _drop(self, method: str) -> None:
        """Drop a searcher, and its index if it has one, so that the next search opens another."""
        for other in INDEXED if method in INDEXED else ():
            self._searchers.pop(other, None)
            self._index.forget()
        self._searchers.pop(method, None)

    def _start_anew(self) -> None:
        self._source = None
        self._index.forget()
        self._names = self._new_names()
        self._facets = None
        self._searchers = {}

    def _take_in(self, news: Mapping[str, Tool | None], revision: int) -> None:
        before = {name: tool for name in news if (tool := self._names.get(name)) is not None}
        # Searches are for models, and they are not offered what only apps call.
        after = {it: tool for it, tool in news.items() if tool is not None and not tool.app_only}
        change = CatalogChange(
            revision=revision,
            added=tuple(tool for name, tool in after.items() if name not in before),
            changed=tuple(tool for name, tool in after.items() if name in before),
            removed=tuple(tool for name, tool in before.items() if name not in after),
        )
        if not (before or after):
            return
        self._is_taking_in_many = len(news) > MANY
        try:
            with postponed_collections(len(news)):
                self._apply(change)
        finally:
            self._is_taking_in_many = False

    def _apply(self, change: CatalogChange) -> None:
        self._names.apply(change)
        for method, searcher in list(self._searchers.items()):
            try:
                searcher.apply(change)
            except Exception:
                # It may have applied half of the change; the next search opens another one.
                logger.exception("searcher_failed", extra={"method": method})
                self._drop(method)
