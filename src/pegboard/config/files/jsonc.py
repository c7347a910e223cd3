"""Parse JSON with comments and trailing commas (JSONC), with the position of every value."""

import json
import re
from bisect import bisect_right
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

import msgspec

from pegboard.config.atomic_write import read_named_file
from pegboard.errors import ConfigError
from pegboard.model.lazy import LazyProperty

__all__ = ["Document", "Member", "Node", "Position", "files_read_once", "parse_jsonc", "read_jsonc"]

MAX_BYTES = 10_000_000
MAX_DEPTH = 100

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*+", re.DOTALL)
_NO_SPACE = frozenset('",:{}[]')
_PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*)"')
_SCALAR = re.compile(r"(-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?)|true|false|null")
_WORDS = {"true": True, "false": False, "null": None}
_decode_string = json.JSONDecoder().raw_decode


class Position(NamedTuple):
    """A position in a text; both numbers start at 1, and columns count characters."""

    line: int
    column: int


class Node(msgspec.Struct, frozen=True, dict=True):
    """A value, the offset of its first character, and the offset after its last one."""

    value: Any
    start: int
    end: int
    members: tuple["Member", ...] = ()
    """The members of an object, in the order of the text; a repeated key is there each time."""
    items: tuple["Node", ...] = ()
    """The items of an array."""

    def find(self, path: Sequence[str | int]) -> "Node | None":
        """Return the node at a path of keys and indexes, or ``None``."""
        node: Node | None = self
        for step in path:
            if node is None:
                break
            if isinstance(step, int):
                node = node.items[step] if step < len(node.items) else None
            else:
                node = node._by_key.get(step)
        return node

    @LazyProperty
    def _by_key(self) -> "Mapping[str, Node]":
        return {member.key: member.node for member in self.members}


class Member(msgspec.Struct, frozen=True):
    """A key and its value in an object, with the offsets of the key."""

    key: str
    start: int
    end: int
    node: Node


class _Parsed(NamedTuple):
    root: Node
    duplicates: tuple[Member, ...]
    newlines: Sequence[int]


class Document(msgspec.Struct, frozen=True, dict=True):
    """A parsed text. The positions of its values are found when they are first asked for."""

    text: str
    value: Any
    """The whole value; `root` has it with positions."""
    path: str | None = None

    def __repr__(self) -> str:
        # The text may contain secrets.
        return f"Document({len(self.text)} characters)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("characters", len(self.text))]

    @property
    def root(self) -> Node:
        """The value with the position of everything in it."""
        return self._parsed.root

    @property
    def duplicates(self) -> tuple[Member, ...]:
        """Members that repeat a key of their object; the last one is used."""
        # A text of which only the value is known has none.
        return self._parsed.duplicates if "_parsed" in self.__dict__ else ()

    def place(self, offset: int) -> Position:
        """Return the line and column of an offset."""
        return _place(self._parsed.newlines, offset)

    @LazyProperty
    def _parsed(self) -> _Parsed:
        return _Parser(self.text, self.path).parsed()


_READ: ContextVar[dict[Path, Document] | None] = ContextVar("read", default=None)


def read_jsonc(path: Path) -> Document:
    """Read and parse a file.

    Raises:
        ConfigError: when it cannot be read, is larger than 10 MB, or is not JSON.
    """
    known = _READ.get()
    if known is not None and path in known:
        return known[path]
    try:
        content = read_named_file(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"The file cannot be read: {error.strerror}.", path=str(path)) from None
    document = parse_jsonc(content, path=str(path))
    if known is not None:
        known[path] = document
    return document


@contextmanager
def files_read_once() -> Generator[None]:
    """Read and parse each file once in the block, however many sections of it are asked for."""
    token = _READ.set({})
    try:
        yield
    finally:
        _READ.reset(token)


def parse_jsonc(content: str | bytes, *, path: str | None = None) -> Document:
    """Parse JSON, with comments and trailing commas allowed; ``path`` is for messages only.

    Raises:
        ConfigError: with the line, the column and what was expected there.
    """
    if len(content) > MAX_BYTES:
        raise ConfigError("The file is larger than 10 MB.", path=path)
    text = _decode(content, path)
    with suppress(ValueError, RecursionError):
        return Document(text, _plain_value(text), path)
    # With comments, repeated keys or a fault: read in a slower way, which knows positions. Not
    # inside of a handler: the error of above contains the whole text.
    parsed = _Parser(text, path).parsed()
    document = Document(text, parsed.root.value, path)
    cast("dict[str, Any]", document.__dict__)["_parsed"] = parsed
    return document


