"""Text without colours: harmless on a terminal, and in columns."""

import re
from collections.abc import Iterator, Sequence
from unicodedata import combining, east_asian_width

__all__ = ["columns_of", "escaped", "fitting_widths", "one_line", "printable"]

# Controls but for tab and line feed, and what turns the direction of a line around.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# What is not seen, besides: JSON can write it in another way.
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_GAP = "  "
_LEAST = 4
"""A column that is narrower says nothing."""


def printable(text: str) -> str:
    """Return text in which nothing moves the cursor, changes colours or hides what is there."""
    return text if text.isprintable() else _STEERING.sub("\ufffd", text)


def escaped(json: str) -> str:
    """Return the same JSON, in which characters that steer a terminal or hide are spelled."""
    return _UNSEEN.sub(_spelled, json)


def one_line(text: str) -> str:
    """Return text for one cell of a table."""
    return printable(text if text.isprintable() else " ".join(text.split()))


def columns_of(rows: Sequence[Sequence[str]], aligned: Sequence[str]) -> Iterator[str]:
    """Return a line for each row, with its cells below each other.

    Args:
        rows: as many cells as there are columns.
        aligned: ``<`` or ``>`` for each column.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = _widths(cells)
    for row in cells:
        parts: list[str] = []
        for cell, side, width in zip(row, aligned, widths, strict=True):
            space = " " * (width - _width(cell))
            parts.append(space + cell if side == ">" else cell + space)
        yield _GAP.join(parts).rstrip()


def fitting_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return how wide each column may be: the widest give way, and the first one never does.

    Where that is not enough, there are fewer than there are columns: the last ones have no room.
    What stands above a column, the first of the rows, is not cut.
    """
    widths = _widths(rows)
    gaps = len(_GAP) * (len(widths) - 1)
    least = [max(_LEAST, _width(heading)) for heading in rows[0]]
    while len(widths) > 1 and sum(widths) + gaps > room:
        yielding = [it for it in range(1, len(widths)) if widths[it] > least[it]]
        if not yielding:
            return fitting_widths([row[:-1] for row in rows], room)
        widths[max(yielding, key=widths.__getitem__)] -= 1
    return widths


def _spelled(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(_width, column)) for column in zip(*rows, strict=True)]


def _width(text: str) -> int:
    """Return how many places of a terminal text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(it) else 1 + (east_asian_width(it) in "WF") for it in text)
