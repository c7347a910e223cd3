"""Embedding: finds tools by what they mean, whatever words say it."""

from pegboard.search.index.index import ToolIndex
from pegboard.search.index.snapshot import Candidates, Snapshot
from pegboard.search.methods.index_searcher import (
    BY_MEANING,
    Confidence,
    IndexSearcher,
    Prepared,
    strangeness,
)
from pegboard.search.searcher import Query
from pegboard.search.text.postings import Floats
from pegboard.search.text.words import query_words
from pegboard.search.vectors.embedder import Embedder, EmbedderMeaning
from pegboard.search.vectors.meaning import open_meaning

__all__ = ["Embedding"]


class Embedding(IndexSearcher):
    """Compares vectors: those of the shipped table of words, or of an embedder of yours.

    Args:
        index: where to look; it may be shared. Without one, a new one.
        embedder: what makes vectors of texts, instead of the table of words.
    """

    confidence: Confidence = BY_MEANING

    def __init__(self, index: ToolIndex | None = None, *, embedder: Embedder | None = None) -> None:
        self._embedder = embedder
        super().__init__(index)

    def new_index(self) -> ToolIndex:
        """Return an index that knows what tools mean."""
        embedder = self._embedder
        return ToolIndex(open_meaning() if embedder is None else EmbedderMeaning(embedder))

    def prepare(self, query: Query, snapshot: Snapshot) -> Prepared:
        """Return what the query means."""
        meaning = self.index.meaning
        meant = None if meaning is None else meaning.of_query(query.text)
        words = query_words(query.text)
        return Prepared(query, words, {}, meant, strangeness(words, meant))

    def parts(self, candidates: Candidates) -> dict[str, Floats]:
        """Return how near the meaning is."""
        return {"meaning": candidates.dense}
