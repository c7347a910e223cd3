"""Find near-duplicate tools: tools of different servers with similar descriptions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pegboard.doctor.checks.definitions import KnownTool
from pegboard.doctor.report import Finding, found, shown

__all__ = ["SIMILAR", "find_duplicates"]

SIMILAR = 0.75
"""Two tools are near-duplicates if they share at least this part of their words."""
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FEWEST_WORDS = 4
_LONGEST = 2_000
# A word that more tools use leads to too many pairs, and says little.
_CROWDED = 50
_MOST = 20


def find_duplicates(tools: Iterable[KnownTool]) -> Iterator[Finding]:
    """Yield the pairs of tools of different servers that a model can hardly tell apart."""
    known = list(tools)
    words = [_words(it) for it in known]
    pairs = sorted(_alike(known, words), key=lambda it: (-it[0], it[1], it[2]))
    for number, (_, one, other) in enumerate(pairs):
        if number == _MOST:
            return
        yield _finding(known[one], known[other])


def _alike(
    tools: Sequence[KnownTool], words: Sequence[frozenset[str]]
) -> Iterator[tuple[float, int, int]]:
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for index, some in enumerate(words):
        for word in some:
            holders[word].append(index)
    telling = {word: some for word, some in holders.items() if len(some) <= _CROWDED}
    for index, some in enumerate(words):
        if len(some) < _FEWEST_WORDS:
            continue
        near = {it for word in some for it in telling.get(word, ()) if it > index}
        for other in near:
            alike = len(some & words[other]) / len(some | words[other])
            if alike >= SIMILAR and tools[other].config.name != tools[index].config.name:
                yield alike, index, other


def _words(tool: KnownTool) -> frozenset[str]:
    text = f"{_CAMEL.sub(' ', tool.original)} {tool.tool.description[:_LONGEST]}"
    return frozenset(_WORD.findall(text.casefold()))


def _finding(one: KnownTool, other: KnownTool) -> Finding:
    return found(
        "near_duplicates",
        f"The tools {shown(one.original, 80)!r} of server {one.config.name!r} and "
        f"{shown(other.original, 80)!r} of server {other.config.name!r} have similar "
        "descriptions, so a model can hardly choose between them.",
        f'If both do the same, exclude one: `"deny": ["{shown(other.original, 80)}"]` in the '
        f"entry {other.config.name!r}.",
        server=other.config.name,
        tool=shown(other.original, 80),
    )
