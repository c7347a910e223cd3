"""Distil the teachers: rows for words, whose sums say what the teachers say about texts."""

import logging

import numpy as np
from scipy.sparse import csr_array

from training.lessons import Lessons
from training.vectors import Adam, lengths, through_unit
from training.vocabulary import Vocabulary

_EPOCHS = 6
_RATE = 4e-3
_AT_ONCE = 4_096
_FORGOTTEN = 0.1
_MOST_OFTEN = 2
# How rare a word must be to count half.
_RARE = 1e-3
# Rows of words that no text has stay where the teachers put them. There are few Chinese texts, so
# that Chinese words are held more strongly.
_BACK_TO_START = 3e-5
_BACK_TO_START_CHINESE = 1e-4

_log = logging.getLogger(__name__)


def distil(lessons: Lessons, bags: csr_array, vocabulary: Vocabulary) -> np.ndarray:
    """Return a row for each word; the length of a row says how much the word counts.

    Args:
        lessons: what the teachers say.
        bags: the texts of the lessons as bags of words.
        vocabulary: the words.
    """
    learnt = np.flatnonzero(np.diff(bags.indptr) > 0)
    bags, targets, weights = bags[learnt], lessons.targets[learnt], lessons.weights[learnt]
    bags.data = np.minimum(bags.data, _MOST_OFTEN)
    start = (lessons.words * _weights_by_rarity(bags, vocabulary)[:, None]).astype(np.float32)
    pull = np.full((len(start), 1), _BACK_TO_START_CHINESE, np.float32)
    pull[: len(vocabulary.english)] = _BACK_TO_START
    adam = Adam(start.copy(), _RATE)
    chance = np.random.default_rng(0)
    for epoch in range(_EPOCHS):
        order = chance.permutation(len(learnt))
        loss = 0.0
        for first in range(0, len(order), _AT_ONCE):
            some = order[first : first + _AT_ONCE]
            part = bags[some]
            part.data *= chance.random(len(part.data)) > _FORGOTTEN
            sums = part @ adam.values
            length = lengths(sums)
            units = sums / length
            loss += float((1 - (units * targets[some]).sum(1)).sum())
            wanted = -targets[some] * (weights[some] / len(some))[:, None]
            gradient = part.T @ through_unit(wanted, units, length)
            gradient += pull * (adam.values - start)
            adam.step(gradient, 1 - epoch / _EPOCHS)
        _log.info("distilling, epoch %s of %s: loss %.4f", epoch + 1, _EPOCHS, loss / len(order))
    return adam.values


def _weights_by_rarity(bags: csr_array, vocabulary: Vocabulary) -> np.ndarray:
    english = len(vocabulary.english)
    texts = np.bincount(bags.indices, minlength=bags.shape[1])[:english]
    chinese = np.array(vocabulary.chinese_counts)
    share = np.concatenate([(texts + 1) / texts.sum(), chinese / chinese.sum()])
    return _RARE / (_RARE + share)
