"""Which words the table knows: English ones first, then Chinese ones."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import jieba

from pegboard.search.text.words import HAN, runs_of, split_runs
from training.corpus import Corpus
from training.places import work_folder
from training.teachers import bert_words

_LONGEST_ENGLISH = 20
_LONGEST_CHINESE = 6
_COMMON_CHINESE = 40_000
_OFTEN = 4
_OFTEN_IN_TOOLS = 2
_ALL_HAN = re.compile(f"[{HAN}]+")


class Vocabulary(NamedTuple):
    """The words of the table, in the order of its rows."""

    english: list[str]
    chinese: list[str]
    chinese_counts: list[int]
    """How often each Chinese word occurs in the texts that jieba's dictionary was made of."""

    @property
    def words(self) -> list[str]:
        """All of them."""
        return self.english + self.chinese


def choose_words(corpus: Corpus) -> Vocabulary:
    """Return the words that are worth a row."""
    chinese, counts = _chinese(corpus)
    return Vocabulary(_english(corpus), chinese, counts)


def _english(corpus: Corpus) -> list[str]:
    everywhere = Counter(_english_words(corpus.english))
    in_tools = Counter(_english_words(corpus.tools))
    often = {
        word
        for word, count in everywhere.items()
        if count >= _OFTEN or in_tools[word] >= _OFTEN_IN_TOOLS
    }
    words = often | set(bert_words()) | {it for it in corpus.dictionary if it.isascii()}
    return sorted(it for it in words if _is_english(it))


def _english_words(texts: Iterable[str]) -> Iterator[str]:
    # Only ASCII: to split Chinese, a table would have to be there already.
    runs = [run for text in texts for run in runs_of([text]) if run.isascii()]
    return (word.plain for words in split_runs(runs) for word in words)


def _is_english(word: str) -> bool:
    return word.isalnum() and not word.isdigit() and 1 < len(word) <= _LONGEST_ENGLISH


def _chinese(corpus: Corpus) -> tuple[list[str], list[int]]:
    jieba.setLogLevel(logging.WARNING)
    jieba.dt.tmp_dir = str(work_folder("jieba"))
    counts: dict[str, int] = {}
    dictionary = Path(jieba.__file__).with_name("dict.txt").read_text("utf-8")
    for line in dictionary.splitlines():
        word, count = line.split()[:2]
        if _is_chinese(word):
            counts[word] = int(count)
    common = sorted(counts, key=lambda word: -counts[word])[:_COMMON_CHINESE]
    found = Counter(word for text in corpus.chinese for word in jieba.cut(text))
    often = (word for word, count in found.items() if count > 1 and _is_chinese(word))
    letters = {letter for text in corpus.chinese for letter in text if _is_chinese(letter)}
    words = sorted({*common, *often, *letters})
    return words, [max(1, counts.get(word, 1)) for word in words]


def _is_chinese(word: str) -> bool:
    return len(word) <= _LONGEST_CHINESE and _ALL_HAN.fullmatch(word) is not None
