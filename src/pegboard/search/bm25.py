"""BM25: finds tools by the words that they share with the query."""

from pegboard.search.confidence import BY_WORDS, Confidence
from pegboard.search.index import ToolIndex
from pegboard.search.index_searcher import IndexSearcher, Prepared, plain_weights
from pegboard.search.postings import Floats
from pegboard.search.searcher import Query
from pegboard.search.snapshot import Candidates, Snapshot
from pegboard.search.words import query_words

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
