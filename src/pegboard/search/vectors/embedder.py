"""The Embedder protocol: your own embedding model, which turns texts into vectors."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pegboard.search.text.fields import ToolText
from pegboard.search.text.postings import Floats
from pegboard.search.vectors.meaning import QueryMeaning
from pegboard.search.vectors.space import Space

__all__ = ["Embedder", "EmbedderMeaning"]

_LONGEST = 2_000


class Embedder(Protocol):
    """Turns texts into vectors, as a sentence-transformers model or a wrapper of an API does."""

    def encode(self, texts: list[str], /) -> ArrayLike:
        """Return a vector for each text, all of one length."""
        ...


class EmbedderMeaning:
    """What tools and queries mean, by an embedder.

    Args:
        embedder: makes the vectors.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.version: str = f"{type(embedder).__module__}.{type(embedder).__qualname__}"
        # Called once, to learn how long its vectors are.
        self._width: int | None = None
        self._width = width = self._encode(["tool"]).shape[1]
        nothing = np.zeros((0, width), np.float32)
        self.space: Space = Space(nothing, nothing.T)

    def of_tools(self, texts: Sequence[ToolText]) -> Floats:
        """Return a unit row for each tool; zeros where the embedder gave no numbers."""
        return self._encode(
            [
                f"{it.name}: {it.title} {it.description} {it.parameters} {it.tags}"[:_LONGEST]
                for it in texts
            ]
        )

    def of_query(self, text: str) -> QueryMeaning:
        """Return what a query means."""
        rows = self._encode([text[:_LONGEST]])
        return QueryMeaning(rows[rows.any(axis=1)], ())

    def _encode(self, texts: list[str]) -> Floats:
        rows = np.array(self._embedder.encode(texts), np.float64)
        if rows.ndim != 2 or len(rows) != len(texts):
            raise ValueError(
                f"The embedder returned an array of shape {rows.shape} for {len(texts)} texts; "
                "it must return one vector for each text."
            )
        if self._width not in (None, rows.shape[1]):
            raise ValueError(
                f"The embedder returned vectors of {rows.shape[1]} numbers; before, they had "
                f"{self._width}."
            )
        # A vector with infinity in it, or no number, points nowhere.
        rows[~np.isfinite(rows).all(axis=1)] = 0
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
        return unit.astype(np.float32)
