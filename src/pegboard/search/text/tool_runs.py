"""ToolRuns: the texts of tools, split into runs of letters once for postings and vectors."""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, overload

import numpy as np

from pegboard.model.lazy import LazyProperty
from pegboard.search.text.fields import FIELDS, ToolText
from pegboard.search.text.words import SEPARATOR, Word, runs_of, split_runs

__all__ = ["MEANT", "PIECES", "RunChunk", "ToolRuns", "part_of", "read_once"]

PIECES = {
    "name": "name",
    "title": "title",
    "first": "description",
    "second": "description",
    "more": "description",
    "parameters": "parameters",
    "more_parameters": "parameters",
    "details": "details",
    "more_details": "details",
    "server": "server",
    "tags": "tags",
    "category": "category",
}
"""The pieces that texts are cut into, and the field that each belongs to."""
MEANT: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in PIECES},
    "description": ("first", "second"),
}
"""Of which pieces the parts of a tool are made whose meaning counts."""

_FIRST_SENTENCE = re.compile(r".{10,}?(?:[.!?\n](?=\s|$)|。)", re.DOTALL)
# How much of each text counts for the meaning; what follows is only looked for by its words.
_FIRST, _DESCRIPTION, _PARAMETERS, _DETAILS = 200, 400, 400, 600
_BORDER = re.compile(r"[\s，、。；]")  # noqa: RUF001 - Chinese has its own
# Fewer at once take more steps, more take more memory.
_CUT_AT_ONCE = 512


class RunChunk(NamedTuple):
    """The runs of some tools, piece by piece, tool by tool."""

    size: int
    """How many tools there are."""
    runs: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    """Their numbers."""
    cells: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    """To which piece each belongs, counted from the first tool on."""


class ToolRuns(Sequence[ToolText]):
    """The texts of tools, and their runs, which are split when first needed."""

    def __init__(self, texts: Sequence[ToolText]) -> None:
        self._texts = texts
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, place: int) -> ToolText: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ToolText]: ...
    def __getitem__(self, place: int | slice) -> ToolText | Sequence[ToolText]:
        return self._texts[place]

    @LazyProperty
    def chunks(self) -> list[RunChunk]:
        """All runs, by number."""
        firsts = range(0, len(self._texts), _CUT_AT_ONCE)
        return [self._cut(self._texts[first : first + _CUT_AT_ONCE]) for first in firsts]

    @LazyProperty
    def words(self) -> list[tuple[Word, ...]]:
        """The words of each run."""
        assert self.chunks is not None
        return list(split_runs(self._numbers))

    def _cut(self, texts: Sequence[ToolText]) -> RunChunk:
        between = self._numbers[SEPARATOR]
        found = runs_of([piece for text in texts for piece in pieces_of(text)])
        runs = np.fromiter(map(self._numbers.__getitem__, found), np.int64, len(found))
        is_border = runs == between
        telling = ~is_border
        return RunChunk(len(texts), runs[telling], np.cumsum(is_border)[telling])


def read_once(texts: Sequence[ToolText]) -> ToolRuns:
    """Return texts as such that are cut only once."""
    return texts if isinstance(texts, ToolRuns) else ToolRuns(texts)


def part_of(text: ToolText, part: str) -> str:
    """Return what of a tool counts for one part of its meaning."""
    pieces = dict(zip(PIECES, pieces_of(text), strict=True))
    return "".join(pieces[piece] for piece in MEANT[part])


def pieces_of(text: ToolText) -> tuple[str, ...]:
    """Return the pieces of the texts of a tool."""
    description, parameters, details = text.description, text.parameters, text.details
    sentence = _FIRST_SENTENCE.match(description)
    first = _border(description, _FIRST, sentence.end() if sentence else len(description))
    second = max(first, _border(description, _DESCRIPTION, len(description)))
    named = _border(parameters, _PARAMETERS, len(parameters))
    said = _border(details, _DETAILS, len(details))
    return (
        text.name,
        text.title,
        description[:first],
        description[first:second],
        description[second:],
        parameters[:named],
        parameters[named:],
        details[:said],
        details[said:],
        text.server,
        text.tags,
        text.category,
    )


def _border(text: str, most: int, end: int) -> int:
    """Return where to cut a text that may be so long, so that no word is cut."""
    if end <= most:
        return end
    found = _BORDER.search(text, most, end)
    return found.end() if found else end


assert {*PIECES.values()} == {*FIELDS}
