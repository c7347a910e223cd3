"""WordTable: word vectors for semantic search, read from a shipped file (made by `training/`)."""

import json
import math
import mmap
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegboard.errors import SearchDataError
from pegboard.model.lazy import LazyProperty

__all__ = ["SHIPPED_TABLE", "WordTable", "main_directions", "open_table", "write_table"]

# So many directions carry most of the information; where they mislead, exact scores correct it.
_COARSE = 64


def main_directions(centroids: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the directions that tell regions apart, as columns; none where all of them count.

    Args:
        centroids: the middles of the regions, as unit rows.
    """
    regions, width = centroids.shape
    # Fewer centroids than directions do not tell which ones matter.
    if not regions > width > _COARSE * 3 // 2:
        return np.zeros((width, 0), np.float32)
    _, directions = np.linalg.eigh(centroids.T.astype(np.float64) @ centroids)
    return np.ascontiguousarray(directions[:, : -_COARSE - 1 : -1], np.float32)


SHIPPED_TABLE = Path(__file__).with_name("words.table")
_MAGIC = b"pegboard words 1\n"
_ALIGNED = 64

# What an unknown word may end with, and what stood there instead.
_ENDINGS = (
    ("ies", "y"), ("es", ""), ("es", "e"), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""),
    ("ed", "e"), ("er", ""), ("er", "e"), ("ly", ""), ("ness", ""), ("ation", "e"), ("al", ""),
)  # fmt: skip
_SHORTEST_STEM = 3
_LONGEST_WORD = 40
_SHORTEST_COMPOUND = 6


class WordTable:
    """Vectors of small integers, one row for each word; read as needed.

    Raises:
        SearchDataError: when the file cannot be read, or is not a word table.
    """

    def __init__(self, path: Path) -> None:
        try:
            head, part = _read(path)
            self.version: str = head["version"]
            """Differs where the same text would get another vector."""
            self.fields: dict[str, float] = head["fields"]
            """How much each part of a tool counts for its meaning."""
            self.vectors: NDArray[np.int8] = part("vectors")
            """What each word means; only the direction counts."""
            self.weights: NDArray[np.float32] = part("weights")
            """How much a step of a row is: rows times weights are the vectors of texts."""
            self.query_weights: NDArray[np.float32] = part("query_weights")
            """The same for queries, in which names and dates say little about the tool."""
            self.importance: NDArray[np.float32] = part("importance")
            """How much a word of a query says about the tool that is looked for."""
            self.turn: NDArray[np.float32] = part("turn")
            """The matrix that takes the meaning of a query to that of the tools for it."""
            self.centroids: NDArray[np.float32] = part("centroids")
            """What regions there are."""
            self._directions = part("directions") if "directions" in head["parts"] else None
            self.neighbours: NDArray[np.uint16] = part("neighbours")
            """The rows of the nearest English words, nearest first."""
            self.closeness: NDArray[np.uint8] = part("closeness")
            """How near they are, 0 to 255."""
            self._words = bytes(part("words"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SearchDataError(
                f"The word table {path} cannot be used: {error}. Install Pegboard again, or unset "
                "PEGBOARD_WORD_TABLE if it names another table."
            ) from error

    @LazyProperty
    def directions(self) -> NDArray[np.float32]:
        """The directions that tell regions apart, as columns; older tables have none in them."""
        return main_directions(self.centroids) if self._directions is None else self._directions

    @LazyProperty
    def words(self) -> list[str]:
        """The word of each row."""
        return self._words.decode().split("\n")

    @LazyProperty
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return dict(zip(self.words, range(len(self.words)), strict=True))

    def find(self, word: str) -> tuple[int, ...]:
        """Return the rows that stand for a word in small letters: one, two of a compound, none."""
        row = self.rows.get(word)
        if row is not None:
            return (row,)
        if len(word) > _LONGEST_WORD or not word.isascii() or not word.isalpha():
            return ()
        return self._by_ending(word) or self._as_compound(word)

    def near(self, row: int) -> list[tuple[str, float]]:
        """Return the English words that are nearest to that of a row, and how near, 0 to 1."""
        rows: list[int] = self.neighbours[row].tolist()
        nearness: list[int] = self.closeness[row].tolist()
        return [(self.words[it], near / 255) for it, near in zip(rows, nearness, strict=True)]

    def _by_ending(self, word: str) -> tuple[int, ...]:
        for ending, instead in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
                row = self.rows.get(word[: -len(ending)] + instead)
                if row is not None:
                    return (row,)
        return ()

    def _as_compound(self, word: str) -> tuple[int, ...]:
        if len(word) >= _SHORTEST_COMPOUND:
            for cut in range(len(word) - _SHORTEST_STEM, _SHORTEST_STEM - 1, -1):
                first, second = self.rows.get(word[:cut]), self.rows.get(word[cut:])
                if first is not None and second is not None:
                    return first, second
        return ()


def _read(path: Path) -> tuple[dict[str, Any], Callable[[str], NDArray[Any]]]:
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it is not a word table")
    begin = len(_MAGIC) + 4
    size = int.from_bytes(data[len(_MAGIC) : begin], "little")
    head: dict[str, Any] = json.loads(data[begin : begin + size])
    start = _aligned(begin + size)

    def part(name: str) -> NDArray[Any]:
        kind, shape, offset = head["parts"][name]
        return np.frombuffer(data, kind, math.prod(shape), start + offset).reshape(shape)

    return head, part


def open_table(path: Path | None = None) -> WordTable:
    """Return the table at a path, or the one in ``PEGBOARD_WORD_TABLE``, or the shipped one.

    Raises:
        SearchDataError: when it is missing or damaged.
    """
    named = os.environ.get("PEGBOARD_WORD_TABLE")
    return _opened(path or (Path(named) if named else SHIPPED_TABLE))


_opened = lru_cache(4)(WordTable)


def write_table(
    path: Path,
    words: list[str],
    parts: dict[str, NDArray[Any]],
    about: dict[str, Any],
) -> None:
    """Write a table, as `training/` does.

    Args:
        path: where to.
        words: the word of each row.
        parts: everything else, by the names that a `WordTable` has for it.
        about: ``version``, ``fields``, and whatever else is worth knowing.
    """
    joined = np.frombuffer("\n".join(words).encode(), np.uint8)
    offset = 0
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    for name, array in {**parts, "words": joined}.items():
        places[name] = (array.dtype.str, array.shape, offset)
        offset = _aligned(offset + array.nbytes)
    head = json.dumps({**about, "parts": places}).encode()
    with path.open("wb") as file:
        file.write(_MAGIC + len(head).to_bytes(4, "little") + head)
        start = _aligned(file.tell())
        for name, array in {**parts, "words": joined}.items():
            file.seek(start + places[name][2])
            file.write(np.ascontiguousarray(array).tobytes())


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNED) * _ALIGNED
