"""Lessons: texts, what the teachers say about them, and what they say about single words."""

from typing import NamedTuple

import numpy as np

from training.corpus import Corpus
from training.space import MeaningSpace
from training.teachers import MiniLM, MultilingualUSE
from training.vectors import unit
from training.vocabulary import Vocabulary

_WEIGHT_OF_TOOLS = 1.5
_WEIGHT_OF_CHINESE = 3.0
# A translation is told what its own words mean, and twice as loudly what the original means.
_OWN_SHARE = 0.5


class Lessons(NamedTuple):
    """What there is to learn."""

    texts: list[str]
    targets: np.ndarray
    """A unit row for each text."""
    weights: np.ndarray
    """How much each text counts."""
    words: np.ndarray
    """A unit row for each word of the vocabulary."""


def ask_teachers(corpus: Corpus, vocabulary: Vocabulary) -> Lessons:
    """Return the teachers' answers; hours when they are asked for the first time."""
    minilm, use = MiniLM(), MultilingualUSE()
    english = corpus.english
    minilm_says, use_says = minilm(english), use(english)
    # Glosses are all over the place; they come last, and do not shape the space.
    shaping = len(english) - len(corpus.wordnet.glosses)
    space = MeaningSpace(minilm_says[:shaping], use_says[:shaping])

    translations = [chinese for chinese, _ in corpus.debian.translated]
    originals = [original for _, original in corpus.debian.translated]
    meant = space.english(minilm(originals), use(originals))
    translated = unit(_OWN_SHARE * space.chinese(use(translations)) + meant)

    known = vocabulary.english
    weights = np.ones(len(english) + len(corpus.chinese) + len(translations), np.float32)
    weights[: len(corpus.tools)] = _WEIGHT_OF_TOOLS
    weights[len(english) :] = _WEIGHT_OF_CHINESE
    return Lessons(
        texts=[*english, *corpus.chinese, *translations],
        targets=np.concatenate(
            [space.english(minilm_says, use_says), space.chinese(use(corpus.chinese)), translated]
        ),
        weights=weights,
        words=np.concatenate(
            [space.english(minilm(known), use(known)), space.chinese(use(vocabulary.chinese))]
        ),
    )
