from pegboard.search import Searcher, open_searcher
from pegboard.testing import SearcherContract


class TestRegex(SearcherContract):
    def open(self) -> Searcher:
        return open_searcher("regex")


class TestBM25(SearcherContract):
    def open(self) -> Searcher:
        return open_searcher("bm25")


class TestEmbedding(SearcherContract):
    def open(self) -> Searcher:
        return open_searcher("embedding")


class TestHybrid(SearcherContract):
    def open(self) -> Searcher:
        return open_searcher("hybrid")
