"""Hybrid: the default search method, which combines BM25 and semantic search."""

import math
from collections.abc import Sequence

import numpy as np

from pegboard.search.index.snapshot import Candidates, Snapshot
from pegboard.search.methods.embedding import Embedding
from pegboard.search.methods.index_searcher import (
    BY_BOTH,
    SENSE,
    Confidence,
    PreparedQuery,
    plain_weights,
    unknown_share,
)
from pegboard.search.searcher import Query
from pegboard.search.text.postings import Floats
from pegboard.search.text.words import STOP_WORDS, query_words, term_of
from pegboard.search.vectors.meaning import QueryWord, WordMeaning
from pegboard.search.word_table import WordTable

__all__ = ["Hybrid"]

_WORDS = np.float32(1 / 75)
"""What a point of the words is worth, where the meaning gives one point at most."""
_NEAR = 0.3
"""Words that are no nearer than this do not stand for each other."""
_STAND_IN = 1.5
"""How much a word counts that stands for one which no tool has."""


class Hybrid(Embedding):
    """Adds up the score of the words and the score of the meaning.

    A word that no tool has is also searched for as the nearest English word. So a Chinese query
    finds English tools by their words, too.
    """

    confidence: Confidence = BY_BOTH
    sense: Confidence | None = SENSE

    def prepare(self, query: Query, snapshot: Snapshot) -> PreparedQuery:
        """Return the words and the meaning of the query."""
        words = query_words(query.text)
        weights = plain_weights(words)
        meaning = self.index.meaning
        if meaning is None:
            return PreparedQuery(query, words, weights, None)
        meant = meaning.of_query(query.text)
        if isinstance(meaning, WordMeaning):
            # Stop-words say nothing, and neither would others in their place.
            telling = [it for it in meant.words if not weights.keys().isdisjoint(it.terms)]
            _add_stand_ins(weights, telling, meaning.table, snapshot)
        return PreparedQuery(query, words, weights, meant, unknown_share(words, meant))

    def parts(self, candidates: Candidates) -> dict[str, Floats]:
        """Return how near the meaning is, and how well the words fit."""
        return {"meaning": candidates.dense, "words": candidates.lexical * _WORDS}


def _add_stand_ins(
    weights: dict[str, float], words: Sequence[QueryWord], table: WordTable, snapshot: Snapshot
) -> None:
    terms = snapshot.terms
    for word in words:
        if terms.has_any(word.terms):
            continue
        for near, nearness in table.near(word.row):
            if nearness <= _NEAR:
                break
            if near in STOP_WORDS:
                continue
            term = term_of(near)
            if terms.find(term) is not None:
                share = word.weight * math.sqrt(word.times) * (nearness - _NEAR) / (1 - _NEAR)
                weights[term] = weights.get(term, 0.0) + _STAND_IN * share
                break
