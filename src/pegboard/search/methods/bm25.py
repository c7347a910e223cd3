"""BM25: finds tools by the words that they share with the query."""

from pegboard.search.index.index import ToolIndex
from pegboard.search.index.snapshot import Candidates, Snapshot
from pegboard.search.methods.index_searcher import (
    BY_WORDS,
    Confidence,
    IndexSearcher,
    Prepared,
    plain_weights,
)
from pegboard.search.searcher import Query
from pegboard.search.text.postings import Floats
from pegboard.search.text.words import query_words

__all__ = ["BM25"]


class BM25(IndexSearcher):
    """Counts words: rare ones more than frequent ones, those of names more than those of texts."""

    confidence: Confidence = BY_WORDS

    def new_index(self) -> ToolIndex:
        """Return an index of words only."""
        return ToolIndex()

    def prepare(self, query: Query, snapshot: Snapshot) -> Prepared:
        """Return the words of the query."""
        words = query_words(query.text)
        return Prepared(query, words, plain_weights(words), None)

    def parts(self, candidates: Candidates) -> dict[str, Floats]:
        """Return how well the words fit."""
        return {"words": candidates.lexical}
