"""NameIndex: tools by their names, however these are spelled."""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from pegboard.model import CatalogChange, Tool
from pegboard.model.fork_guard import start_anew_in_children
from pegboard.search.near_misses import NearMisses

__all__ = [
    "EXACT",
    "NEAR",
    "OTHERWISE_PREFIXED",
    "SPELLED_OTHERWISE",
    "NameIndex",
    "may_have_namespace",
    "spellings_of_text",
    "squash",
    "squashed_server",
]

EXACT = 1.0
"""It is the name, letter by letter."""
SPELLED_OTHERWISE = 0.99
"""The same letters: another case, other separators."""
OTHERWISE_PREFIXED = 0.98
"""The name without the server in front, or with it."""
NEAR = 0.9
"""One typing error away from one of the three."""
NEAR_PREFIXED = 0.89
"""With one letter wrong, and with or without the server."""

_LONGEST = 1000
_SEPARATORS = "\t\n\v\f\r _-./:\\\u00b7\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u30fb"
_BORDER = re.compile(f"[{re.escape(_SEPARATORS)}]+")
_NAMESPACE = re.compile(r".+(?:__|[./:])(?=.)")
_WITHOUT = str.maketrans("", "", _SEPARATORS)
_QUOTES = "\"'`\u2018\u2019\u201c\u201d "


class NameIndex:
    """Finds the tools that a text names as a whole; any number of readers, none of them waits."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        """The names of the tools that have a spelling."""
        self._longest = 0
        """How long a spelling was at most."""
        self._near = NearMisses()
        self.after_fork()
        start_anew_in_children(self)

    def after_fork(self) -> None:
        """Make a new lock: the thread that held it is not in a forked child."""
        self._writing = threading.Lock()

    def __len__(self) -> int:
        return len(self._tools)

    def tools(self) -> tuple[Tool, ...]:
        """Return all tools."""
        return tuple(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """Return the tool that has exactly this name."""
        return self._tools.get(name)

    def apply(self, change: CatalogChange) -> None:
        """Take in a change of the catalogue."""
        with self._writing:
            for tool in change.removed:
                self._forget(tool.name)
            for tool in (*change.added, *change.changed):
                there = self._tools.get(tool.name)
                if there is None or there.server != tool.server:
                    self._forget(tool.name)
                    self._learn(tool)
                self._tools[tool.name] = tool

    def find(self, text: str) -> list[tuple[Tool, float]]:
        """Return the tools that the text names, and how exactly it does, the best first.

        A near miss counts only where nothing has the name itself.
        """
        if len(text) > _LONGEST:
            return []
        unquoted = _unquoted(text)
        spelling = squash(unquoted)
        if len(spelling) > self._longest + 1:
            return []
        found = list(self._named(squash(text), text.strip())) if unquoted != text else []
        found = found or list(self._named(spelling, unquoted.strip()))
        if found:
            return sorted(found, key=lambda it: (-it[1], it[0].name))
        near: dict[str, tuple[Tool, float]] = {}
        for other in self._near.near(spelling):
            for tool in self._of(other):
                closeness = NEAR if squash(tool.name) == other else NEAR_PREFIXED
                if tool.name not in near or near[tool.name][1] < closeness:
                    near[tool.name] = tool, closeness
        return sorted(near.values(), key=lambda it: (-it[1], it[0].name))

    def _named(self, spelling: str, text: str) -> Iterator[tuple[Tool, float]]:
        for tool in self._of(spelling):
            if tool.name == text:
                yield tool, EXACT
            elif squash(tool.name) == spelling:
                yield tool, SPELLED_OTHERWISE
            else:
                yield tool, OTHERWISE_PREFIXED

    def _of(self, spelling: str) -> Iterator[Tool]:
        for name in self._names.get(spelling, ()):
            tool = self._tools.get(name)
            if tool is not None:
                yield tool

    def _learn(self, tool: Tool) -> None:
        for spelling in _spellings(tool):
            self._longest = max(self._longest, len(spelling))
            self._names[spelling] = (*self._names.get(spelling, ()), tool.name)
            self._near.add(spelling)

    def _forget(self, name: str) -> None:
        tool = self._tools.pop(name, None)
        for spelling in () if tool is None else _spellings(tool):
            left = tuple(it for it in self._names[spelling] if it != name)
            if left:
                self._names[spelling] = left
            else:
                del self._names[spelling]
                self._near.discard(spelling)


def squash(text: str) -> str:
    """Return what all spellings of a name have in common."""
    if text.isascii():
        # As nearly all names are; what is below takes ten times as long.
        letters = text.replace("_", "").replace("-", "")
        if letters.isalnum():
            return letters.lower()
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    letters = plain.translate(_WITHOUT).casefold()
    # There are names of nothing but separators.
    return letters or plain.strip()


def spellings_of_text(text: str) -> tuple[str, ...]:
    """Return the spellings under which a text is looked for."""
    return squash(text), squash(_unquoted(text))


def may_have_namespace(name: str) -> bool:
    """Tell whether a name may begin with something that could be left out, besides its server."""
    return not (name.isidentifier() and "__" not in name)


def _unquoted(text: str) -> str:
    return text.strip(_QUOTES).removesuffix("()")


def _spellings(tool: Tool) -> tuple[str, ...]:
    whole = squash(tool.name)
    server = squashed_server(tool.server or "")
    bare = _without_prefix(tool.name, whole, server)
    if bare:
        return whole, bare
    return (whole, server + whole) if server else (whole,)


squashed_server: Callable[[str], str] = lru_cache(1024)(squash)
"""What all spellings of the name of a server have in common."""


def _without_prefix(name: str, whole: str, server: str) -> str:
    """Return the spelling of a name without the server, or the namespace, that it begins with."""
    if server and whole.startswith((server, f"mcp{server}")):
        pieces = [squash(piece) for piece in _BORDER.split(name) if piece]
        for index in range(1, len(pieces)):
            if "".join(pieces[:index]) in (server, f"mcp{server}"):
                return "".join(pieces[index:])
    space = _NAMESPACE.match(name) if may_have_namespace(name) else None
    rest = "" if space is None else squash(name[space.end() :])
    return rest if rest != whole else ""
