"""Facets: count servers, categories and tags, and suggest those that a misspelled filter means."""

from collections import Counter
from collections.abc import Iterable

from pegboard.model import Tool
from pegboard.model.tool_names import nearest_names
from pegboard.search.searcher import Query

__all__ = ["Facets", "hint"]

_SHOWN = 5


class Facets:
    """Counts the servers, categories and tags of some tools."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._counts: dict[str, Counter[str]] = {
            "server": Counter(),
            "category": Counter(),
            "tag": Counter(),
        }
        for tool in tools:
            for kind, value in _facets(tool):
                self._counts[kind][value] += 1

    def hints_for_unknown(self, query: Query) -> tuple[str, ...] | None:
        """Return the nearest facets when a filter names none that exists."""
        asked = {"server": query.servers, "category": query.categories, "tag": query.tags}
        unknown = [
            (kind, values)
            for kind, values in asked.items()
            if values and not any(value in self._counts[kind] for value in values)
        ]
        hints = [hint(kind, name) for kind, values in unknown for name in self._near(kind, values)]
        return tuple(hints) if unknown else None

    def _near(self, kind: str, values: Iterable[str]) -> Iterable[str]:
        counts = self._counts[kind]
        known = list(counts)
        near = [name for value in sorted(values)[:_SHOWN] for name in nearest_names(value, known)]
        usual = sorted(known, key=lambda name: (-counts[name], name))
        return list(dict.fromkeys(near or usual))[:_SHOWN]


def hint(kind: str, name: str) -> str:
    """Return a hint in the form of a response: ``server: github``."""
    return f"{kind}: {name}"


def _facets(tool: Tool) -> Iterable[tuple[str, str]]:
    if tool.server is not None:
        yield "server", tool.server
    if tool.category is not None:
        yield "category", tool.category
    for tag in set(tool.tags):
        yield "tag", tag
