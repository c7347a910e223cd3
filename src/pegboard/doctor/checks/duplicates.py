"""Find near-duplicate tools: tools of different servers with similar descriptions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

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
_NAMED = 3


def find_duplicates(tools: Iterable[KnownTool]) -> Iterator[Finding]:
    """Yield the pairs of servers with tools that a model can hardly tell apart."""
    known = list(tools)
    words = [_words(it) for it in known]
    pairs = sorted(_alike(known, words), key=lambda it: (-it[0], it[1], it[2]))
    servers: defaultdict[tuple[str, str], list[tuple[KnownTool, KnownTool]]] = defaultdict(list)
    for _, index, place in pairs:
        one, other = known[index], known[place]
        servers[one.config.name, other.config.name].append((one, other))
    for alike in islice(servers.values(), _MOST):
        yield _finding(alike)


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


def _finding(alike: Sequence[tuple[KnownTool, KnownTool]]) -> Finding:
    one, other = alike[0]
    names = list(dict.fromkeys(shown(it.original, 80) for _, it in alike))
    denied = ", ".join(f'"{it}"' for it in names[:_NAMED])
    if len(names) == 1:
        what = (
            f"The tools {shown(one.original, 80)!r} of server {one.config.name!r} and "
            f"{names[0]!r} of server {other.config.name!r} have similar descriptions"
        )
    else:
        rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        what = (
            f"{len(names)} tools of server {other.config.name!r} have descriptions similar to "
            f"tools of server {one.config.name!r} ({', '.join(names[:_NAMED])}{rest})"
        )
    return found(
        "near_duplicates",
        f"{what}, so a model can hardly choose between them.",
        f"If both do the same, exclude {'one' if len(names) == 1 else 'those of one'}: "
        f'`"deny": [{denied}{", …" * (len(names) > _NAMED)}]` in the entry {other.config.name!r}.',
        server=other.config.name,
        tool=names[0] if len(names) == 1 else None,
    )
