"""BM25: the search method that finds tools by the words that they share with the query."""

from pegboard.search.index.index import ToolIndex
from pegboard.search.index.snapshot import Candidates, Snapshot
from pegboard.search.methods.index_searcher import (
    BY_WORDS,
    Confidence,
    IndexSearcher,
    PreparedQuery,
    plain_weights,
)
from pegboard.search.searcher import Query
from pegboard.search.text.postings import Floats
from pegboard.search.text.words import query_words

__all__ = ["BM25"]


class BM25(IndexSearcher):
    """Ranks tools by BM25F, without vectors.

    A rare word counts more than a frequent one, and a word of a name more than a word of a
    description (see `text.fields`). The scores come from `index.bm25_scoring`. Words are stemmed,
    so ``sending`` finds ``send``, but synonyms are not found: `Hybrid` finds those.
    """

    confidence: Confidence = BY_WORDS

    def new_index(self) -> ToolIndex:
        """Return an index of words only."""
        return ToolIndex()

    def prepare(self, query: Query, snapshot: Snapshot) -> PreparedQuery:
        """Return the words of the query."""
        words = query_words(query.text)
        return PreparedQuery(query, words, plain_weights(words), None)

    def parts(self, candidates: Candidates) -> dict[str, Floats]:
        """Return how well the words fit."""
        return {"words": candidates.lexical}
