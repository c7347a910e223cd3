"""Small searchers for tests of what is around them."""

import threading
from collections.abc import Sequence

from pegboard.model import CatalogChange, Tool
from pegboard.search import Hit, Match, Query, SearchResponse, filter_of


class Everything:
    """Finds every tool that a query admits, in the order of their names."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.changes: list[CatalogChange] = []
        self.asked: list[Query] = []
        self.lock = threading.Lock()

    def apply(self, change: CatalogChange) -> None:
        with self.lock:
            self.changes.append(change)
            tools = dict(self.tools)
            for tool in change.removed:
                del tools[tool.name]
            for tool in (*change.added, *change.changed):
                tools[tool.name] = tool
            self.tools = tools

    def search(self, query: Query) -> SearchResponse:
        self.asked.append(query)
        admits = filter_of(query)
        found = [tool for _, tool in sorted(self.tools.items()) if admits(tool)]
        return SearchResponse(
            hits=tuple(
                Hit(
                    tool=tool,
                    score=1 / (rank + 1),
                    confidence=0.3,
                    matches=(Match(field="meaning"),),
                )
                for rank, tool in enumerate(found[: query.limit])
            ),
            hints=() if found else ("category: other",),
        )

    def search_many(self, queries: Sequence[Query]) -> list[SearchResponse]:
        return [self.search(query) for query in queries]


class Nothing(Everything):
    """Finds nothing, ever."""

    def search(self, query: Query) -> SearchResponse:
        return SearchResponse()
