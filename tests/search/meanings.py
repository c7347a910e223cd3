"""What tools mean, for tests of the index: a vector for each word, made of its letters."""

import hashlib
from collections.abc import Sequence

import numpy as np

from pegboard.search.text.fields import ToolText
from pegboard.search.text.postings import Floats
from pegboard.search.text.words import words_of
from pegboard.search.vectors.meaning import QueryMeaning
from pegboard.search.vectors.space import Space
from pegboard.search.word_table import main_directions


class HashedMeaning:
    """Knows what any text means, and always says the same."""

    def __init__(self, *, width: int = 8, regions: int = 4, version: str = "1") -> None:
        self.version = version
        self.width = width
        centroids = np.array([self._word(f"region {it}") for it in range(regions)])
        self.space: Space = Space(centroids, main_directions(centroids))

    def of_tools(self, texts: Sequence[ToolText]) -> Floats:
        rows = [self.of_text(f"{text.name} {text.description}") for text in texts]
        return np.array(rows, np.float32).reshape(-1, self.width)

    def of_text(self, text: str) -> Floats:
        total = np.zeros(self.width, np.float32)
        for word in words_of(text, prose=True):
            total += self._word(word)
        length = np.sqrt((total * total).sum())
        return total / length if length else total

    def of_query(self, text: str) -> QueryMeaning:
        """Return the whole, then what is between semicolons."""
        clauses = text.split(";") if ";" in text else []
        rows = [self.of_text(it) for it in (text, *clauses)]
        return QueryMeaning(np.array(rows, np.float32), ())

    def _word(self, word: str) -> Floats:
        seed = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        found = np.random.default_rng(int.from_bytes(seed, "little")).standard_normal(self.width)
        # In some directions words differ more than in others, as those of languages do.
        found *= 0.95 ** np.arange(self.width)
        return (found / np.sqrt((found * found).sum())).astype(np.float32)
