"""Plain text: escape control characters, align columns, and cut text to a width."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.config import Problem

__all__ = [
    "NOT_ON_WINDOWS",
    "columns_of",
    "counted",
    "cut_in_the_middle",
    "escaped",
    "fitting_widths",
    "one_line",
    "placed",
    "printable",
    "sentence",
    "width_of",
    "without_folder",
]

# What is not seen: JSON can write it in another way.
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_GAP = "  "
_LEAST = 8
"""The narrowest column that is still readable."""


def printable(text: str) -> str:
    """Return text in which nothing moves the cursor, changes colours or hides what is there."""
    if text.isprintable():
        return text
    from pegboard.model.hidden_characters import all_visible  # noqa: PLC0415 - few commands need it

    return all_visible(text).replace("\r", "\\r")


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


def fitting_widths(
    rows: Sequence[Sequence[str]], room: int, *, whole: Collection[int] = ()
) -> list[int]:
    """Return how wide each column may be: the widest give way, and the first one never does.

    Where that is not enough, there are fewer than there are columns: the last ones have no room.
    What stands above a column, the first of the rows, is not cut.

    Args:
        rows: as many cells as there are columns.
        room: how wide all of them may be together.
        whole: the columns, by number, that do not give way either.
    """
    widths = _widths(rows)
    gaps = len(_GAP) * (len(widths) - 1)
    least = [max(_LEAST, _width(heading)) for heading in rows[0]]
    while len(widths) > 1 and sum(widths) + gaps > room:
        free = (it for it in range(1, len(widths)) if it not in whole)
        yielding = [it for it in free if widths[it] > least[it]]
        if not yielding:
            return fitting_widths([row[:-1] for row in rows], room, whole=whole)
        widths[max(yielding, key=widths.__getitem__)] -= 1
    return widths


def cut_in_the_middle(text: str, width: int) -> str:
    """Return text that is no wider: of a command line, both ends say the most."""
    if _width(text) <= width:
        return text
    end = text
    while _width(end) > (width - 1) // 2:
        end = end[1:]
    while _width(text) > width - 1 - _width(end):
        text = text[:-1]
    return f"{text}…{end}"


def without_folder(command_line: str) -> str:
    """Return a command line whose program goes by its name alone; an address stays as it is."""
    program, gap, rest = command_line.partition(" ")
    return f"{os.path.basename(program)}{gap}{rest}" if os.path.isabs(program) else command_line  # noqa: PTH117, PTH119 - of any text


def width_of(rows: Sequence[Sequence[str]]) -> int:
    """Return how wide a table is of which nothing is cut."""
    widths = _widths(rows)
    return sum(widths) + len(_GAP) * (len(widths) - 1)


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


NOT_ON_WINDOWS = "`pegboard serve` runs on Linux and macOS; on Windows use WSL."


def sentence(words: str) -> str:
    """Return words as a sentence; capital letters in them stay."""
    return f"{words[:1].upper()}{words[1:]}."


def counted(number: int, noun: str) -> str:
    """Return ``1 tool`` or ``2 tools``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def placed(problem: "Problem", file: "Path | str | None") -> str:
    """Return a problem and where it is, as editors understand it: ``mcp.json:24:20: error: …``."""
    if file is None:
        return str(problem)
    return f"{file}:{'' if problem.line is not None else ' '}{problem}"
