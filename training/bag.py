"""Texts as bags of words: for each text, how often it has the word of each row of the table."""

import os
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from scipy.sparse import csr_array

from pegboard.search.text.words import runs_of, split_runs
from pegboard.search.word_table import WordTable, open_table, write_table
from training.places import work_folder

_NO_PARTS = (
    "vectors", "weights", "query_weights", "importance", "turn", "centroids", "neighbours",
    "closeness",
)  # fmt: skip


class WordBags:
    """Counts words as the product does.

    Args:
        words: the word of each row.
    """

    def __init__(self, words: list[str]) -> None:
        name = blake2b("\n".join(words).encode(), digest_size=8).hexdigest()
        # A name of its own: the product reads a table once, and trusts that it stays the same.
        path = work_folder("vocabularies") / f"{name}.table"
        nothing = {name: np.zeros(0, np.float32) for name in _NO_PARTS}
        write_table(path, words, nothing, {"version": "vocabulary", "fields": {}})
        # Chinese text is cut into the words of the table that the product has open.
        os.environ["PEGBOARD_WORD_TABLE"] = str(path)
        self._table: WordTable = open_table()
        self._known: dict[str, list[int]] = {}

    def of(self, texts: Iterable[str]) -> csr_array:
        """Return a row of counts for each text."""
        rows: list[int] = []
        ends = [0]
        for text in texts:
            for run in runs_of([text]):
                rows.extend(self._rows(run))
            ends.append(len(rows))
        ones = np.ones(len(rows), np.float32)
        shape = (len(ends) - 1, len(self._table.words))
        bags = csr_array((ones, np.array(rows, np.int32), np.array(ends, np.int32)), shape=shape)
        bags.sum_duplicates()
        return bags

    def _rows(self, run: str) -> list[int]:
        known = self._known.get(run)
        if known is None:
            [words] = split_runs([run])
            known = [row for word in words for row in self._table.find(word.plain)]
            self._known[run] = known
        return known
