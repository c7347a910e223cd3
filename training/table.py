"""The table itself: rows in small numbers, and everything else that the product reads."""

import json
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np

from pegboard.search.word_table import main_directions, write_table
from training.neighbours import find_neighbours
from training.query_model import QueryModel
from training.regions import find_centroids
from training.vectors import unit
from training.vocabulary import Vocabulary

_LARGEST = 127
_SOURCES = (
    "all-MiniLM-L6-v2 (Apache-2.0), Universal Sentence Encoder multilingual v3 (Apache-2.0), "
    "package descriptions of Debian, WordNet 3.0 (Copyright 2006 by Princeton University), "
    "dictionary of jieba (MIT), ToolE (MIT), Seal-Tools (Apache-2.0), BFCL (Apache-2.0), "
    "Toucan (MIT), mcpproxy (MIT)"
)


class SmallRows:
    """Rows of words as whole numbers, each row with the size of its step.

    Args:
        vocabulary: the word of each row.
        rows: what they mean in texts.
        alone: what they mean by themselves. There 支付 is nearer to *pay* than where texts, which
            are in one language each, have moved both.
    """

    def __init__(self, vocabulary: Vocabulary, rows: np.ndarray, *, alone: np.ndarray) -> None:
        self.vocabulary = vocabulary
        self._alone = alone
        steps = np.maximum(np.abs(rows).max(1), np.finfo(np.float32).tiny) / _LARGEST
        self._steps = steps.astype(np.float32)
        self._numbers = np.round(rows / self._steps[:, None]).astype(np.int8)

    @cached_property
    def values(self) -> np.ndarray:
        """What the rows are worth: nearly what they were made of."""
        return self._numbers.astype(np.float32) * self._steps[:, None]

    @cached_property
    def _neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        return find_neighbours(self._alone, len(self.vocabulary.english))

    def write(self, path: Path, model: QueryModel, *, vectors: np.ndarray, notice: str) -> None:
        """Write the table.

        Args:
            path: where to.
            model: how queries are read.
            vectors: unit rows of texts as they will be searched, to find regions.
            notice: what has to be on all copies.
        """
        nearest, closeness = self._neighbours
        gain = model.gain.astype(np.float32)
        centroids = unit(find_centroids(vectors)).astype(np.float32)
        parts = {
            "vectors": self._numbers,
            "weights": self._steps,
            "query_weights": self._steps * gain,
            "importance": np.linalg.norm(self.values, axis=1).astype(np.float32) * gain,
            "turn": model.turn.astype(np.float32),
            "centroids": centroids,
            "directions": main_directions(centroids),
            "neighbours": nearest,
            "closeness": closeness,
        }
        words = self.vocabulary.words
        content = blake2b(json.dumps([words, model.fields]).encode(), digest_size=8)
        for part in parts.values():
            content.update(np.ascontiguousarray(part))
        about = {
            "version": content.hexdigest(),
            "fields": model.fields,
            "sources": _SOURCES,
            "notice": notice,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, words, parts, about)
