"""Text blocks for the regex search: searched as a whole, and rebuilt one at a time on a change."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pegboard.model import CatalogChange, Tool
from pegboard.model.fork_guard import GuardedLock
from pegboard.model.lazy import LazyProperty

__all__ = ["Block", "Blocks", "TextLines", "searched"]

_SIZE = 256
# Enough of a description; what follows is for the model that calls the tool.
_LONGEST = 4096
# So many bytes are searched at once; in between one can look at how long it has taken.
_PIECE = 16_384


class TextLines(NamedTuple):
    """One field of many tools, as lines of UTF-8."""

    text: bytes
    starts: list[int]
    """Where each line begins; and where the next one would."""
    owners: list[int]
    """To which tool of the block a line belongs."""


class Block:
    """Some tools. It is never changed, only replaced; its texts are made when first needed."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.by_name: Mapping[str, Tool] = tools
        self.tools: tuple[Tool, ...] = tuple(tools.values())

    def lines(self, field: str) -> list[TextLines]:
        """Return the lines of a field, in pieces: a name, a description, and every tag, is one."""
        return self._names if field == "name" else self._tags if field == "tags" else self._others

    @LazyProperty
    def folded(self) -> list[str]:
        """Name, tags and description of each tool as one text, without regard to case."""
        return [
            "\n".join((tool.name, *tool.tags, searched(tool.description))).casefold()
            for tool in self.tools
        ]

    @LazyProperty
    def _names(self) -> list[TextLines]:
        return _pieces((tool.name, owner) for owner, tool in enumerate(self.tools))

    @LazyProperty
    def _tags(self) -> list[TextLines]:
        return _pieces((tag, owner) for owner, tool in enumerate(self.tools) for tag in tool.tags)

    @LazyProperty
    def _others(self) -> list[TextLines]:
        return _pieces((tool.description, owner) for owner, tool in enumerate(self.tools))


class Blocks:
    """All tools. Readers take a snapshot of the blocks and never wait."""

    def __init__(self) -> None:
        self._blocks: Mapping[int, Block] = {}
        self._homes: dict[str, int] = {}
        self._roomy: set[int] = set()
        self._next = 0
        self._writing = GuardedLock("search index", threading.Lock())

    def __iter__(self) -> Iterator[Block]:
        return iter(tuple(self._blocks.values()))

    def apply(self, change: CatalogChange) -> None:
        """Take in a change; only the blocks it touches are made anew."""
        with self._writing:
            touched: dict[int, dict[str, Tool]] = {}
            for tool in change.removed:
                home = self._homes.pop(tool.name, None)
                if home is not None:
                    self._edited(home, touched).pop(tool.name, None)
                    self._roomy.add(home)
            for tool in (*change.added, *change.changed):
                home = self._homes.get(tool.name)
                if home is None:
                    home = self._homes[tool.name] = self._home_with_room(touched)
                self._edited(home, touched)[tool.name] = tool
            blocks = {**self._blocks, **{it: Block(tools) for it, tools in touched.items()}}
            self._roomy -= {home for home, tools in touched.items() if not tools}
            self._blocks = {home: block for home, block in blocks.items() if block.tools}

    def _edited(self, home: int, touched: dict[int, dict[str, Tool]]) -> dict[str, Tool]:
        if home not in touched:
            there = self._blocks.get(home)
            touched[home] = {} if there is None else dict(there.by_name)
        return touched[home]

    def _home_with_room(self, touched: dict[int, dict[str, Tool]]) -> int:
        while self._roomy:
            home = next(iter(self._roomy))
            if len(self._edited(home, touched)) < _SIZE:
                return home
            self._roomy.remove(home)
        self._next += 1
        self._roomy.add(self._next)
        return self._next


def searched(text: str) -> str:
    """Return as much of a text as is searched."""
    return text[:_LONGEST]


def _pieces(texts: Iterable[tuple[str, int]]) -> list[TextLines]:
    found: list[TextLines] = []
    lines: list[tuple[bytes, int]] = []
    size = 0
    for text, owner in texts:
        # A line break inside would make two lines of it.
        line = searched(text).replace("\n", " ").encode("utf-8", "replace")
        lines.append((line, owner))
        size += len(line) + 1
        if size >= _PIECE:
            found.append(_lines(lines))
            lines, size = [], 0
    return [*found, _lines(lines)] if lines else found


def _lines(lines: Iterable[tuple[bytes, int]]) -> TextLines:
    pieces: list[bytes] = []
    owners: list[int] = []
    starts = [0]
    for line, owner in lines:
        pieces.append(line)
        owners.append(owner)
        starts.append(starts[-1] + len(line) + 1)
    return TextLines(b"\n".join(pieces), starts, owners)
