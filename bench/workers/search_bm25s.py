"""bm25s: sparse BM25 in numpy, English stop-words and stems as its README shows."""

import bm25s
import Stemmer
from search_shared import DEPTH, Definition, Search, document, run


def build(tools: list[Definition]) -> Search:
    stemmer = Stemmer.Stemmer("english")
    retriever = bm25s.BM25()
    corpus = bm25s.tokenize(
        [document(it) for it in tools], stopwords="en", stemmer=stemmer, show_progress=False
    )
    retriever.index(corpus, show_progress=False)
    depth = min(DEPTH, len(tools))

    def search(text: str) -> list[int]:
        asked = bm25s.tokenize(
            text, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False
        )
        if not asked[0]:
            return []
        found, scores = retriever.retrieve(asked, k=depth, show_progress=False)
        return [int(it) for it, score in zip(found[0], scores[0], strict=True) if score > 0]

    return search


run({"bm25s": build})
