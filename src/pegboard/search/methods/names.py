"""NameIndex: finds tools by name, in any case, with other separators, prefixes or a typo."""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice

import msgspec

from pegboard.model import CatalogChange, Tool
from pegboard.model.fork_guard import GuardedLock
from pegboard.search.methods.typos import TypoIndex
from pegboard.search.searcher import Hit, Match, Query, SearchResponse, filter_of

__all__ = [
    "EXACT",
    "NEAR",
    "OTHERWISE_PREFIXED",
    "SPELLED_OTHERWISE",
    "NameIndex",
    "ScannedNames",
    "may_have_namespace",
    "spellings_of_text",
    "squash",
    "squashed_server",
    "with_named_first",
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
_FEW = 8
_MOST_ALIKE = 1000
"""Of more tools with one spelling, a search looks at the first ones."""
_SEPARATORS = "\t\n\v\f\r _-./:\\\u00b7\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u30fb"
_BORDER = re.compile(f"[{re.escape(_SEPARATORS)}]+")
_NAMESPACE = re.compile(r".+(?:__|[./:])(?=.)")
_WITHOUT = str.maketrans("", "", _SEPARATORS)
_QUOTES = "\"'`\u2018\u2019\u201c\u201d "


class NameIndex:
    """Finds the tools that a text names as a whole; any number of readers, none of them waits."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._names: dict[str, tuple[str, ...] | dict[str, None]] = {}
        """The names of the tools that have a spelling, the oldest first.

        Most spellings have one, for which a tuple is small; many are changed one by one."""
        self._longest = 0
        """How long a spelling was at most."""
        self._near = TypoIndex()
        self._writing = GuardedLock("search index", threading.Lock())

    def __len__(self) -> int:
        return len(self._tools)

    def tools(self) -> tuple[Tool, ...]:
        """Return all tools."""
        return tuple(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """Return the tool that has exactly this name."""
        return self._tools.get(name)

    def apply(self, change: CatalogChange) -> None:
        """Apply a change of the catalogue."""
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

        A near miss counts only where nothing has the name itself. Of very many tools with one
        spelling, it returns some, and always the one that has exactly this name.
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
        exact = self._tools.get(text)
        if exact is not None and spelling in _spellings(exact):
            yield exact, EXACT
        for tool in self._of(spelling):
            if tool.name == text:
                continue
            if squash(tool.name) == spelling:
                yield tool, SPELLED_OTHERWISE
            else:
                yield tool, OTHERWISE_PREFIXED

    def _of(self, spelling: str) -> Iterator[Tool]:
        # Copied in one step, because another thread may add names meanwhile.
        for name in tuple(islice(self._names.get(spelling, ()), _MOST_ALIKE)):
            tool = self._tools.get(name)
            if tool is not None:
                yield tool

    def _learn(self, tool: Tool) -> None:
        for spelling in _spellings(tool):
            self._longest = max(self._longest, len(spelling))
            names = self._names.get(spelling, ())
            if isinstance(names, dict):
                names[tool.name] = None
            else:
                names = (*names, tool.name)
                self._names[spelling] = names if len(names) <= _FEW else dict.fromkeys(names)
            self._near.add(spelling)

    def _forget(self, name: str) -> None:
        tool = self._tools.pop(name, None)
        for spelling in () if tool is None else _spellings(tool):
            names = self._names[spelling]
            if isinstance(names, dict):
                names.pop(name, None)
            else:
                names = self._names[spelling] = tuple(it for it in names if it != name)
            if not names:
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


_MARK = len("mcp")


class ScannedNames(NameIndex):
    """Finds what a `NameIndex` finds, by looking at every name instead of preparing them all.

    Preparing ten thousand takes longer than everything else about a search.
    """

    def apply(self, change: CatalogChange) -> None:
        """Apply a change of the catalogue."""
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


def with_named_first(
    answer: SearchResponse, named: Iterable[tuple[Tool, float]], *, query: Query
) -> SearchResponse:
    """Return the answer with the named tools in front, as far as the query admits them."""
    admits = filter_of(query)
    admitted = [(tool, closeness) for tool, closeness in named if admits(tool)]
    if not admitted:
        return answer
    ranks = {hit.tool.name: rank for rank, hit in enumerate(answer.hits)}

    def order(found: tuple[Tool, float]) -> tuple[float, int, float, str]:
        tool, closeness = found
        use = 0.0 if query.boost is None else query.boost(tool.name)
        return -closeness, ranks.get(tool.name, len(ranks)), -use, tool.name

    top = max((hit.score for hit in answer.hits), default=0.0)
    first = [
        _hit(tool, closeness, top=top, query=query, there=_at(answer, ranks.get(tool.name)))
        for tool, closeness in sorted(admitted, key=order)[: query.limit]
    ]
    names = {hit.tool.name for hit in first}
    rest = [hit for hit in answer.hits if hit.tool.name not in names]
    return SearchResponse(hits=(*first, *rest)[: query.limit])


def _at(answer: SearchResponse, rank: int | None) -> Hit | None:
    return None if rank is None else answer.hits[rank]


def _hit(tool: Tool, closeness: float, *, top: float, query: Query, there: Hit | None) -> Hit:
    whole = (Match(field="name", words=(query.text.strip(),)),) if query.matches else ()
    known = Hit(tool=tool, score=0.0, confidence=0.0) if there is None else there
    others = tuple(match for match in known.matches if match.field != "name")
    return msgspec.structs.replace(
        known,
        score=top + closeness,
        confidence=max(known.confidence, closeness),
        matches=(*whole, *others),
        parts={**(known.parts or {}), "name": closeness} if query.explain else None,
    )
