"""The texts that the table is learned from."""

import re
from typing import NamedTuple

from pegboard.search.text.words import HAN
from training.debian import DebianTexts, read_debian
from training.tool_sets import (
    WITH_QUERIES,
    WITHOUT_QUERIES,
    ToolSet,
    read_catalogs,
    read_tool_set,
    texts_of,
)
from training.wordnet import WordNet, read_wordnet

_HAN = re.compile(f"[{HAN}]")


class Corpus(NamedTuple):
    """Everything that there is to read."""

    sets: list[ToolSet]
    debian: DebianTexts
    wordnet: WordNet
    tools: list[str]
    """English texts about tools."""
    chinese_tools: list[str]

    @property
    def english(self) -> list[str]:
        """All English texts but the translations of Chinese ones."""
        return self.tools + self.debian.english + self.wordnet.glosses

    @property
    def chinese(self) -> list[str]:
        """All Chinese texts but those that are translated."""
        return self.chinese_tools + self.debian.chinese

    @property
    def dictionary(self) -> frozenset[str]:
        """The words of a dictionary."""
        return self.wordnet.words


def read_corpus() -> Corpus:
    """Return what the package registries and the folder of tool sets hold."""
    sets = [read_tool_set(name) for name in (*WITH_QUERIES, *WITHOUT_QUERIES)]
    tools = [tool for it in sets for tool in it.tools] + read_catalogs()
    texts = texts_of(tools)
    return Corpus(
        sets,
        read_debian(),
        read_wordnet(),
        [text for text in texts if not _HAN.search(text)],
        [text for text in texts if _HAN.search(text)],
    )
