"""Where something stands in a JSON text, and what can be read of a broken one."""

import json
import re
from collections.abc import Collection, Generator, Iterator
from typing import Any, NamedTuple

__all__ = [
    "BrokenJsonError",
    "Member",
    "Place",
    "items",
    "members",
    "place_of",
    "syntax_error",
    "walk",
    "walk_on",
    "walk_out",
]

_SPACE = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


class Place(NamedTuple):
    """A line and a column, both beginning with 1."""

    line: int
    column: int


class Member(NamedTuple):
    """A key, its value and the offsets of both; of an item of an array the key is empty."""

    key: str
    start: int
    value: Any
    value_start: int
    end: int


class BrokenJsonError(ValueError):
    """The text stops making sense at an offset."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset


def place_of(text: str, offset: int) -> Place:
    """Return the line and column of an offset."""
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def syntax_error(text: str) -> BrokenJsonError | None:
    """Return where a text is no JSON."""
    try:
        _value(text, _skip(text, 0))
    except BrokenJsonError as error:
        return error
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return BrokenJsonError("There is more after the end.", error.pos)
    return None


def members(text: str, start: int) -> Iterator[Member]:
    """Give the members of the object that begins at an offset, as far as they can be read.

    Raises:
        BrokenJsonError: after the last one that can.
    """
    for _, member in walk(text, start, 0):
        yield member


def walk(
    text: str, start: int, depth: int, *, into: Collection[str] = ()
) -> Iterator[tuple[tuple[str, ...], Member]]:
    """Give the members of objects inside objects, with the keys that lead to them.

    What is no object is given where it stands, and so is what has another key than those to go
    ``into``.

    Raises:
        BrokenJsonError: after the last one that can be read.
    """
    return _walk(text, _expect(text, start, "{"), depth, (), into)


def walk_on(text: str, index: int) -> Iterator[tuple[tuple[str, ...], Member]]:
    """Go on in the middle of an object, with the member whose key begins at an offset.

    Raises:
        BrokenJsonError: after the last one that can be read.
    """
    return _walk(text, index, 0, ())


def walk_out(text: str, end: int) -> Iterator[tuple[tuple[str, ...], Member]]:
    """Go on behind an object whose last member ends at an offset, in the object around it.

    Raises:
        BrokenJsonError: after the last one that can be read.
    """
    closing = _next(text, end, "}")
    return _walk(text, _next(text, closing + 1, "}"), 0, ())


def items(text: str, start: int) -> Iterator[Member]:
    """Give the items of the array that begins at an offset, as far as they can be read.

    Raises:
        BrokenJsonError: after the last one that can.
    """
    index = _expect(text, start, "[")
    while text[index : index + 1] != "]":
        value, end = _value(text, index)
        yield Member("", index, value, index, end)
        index = _next(text, end, "]")


def _walk(
    text: str, index: int, depth: int, path: tuple[str, ...], into: Collection[str] = ()
) -> Generator[tuple[tuple[str, ...], Member], None, int]:
    while text[index : index + 1] != "}":
        key, end = _value(text, index)
        if not isinstance(key, str):
            raise BrokenJsonError("A name in double quotes is expected here.", index)
        start = _expect(text, _skip(text, end), ":")
        if depth and text[start : start + 1] == "{" and (path or key in into):
            inside = _expect(text, start, "{")
            end = yield from _walk(text, inside, depth - 1, (*path, key))
        else:
            value, end = _value(text, start)
            yield (*path, key), Member(key, index, value, start, end)
        index = _next(text, end, "}")
    return index + 1


def _skip(text: str, index: int) -> int:
    found = _SPACE.match(text, index)
    return index if found is None else found.end()


def _expect(text: str, index: int, sign: str) -> int:
    if text[index : index + 1] != sign:
        raise BrokenJsonError(_problem(text, index, f"`{sign}` is expected"), index)
    return _skip(text, index + 1)


def _next(text: str, end: int, closing: str) -> int:
    index = _skip(text, end)
    if text[index : index + 1] == closing:
        return index
    following = _expect_either(text, index, closing)
    if text[following : following + 1] == closing:
        raise BrokenJsonError("There is a comma too many before this.", following)
    return following


def _expect_either(text: str, index: int, closing: str) -> int:
    if text[index : index + 1] != ",":
        raise BrokenJsonError(_problem(text, index, f"`,` or `{closing}` is expected"), index)
    return _skip(text, index + 1)


def _value(text: str, index: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(text, index)
    except json.JSONDecodeError as error:
        # Not from it: that error holds the whole text.
        problem, offset = _problem(text, error.pos, error.msg), error.pos
        raise BrokenJsonError(problem, offset) from None
    except StopIteration:
        raise BrokenJsonError(_problem(text, index, "a value is expected"), index) from None
    except (RecursionError, ValueError):
        raise BrokenJsonError("This is nested too deeply, or too long a number.", index) from None


def _problem(text: str, index: int, reason: str) -> str:
    if index >= len(text.rstrip()):
        return "The file ends too early."
    return f"This is not JSON: {reason[:1].lower()}{reason[1:]}."
