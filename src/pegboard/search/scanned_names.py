"""ScannedNames: tools by their names, for a program that searches once and then ends."""

from collections.abc import Iterator

from pegboard.model import CatalogChange, Tool
from pegboard.search.names import (
    NameIndex,
    may_have_namespace,
    spellings_of_text,
    squash,
    squashed_server,
)

__all__ = ["ScannedNames"]

_MARK = len("mcp")


class ScannedNames(NameIndex):
    """Finds what a `NameIndex` finds, by looking at every name instead of preparing them all.

    Preparing ten thousand takes longer than everything else about a search.
    """

    def apply(self, change: CatalogChange) -> None:
        """Take in a change of the catalogue."""
        gone = {tool.name for tool in change.removed}
        known = {name: tool for name, tool in self._tools.items() if name not in gone}
        self._tools = known | {tool.name: tool for tool in (*change.added, *change.changed)}

    def find(self, text: str) -> list[tuple[Tool, float]]:
        """Return the tools that the text names, and how exactly it does, the best first."""
        few = NameIndex()
        few.apply(CatalogChange(revision=0, added=tuple(self._candidates(text))))
        return few.find(text)

    def _candidates(self, text: str) -> Iterator[Tool]:
        """Return the tools one of whose spellings is about as long as the text."""
        lengths = {len(it) for it in spellings_of_text(text)}
        near = frozenset(it + step for it in lengths for step in (-1, 0, 1))
        for tool in self._tools.values():
            whole = len(squash(tool.name))
            server = len(squashed_server(tool.server or ""))
            # With the server in front, without it, and without the `mcp` before that.
            possible = (whole, whole + server, whole - server, whole - server - _MARK)
            if not near.isdisjoint(possible) or may_have_namespace(tool.name):
                yield tool
