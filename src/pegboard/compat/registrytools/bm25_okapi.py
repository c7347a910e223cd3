"""BM25 Okapi over tokens as RegistryTools counts them, so that its order of results stays."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

__all__ = ["Okapi", "tokens_of"]

# Chinese; names with signs; a word or a number; signs inside a name; any other character alone.
_TOKEN = re.compile(
    r"([\u4e00-\u9fd5]+)|AT&T|[cC](?:#|\+\+)|[a-zA-Z0-9]+(?:\.\d+)?%?|[+#&._%\-]+|\r\n|.",
    re.DOTALL | re.ASCII,
)


def tokens_of(text: str) -> Iterator[str]:
    """Yield words, numbers, signs and blanks as they are written; Chinese is cut into words."""
    # Imported only here: the tokenizer brings NumPy, which the metadata of tools do not need.
    from pegboard.search.text.words import han_words  # noqa: PLC0415

    for found in _TOKEN.finditer(text):
        if found[1]:
            yield from han_words(found[1])
        else:
            yield found[0]


class Okapi:
    """An index of texts.

    Args:
        texts: at least one, and none of them empty.
        k1: how much a word counts that occurs again in the same text.
        b: how much less a word counts in a long text, 0 to 1.
        epsilon: which part of the average weight a word gets that most of the texts have.
    """

    def __init__(self, texts: Sequence[str], *, k1: float, b: float, epsilon: float) -> None:
        counts = [Counter(tokens_of(text)) for text in texts]
        lengths = [it.total() for it in counts]
        average = sum(lengths) / len(lengths)
        self._size = len(counts)
        self._weights = _weights(counts, epsilon)
        self._occurrences: dict[str, list[tuple[int, float]]] = {}
        for place, (words, length) in enumerate(zip(counts, lengths, strict=True)):
            damping = k1 * (1 - b + b * length / average)
            for word, times in words.items():
                part = times * (k1 + 1) / (times + damping)
                self._occurrences.setdefault(word, []).append((place, part))

    def scores(self, query: str) -> list[float]:
        """Return how well each text fits the query, in the order of the texts."""
        scores = [0.0] * self._size
        for word in tokens_of(query):
            weight = self._weights.get(word, 0.0)
            for place, part in self._occurrences.get(word, ()):
                scores[place] += weight * part
        return scores


def _weights(counts: Sequence[Counter[str]], epsilon: float) -> dict[str, float]:
    """Return how much each word says: a rare one more, and one of most texts very little."""
    having = Counter(word for words in counts for word in words)
    weights = {
        word: math.log(len(counts) - texts + 0.5) - math.log(texts + 0.5)
        for word, texts in having.items()
    }
    least = epsilon * (sum(weights.values()) / len(weights))
    return {word: least if weight < 0 else weight for word, weight in weights.items()}
