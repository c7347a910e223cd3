"""Regex: the search method by regular expression, in time that is linear in the texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from pegboard.errors import InvalidPatternError
from pegboard.model import CatalogChange, Tool
from pegboard.search.methods.regex_blocks import Blocks, searched
from pegboard.search.methods.regex_patterns import (
    Pattern,
    compile_literal,
    compile_pattern,
    is_meant,
    words_of,
)
from pegboard.search.searcher import Hit, Match, Query, SearchResponse, filter_of

__all__ = ["Regex"]

# Where a pattern is looked for, in this order; and what it is worth there, from and up to.
_WORTH: Mapping[str, tuple[float, float]] = {
    "name": (0.7, 1.0),
    "tags": (0.5, 0.6),
    "description": (0.3, 0.4),
}
# More hits than a caller reads; a pattern such as `.` would match every tool.
_ENOUGH = 1000
_SECONDS = 0.8
"""How long a pattern may be looked for: none explodes, but some are slow."""

_Worths = dict[str, tuple[Tool, float]]
_Matches = Callable[[Tool], tuple[Match, ...]]


class Regex:
    """Searches names, then tags, then descriptions, without regard to case.

    The syntax is RE2's: that of Python without look-around and back-references. A text that is not
    meant as a pattern is searched for literally, and then by its words.
    """

    def __init__(self) -> None:
        self._blocks = Blocks()

    def apply(self, change: CatalogChange) -> None:
        """Apply a change of the catalogue."""
        self._blocks.apply(change)

    def search(self, query: Query) -> SearchResponse:
        """Return the tools that match the pattern.

        Raises:
            InvalidPatternError: when the text is meant as a pattern, but is not valid or takes too
                long.
        """
        meant = is_meant(query.text)
        try:
            pattern = compile_pattern(query.text, seconds=_SECONDS)
        except InvalidPatternError:
            if meant:
                raise
            pattern = compile_literal(query.text)
        hits = _ranked(self._by_pattern(pattern, query), query, lambda it: _found(pattern, it))
        if not hits and not meant:
            words = words_of(query.text)
            hits = _ranked(self._by_words(words, query), query, lambda it: _found_words(words, it))
        return SearchResponse(hits=hits)

    def search_many(self, queries: Sequence[Query]) -> list[SearchResponse]:
        """Return the responses of many queries, in their order."""
        return [self.search(query) for query in queries]

    def _by_pattern(self, pattern: Pattern, query: Query) -> _Worths:
        admits, enough = filter_of(query), max(_ENOUGH, query.limit)
        worths: _Worths = {}
        for field in _WORTH:
            for tool, share in self._occurrences(pattern, field):
                worth = _worth(field, share)
                if tool.name in worths:
                    worths[tool.name] = tool, max(worth, worths[tool.name][1])
                elif admits(tool):
                    worths[tool.name] = tool, worth
                    if len(worths) >= enough:
                        break
            # All of these come before anything that is found further down.
            if len(worths) >= query.limit:
                break
        return worths

    def _occurrences(self, pattern: Pattern, field: str) -> Iterator[tuple[Tool, float]]:
        for block in self._blocks:
            for lines in block.lines(field):
                for owner, _, share in pattern.occurrences(lines):
                    yield block.tools[owner], share

    def _by_words(self, words: Sequence[str], query: Query) -> _Worths:
        """Find the tools that have at least half of the words."""
        admits, worths = filter_of(query), _Worths()
        least = max(1, (len(words) + 1) // 2 if query.abstain else 1)
        for block in self._blocks:
            for tool, text in zip(block.tools, block.folded, strict=True):
                found = [word for word in words if word in text]
                if len(found) >= least and admits(tool):
                    worth = sum(_worth(_field_with(word, tool), 0.0) for word in found)
                    worths[tool.name] = tool, worth / len(words)
        return worths


def _worth(field: str, share: float) -> float:
    least, most = _WORTH[field]
    return least + (most - least) * share


def _field_with(word: str, tool: Tool) -> str:
    if word in tool.name.casefold():
        return "name"
    return "tags" if any(word in tag.casefold() for tag in tool.tags) else "description"


def _ranked(worths: _Worths, query: Query, matches: _Matches) -> tuple[Hit, ...]:
    boost = query.boost

    def order(found: tuple[Tool, float]) -> tuple[float, float, str]:
        tool, worth = found
        return -worth, 0.0 if boost is None else -boost(tool.name), tool.name

    best = sorted(worths.values(), key=order)[: query.limit]
    return tuple(
        Hit(
            tool=tool,
            score=worth,
            confidence=worth,
            matches=matches(tool) if query.matches else (),
            parts={"regex": worth} if query.explain else None,
        )
        for tool, worth in best
    )


def _found(pattern: Pattern, tool: Tool) -> tuple[Match, ...]:
    found = {
        field: tuple(word for text in texts if (word := pattern.first(text)) is not None)
        for field, texts in _texts(tool)
    }
    return tuple(Match(field=field, words=words) for field, words in found.items() if words)


def _found_words(words: Sequence[str], tool: Tool) -> tuple[Match, ...]:
    found = {
        field: tuple(word for word in words if any(word in it.casefold() for it in texts))
        for field, texts in _texts(tool)
    }
    return tuple(Match(field=field, words=them) for field, them in found.items() if them)


def _texts(tool: Tool) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "name", (tool.name,)
    yield "tags", tool.tags
    yield "description", (searched(tool.description),)
