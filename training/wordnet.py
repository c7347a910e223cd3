"""WordNet: English words, how common they are, and what they mean in a sentence."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from training.debian import unpack

_GLOSSES = 40_000
# Tools do things: verbs come a little before other words that are as common.
_LEAD_OF_VERBS = 3
_NOTICE = "  "
_REMARK = re.compile(r"^\([^)]*\)\s*")


class WordNet(NamedTuple):
    """What a dictionary says."""

    words: frozenset[str]
    """Those that occur in the texts that WordNet has counted."""
    glosses: list[str]
    """What the most common words mean."""
    notice: str
    """What has to be on all copies of what is made of it."""


class _Sense(NamedTuple):
    words: list[str]
    gloss: str
    verb: bool


def read_wordnet() -> WordNet:
    """Return WordNet 3.0 from Debian's package of it."""
    folder = unpack("wordnet-base") / "usr" / "share" / "wordnet"
    counts: Counter[str] = Counter()
    for line in (folder / "cntlist.rev").read_text("utf-8").splitlines():
        key, _, count = line.split()
        counts[key.split("%")[0]] += int(count)
    senses = [it for part in ("noun", "verb", "adj", "adv") for it in _senses(folder, part)]
    senses.sort(key=lambda it: -max(counts[word] for word in it.words) - it.verb * _LEAD_OF_VERBS)
    words = {word for sense in senses for word in sense.words if counts[word]}
    glosses = [it.gloss for it in senses if it.gloss][:_GLOSSES]
    return WordNet(frozenset(words), glosses, _notice(folder))


def _senses(folder: Path, part: str) -> Iterator[_Sense]:
    for line in (folder / f"data.{part}").read_text("utf-8").splitlines():
        if line.startswith(_NOTICE):
            continue
        data, text = line.split("|", 1)
        fields = data.split()
        # The number of words is hexadecimal; a number follows each.
        words = [fields[4 + 2 * at].split("(")[0].lower() for at in range(int(fields[3], 16))]
        gloss = _REMARK.sub("", text.strip().split('; "')[0].strip())
        yield _Sense(words, gloss, part == "verb")


def _notice(folder: Path) -> str:
    lines = (folder / "data.noun").read_text("utf-8").splitlines()
    numbered = [line.strip() for line in lines if line.startswith(_NOTICE)]
    return "\n".join(line.partition(" ")[2] for line in numbered)
