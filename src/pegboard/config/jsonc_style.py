"""How a text of JSON with comments is written, so that what is added looks like the rest."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from pegboard.config.jsonc import Document, Node

__all__ = ["Style"]

_LONGEST_LIST = 80
_NEWLINE = re.compile(r"\r\n|\n|\r")
_BLANKS = re.compile(r"[ \t]*")


class Style(NamedTuple):
    """The style of one object in a text."""

    text: str
    newline: str
    unit: str
    """By how much its members are indented; nothing where they all stand on one line."""

    @classmethod
    def of(cls, document: Document, node: Node) -> "Style":
        """Return how an object is written, and what belongs into it has to be."""
        text = document.text
        found = _NEWLINE.search(text)
        unit = _unit(document) if _is_spread(text, node) else ""
        return cls(text, "\n" if found is None else found[0], unit)

    def indent_at(self, offset: int) -> str:
        """Return the blanks at the beginning of a line."""
        return _indent_at(self.text, offset)

    def member(self, key: str, value: object, indent: str) -> str:
        """Return a member as people write it; the first line is not indented."""
        return f"{_dumped(key)}: {self.value(value, indent)}"

    def value(self, value: object, indent: str) -> str:
        """Return a value: objects on lines of their own, short lists on one."""
        if not self.unit or not _needs_lines(value):
            return _dumped(value)
        inner = indent + self.unit
        if isinstance(value, Mapping):
            members = cast("Mapping[str, object]", value)
            parts = [self.member(key, it, inner) for key, it in members.items()]
        else:
            parts = [self.value(it, inner) for it in cast("list[object]", value)]
        space = self.newline + inner
        opening, closing = "{}" if isinstance(value, Mapping) else "[]"
        return f"{opening}{space}{f',{space}'.join(parts)}{self.newline}{indent}{closing}"


def _needs_lines(value: object) -> bool:
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return any(map(_needs_lines, items)) or len(_dumped(items)) > _LONGEST_LIST
    return isinstance(value, Mapping) and bool(cast("Mapping[str, object]", value))


def _dumped(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Half of a surrogate pair cannot be written to a file, but its escape can.
    return text if _is_utf8(text) else json.dumps(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_spread(text: str, node: Node) -> bool:
    """Tell whether the members of an object stand on lines of their own."""
    if not node.members:
        return _NEWLINE.search(text.strip()) is not None or text.strip() == "{}"
    ends = [node.start + 1, *(it.node.end for it in node.members)]
    gaps = zip(ends, node.members, strict=False)
    return any(_NEWLINE.search(text, end, member.start) for end, member in gaps)


def _unit(document: Document) -> str:
    """Return by how much the file indents: what the first member has more than its object."""
    text = document.text
    waiting = [document.root]
    for node in waiting:
        for member in node.members[:1]:
            outer, indent = _indent_at(text, node.start), _indent_at(text, member.start)
            is_below = _NEWLINE.search(text, node.start, member.start) is not None
            if is_below and indent.startswith(outer) and indent != outer:
                return indent[len(outer) :]
        waiting += [it.node for it in node.members if it.node.members]
    return "  "


def _indent_at(text: str, offset: int) -> str:
    line = text.rfind("\n", 0, offset) + 1
    # Only what follows it is looked at, not the whole text once more.
    start = max(line, text.rfind("\r", line, offset) + 1)
    found = _BLANKS.match(text, start)
    return "" if found is None else found[0]
