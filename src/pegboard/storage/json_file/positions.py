"""Line and column of a mistake in JSON text, and what can be read of text that is broken."""

import json
import re
import shlex
from collections.abc import Collection, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pegboard.errors import StoreDamagedError

__all__ = [
    "BrokenJsonError",
    "Member",
    "damaged",
    "offset_of",
    "position_of",
    "start_of",
    "syntax_error",
    "walk",
    "walk_behind",
    "walk_on",
]

_SPACE = re.compile(r"[ \t\r\n]*")
_CLOSING = {"{": "}", "[": "]"}
_decoder = json.JSONDecoder()


class Member(NamedTuple):
    """A key, its value and the offsets of both; an item of an array has an empty key."""

    key: str
    start: int
    value: Any
    value_start: int
    end: int


Walk = Generator[tuple[tuple[str, ...], Member], None, int]


class BrokenJsonError(ValueError):
    """The text stops making sense at an offset."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset


def damaged(path: Path, problem: str, text: str, offset: int) -> StoreDamagedError:
    """Return the error that says what is wrong with a file, and where."""
    line, column = position_of(text, offset)
    store = path.with_suffix("") if path.suffix == ".journal" else path
    remedy = f"pegboard store recover --store {shlex.quote(str(store))}"
    return StoreDamagedError(problem, url=str(path), remedy=remedy, line=line, column=column)


def position_of(text: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of an offset, both beginning with 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def offset_of(text: str, steps: tuple[str | int, ...], within: Member | None = None) -> int:
    """Return where keys and indices lead to, from the top or a member: the start of the last."""
    key_at = value_at = start_of(text)
    if within is not None:
        key_at, value_at = within.start, within.value_start
    for step in steps:
        # The last of several counts, as when they are read.
        for number, (_, member) in enumerate(walk(text, value_at)):
            if step in (member.key, number):
                key_at, value_at = member.start, member.value_start
    return key_at


def start_of(text: str, index: int = 0) -> int:
    """Return where the next sign is that is no space."""
    found = _SPACE.match(text, index)
    return index if found is None else found.end()


def syntax_error(text: str) -> BrokenJsonError | None:
    """Return where a text is no JSON."""
    try:
        end = start_of(text, _value(text, start_of(text))[1])
    except BrokenJsonError as error:
        return error
    return BrokenJsonError("There is more after the end.", end) if end < len(text) else None


def walk(text: str, start: int, depth: int = 0, *, into: Collection[str] = ()) -> Walk:
    """Give the members of the object or array at an offset, each with the keys that lead to it.

    Those under a key to go ``into`` are given one by one, down to a ``depth``.

    Raises:
        BrokenJsonError: after the last one that can be read.
    """
    closing = _CLOSING.get(text[start : start + 1])
    if closing is None:
        raise _broken(text, start, "`{` is expected")
    return _walk(text, start_of(text, start + 1), closing, depth, (), into)


def walk_on(text: str, index: int) -> Iterator[Member]:
    """Give the members of an object from the one on whose key begins at an offset."""
    return (member for _, member in _walk(text, index, "}", 0, (), ()))


def walk_behind(text: str, end: int) -> Iterator[Member]:
    """Give the members that follow an object whose last member ends at an offset."""
    return walk_on(text, _next(text, _next(text, end, "}") + 1, "}"))


def _walk(
    text: str, index: int, closing: str, depth: int, path: tuple[str, ...], into: Collection[str]
) -> Walk:
    while text[index : index + 1] != closing:
        key, start = "", index
        if closing == "}":
            key, end = _value(text, index)
            if not isinstance(key, str):
                raise BrokenJsonError("A name in double quotes is expected here.", index)
            start = _expect(text, start_of(text, end), ":")
        inner = _CLOSING.get(text[start : start + 1])
        if depth and inner is not None and (inner == "}" if path else key in into):
            begin = start_of(text, start + 1)
            end = yield from _walk(text, begin, inner, depth - 1, (*path, key), into)
        else:
            value, end = _value(text, start)
            yield (*path, key), Member(key, index, value, start, end)
        index = _next(text, end, closing)
    return index + 1


def _next(text: str, end: int, closing: str) -> int:
    index = start_of(text, end)
    if text[index : index + 1] == closing:
        return index
    following = _expect(text, index, ",", f" or `{closing}`")
    if text[following : following + 1] == closing:
        raise BrokenJsonError("There is a comma too many before this.", following)
    return following


def _expect(text: str, index: int, sign: str, other: str = "") -> int:
    if text[index : index + 1] != sign:
        raise _broken(text, index, f"`{sign}`{other} is expected")
    return start_of(text, index + 1)


def _value(text: str, index: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(text, index)
    except json.JSONDecodeError as error:
        # Not from it: that error holds the whole text.
        raise _broken(text, error.pos, error.msg) from None
    except StopIteration:
        raise _broken(text, index, "a value is expected") from None
    except (RecursionError, ValueError):
        raise BrokenJsonError("This is nested too deeply, or too long a number.", index) from None


def _broken(text: str, index: int, reason: str) -> BrokenJsonError:
    if index >= len(text.rstrip()):
        return BrokenJsonError("The file ends too early.", index)
    return BrokenJsonError(f"This is not JSON: {reason[:1].lower()}{reason[1:]}.", index)
