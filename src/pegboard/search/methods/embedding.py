"""Embedding: the semantic search method, which compares the vectors of tools and query."""

from pegboard.search.index.index import ToolIndex
from pegboard.search.index.snapshot import Candidates, Snapshot
from pegboard.search.methods.index_searcher import (
    BY_MEANING,
    Confidence,
    IndexSearcher,
    PreparedQuery,
    unknown_share,
)
from pegboard.search.searcher import Query
from pegboard.search.text.postings import Floats
from pegboard.search.text.words import query_words
from pegboard.search.vectors.embedder import Embedder, EmbedderMeaning
from pegboard.search.vectors.meaning import open_meaning

__all__ = ["Embedding"]


class Embedding(IndexSearcher):
    """Compares vectors: those of the shipped word table, or those of your own embedder.

    Args:
        index: the index to search, which may be shared; by default a new one.
        embedder: makes the vectors of texts, instead of the word table.
    """

    confidence: Confidence = BY_MEANING

    def __init__(self, index: ToolIndex | None = None, *, embedder: Embedder | None = None) -> None:
        self._embedder = embedder
        super().__init__(index)

    def new_index(self) -> ToolIndex:
        """Return an index with vectors."""
        embedder = self._embedder
        return ToolIndex(open_meaning() if embedder is None else EmbedderMeaning(embedder))

    def prepare(self, query: Query, snapshot: Snapshot) -> PreparedQuery:
        """Return the query with its vectors."""
        meaning = self.index.meaning
        meant = None if meaning is None else meaning.of_query(query.text)
        words = query_words(query.text)
        return PreparedQuery(query, words, {}, meant, unknown_share(words, meant))

    def parts(self, candidates: Candidates) -> dict[str, Floats]:
        """Return how near the meaning is."""
        return {"meaning": candidates.dense}