def _plain_value(text: str) -> object:
    """Return the value of plain JSON, which is fast.

    Raises:
        ValueError: when the text is anything else, or repeats a key.
    """
    value: object = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_word)
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for it in level for inner in _members(it) if isinstance(inner, dict | list)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _members(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is repeated")
    return members


def _no_word(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _decode(content: str | bytes, path: str | None) -> str:
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    message = "The file is not UTF-8; save it in that encoding."
    raise ConfigError(message, path=path, line=line, column=column)


def _place(newlines: Sequence[int], offset: int) -> Position:
    line = bisect_right(newlines, offset - 1)
    return Position(line + 1, offset - (newlines[line - 1] if line else -1))


class _Parser:
    def __init__(self, text: str, path: str | None) -> None:
        self.text = text
        self.path = path
        self.newlines = [found.start() for found in re.finditer("\n", text)]
        self.duplicates: list[Member] = []

    def parsed(self) -> _Parsed:
        root = self.value(self.skip(0), 0)
        end = self.skip(root.end)
        if end < len(self.text):
            self.refuse("the end of the file", end)
        return _Parsed(root, tuple(self.duplicates), self.newlines)

    def skip(self, index: int) -> int:
        if self.text[index : index + 1] in _NO_SPACE:
            return index
        found = _SPACE.match(self.text, index)
        return index if found is None else found.end()

    def value(self, index: int, depth: int) -> Node:
        first = self.text[index : index + 1]
        if first == '"':
            return self.string(index)
        if first in ("{", "["):
            if depth == MAX_DEPTH:
                self.refuse(f"at most {MAX_DEPTH} levels of nesting", index)
            return self.object(index, depth) if first == "{" else self.array(index, depth)
        return self.scalar(index)

    def object(self, start: int, depth: int) -> Node:
        values: dict[str, Any] = {}
        members: list[Member] = []
        index = self.skip(start + 1)
        while (first := self.text[index : index + 1]) != "}":
            if first != '"':
                self.refuse('a key in double quotes, or "}"', index)
            key = self.string(index)
            colon = self.skip(key.end)
            if self.text[colon : colon + 1] != ":":
                self.refuse('":" after the key', colon)
            node = self.value(self.skip(colon + 1), depth + 1)
            member = Member(key.value, key.start, key.end, node)
            if key.value in values:
                self.duplicates.append(member)
            values[key.value] = node.value
            members.append(member)
            index = self.next_item(node.end, "}")
        return Node(values, start, index + 1, tuple(members))

    def array(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        index = self.skip(start + 1)
        while self.text[index : index + 1] != "]":
            node = self.value(index, depth + 1)
            items.append(node)
            index = self.next_item(node.end, "]")
        return Node([it.value for it in items], start, index + 1, (), tuple(items))

    def next_item(self, end: int, closing: str) -> int:
        index = self.skip(end)
        following = self.text[index : index + 1]
        if following == ",":
            return self.skip(index + 1)
        if following != closing:
            self.refuse(f'"," or "{closing}"', index)
        return index

    def string(self, start: int) -> Node:
        plain = _PLAIN_STRING.match(self.text, start)
        if plain is not None:
            return Node(plain[1], start, plain.end())
        try:
            value, end = _decode_string(self.text, start)
        except json.JSONDecodeError as error:
            place, unclosed = error.pos, error.msg.startswith("Unterminated")
        else:
            return Node(value, start, end)
        # Not raised from the error above: that one contains the whole text.
        what = "a closing quote for" if unclosed else "a valid escape or character in"
        return self.refuse(f"{what} this string", place)

    def scalar(self, start: int) -> Node:
        found = _SCALAR.match(self.text, start)
        if found is None:
            self.refuse("a value", start)
        if found[1] is None:
            return Node(_WORDS[found[0]], start, found.end())
        try:
            value = float(found[1]) if found[2] or found[3] else int(found[1])
        except ValueError:
            # Python refuses to convert more than a few thousand digits.
            value = None
        if value is None:
            self.refuse("a number of reasonable length", start)
        return Node(value, start, found.end())

    def refuse(self, expected: str, index: int) -> NoReturn:
        # The text there is not quoted: it may be part of a secret.
        hint = ""
        if not self.text.strip():
            hint = " The file is empty."
        elif index >= len(self.text):
            hint = " The file ends here: close what is still open."
        elif self.text.startswith("/*", index):
            hint = " This comment is never closed: `*/` is missing."
        elif self.text[index] in "'\u201c\u201d":
            hint = ' Strings need plain double quotes: ".'
        place = _place(self.newlines, index)
        raise ConfigError(f"Expected {expected}.{hint}", path=self.path, **place._asdict())
