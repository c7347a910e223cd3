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
        """Return the tools one of whose spellings may be the text, or one error away from it."""
        spellings = set(spellings_of_text(text))
        near = frozenset(len(it) + step for it in spellings for step in (-1, 0, 1))
        ends = [_ends(it) for it in spellings]
        for tool in self._tools.values():
            name, whole = tool.name, squash(tool.name)
            server = squashed_server(tool.server or "")
            spelled = server + whole
            # What is left of a name without its server or namespace ends as the name does.
            is_like = any(whole.endswith(last) or first in spelled for first, last in ends)
            if name.isascii() and not is_like:
                continue
            # With the server in front, without it, and without the `mcp` before that.
            bare = len(whole) - len(server)
            possible = (len(whole), len(spelled), bare, bare - _MARK)
            if not near.isdisjoint(possible) or may_have_namespace(name):
                yield tool


def _ends(spelling: str) -> tuple[str, str]:
    """Return a third of a spelling from each end: one error leaves one of them as it was."""
    third = max(len(spelling) - 1, 0) // 3
    return spelling[:third], spelling[len(spelling) - third :]
