"""Tokenizer: splits text into words, also Chinese, folds case, stems, and drops stop words."""

import re
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache

import msgspec
import Stemmer

from pegboard.search.word_table import open_table

__all__ = [
    "HAN",
    "HAN_STOP_WORDS",
    "SEPARATOR",
    "QueryWords",
    "Word",
    "clauses_of",
    "han_words",
    "query_words",
    "runs_of",
    "split_runs",
    "term_of",
    "words_of",
]

HAN = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""The characters, as a regular expression has them between brackets."""

_IDLE = (
    "我 的 了 是 请 帮 想 要 你 能 在 和 将 把 我想 帮我 请帮 一下 可以 需要 希望 我要 给我 我的 "
    "一个 这个 想要 请问 能否 是否 如何 什么 怎么 现在 并 从 到 为 对 用于 进行 以及 或 有 个 吗 "
    "呢 它 这 那 与 及 被 于 您 他 她 们 我们 你们 让 来 去 就 都 也 还 很 该 此"
)
HAN_STOP_WORDS = frozenset(_IDLE.split())

_LONGEST = 6


def han_words(run: str) -> Iterator[str]:
    """Yield the words of a run of Chinese characters."""
    known = open_table().rows
    place = 0
    while place < len(run):
        for length in range(min(_LONGEST, len(run) - place), 1, -1):
            if run[place : place + length] in known:
                break
        else:
            length = 1
        yield run[place : place + length]
        place += length


VERSION = 3
"""Grows when the same text gives other words; indexes that were saved before are built anew."""

SEPARATOR = "\x01"
"""Stands between the texts of `runs_of`."""

STOP_WORDS = frozenset(
    (  # noqa: SIM905 - as a list it would fill a page
        "a about again all also am an and any are as at be been but by can could did do does don "
        "down find for from get give had has have he help her here his how i id if in into is it "
        "its just know let like list make may me might more most must my need no not now of off on "
        "only or other our out over own please same shall she should show so some such tell than "
        "that the their them then there these they this those to too under up us use used using "
        "very via want was we were what when where which who whom whose why will with would you "
        "your"
    ).split(" ")
)

_MAX_QUERY_CHARACTERS = 8_192
_MAX_QUERY_WORDS = 512
_MAX_WORD = 40
_MAX_OTHER = 20
# Longer runs are sentences of a script without spaces; they do not come twice.
_MAX_RECALLED = 64
# So many different ones are those of a whole catalogue, which comes once.
_MANY_RUNS = 4_096
# `GitHub` is also looked for as `github`, and `mp3` is more than `mp` and `3`; `getUserAddress` is
# not a word.
_MAX_COMPOUND = 12

# Scripts that are written without spaces, or whose words change at their ends: Thai, Lao, Burmese,
# Khmer, kana, Hangul. Their words are pairs of neighbouring characters.
_PAIRED = (
    r"\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3\u3005\u3041-\u30ff\u31f0-\u31ff"
    r"\uac00-\ud7a3"
)
# Accents and vowel signs: `\w` leaves them out, but they belong to the letter before.
_MARKS = (
    r"\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0971-\u0dff\u0f71-\u0fbc"
)
# More marks than any letter has; to put them in order takes time that grows with their square.
_FLOOD = re.compile(rf"([{_MARKS}\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{{32}})\W+")
# Single characters stand for whole sentences (U+FDFA), but not in a row.
_MOST_UNFOLDED = 3
_LEAST_UNFOLDED = 1_024
_PART = re.compile(
    # The plural of an acronym (`PDFs`), an acronym, a word, a number.
    r"[A-Z]{2,}(?=s(?![a-z]))|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
    rf"|[{_PAIRED}]+|[{HAN}]+|(?:[^\W_A-Za-z0-9{_PAIRED}{HAN}][{_MARKS}]*)+"
)
_STARTS_HAN = re.compile(f"[{HAN}]")
_INNER = re.compile(rf"(?<=[{_PAIRED}])([{_PAIRED}])(?=[{_PAIRED}])")
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_UNACCENTED = {
    "ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l",
    "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "TH", "\u0131": "i",
}  # fmt: skip
# Blanks for everything of ASCII that is no letter or digit: as bytes this is done in no time.
_BLANKED = bytes(
    code if code > 127 or chr(code).isalnum() or chr(code) == SEPARATOR else 32
    for code in range(256)
)
_thread = threading.local()


class Word(msgspec.Struct, frozen=True, gc=False):
    """A word of a text."""

    term: str
    """As the index knows it."""
    plain: str
    """As it was written, in small letters; empty for a character of the word before."""
    idle: bool
    """True for a stop-word."""


class QueryWords(msgspec.Struct, frozen=True):
    """The words of a query."""

    counts: dict[str, int]
    """How often each term occurs, in their order."""
    spelled: dict[str, str]
    """Each term as it was first written, in small letters."""


def query_words(text: str) -> QueryWords:
    """Return the words of a query, without stop-words unless it has no others."""
    found: list[Word] = []
    for run in runs_of([text[:_MAX_QUERY_CHARACTERS]]):
        found += _recalled(run) if len(run) <= _MAX_RECALLED else _split(run)
    counts: dict[str, int] = {}
    spelled: dict[str, str] = {}
    for word in [it for it in found if not it.idle] or found:
        term = word.term
        if term in counts:
            counts[term] += 1
        elif len(counts) < _MAX_QUERY_WORDS:
            counts[term] = 1
            spelled[term] = word.plain
    return QueryWords(counts, spelled)


def words_of(text: str, *, prose: bool) -> Iterator[str]:
    """Yield the terms of a text in their order; those of prose without stop-words."""
    for run in runs_of([text]):
        yield from (word.term for word in _split_or_recall(run) if not (prose and word.idle))


@lru_cache(65_536)
def term_of(word: str) -> str:
    """Return a single word in small letters as the index knows it."""
    return _word(word).term


def runs_of(texts: Iterable[str]) -> list[str]:
    """Cut texts into runs of letters and digits, with a separator between two texts."""
    texts = list(texts)
    between = f" {SEPARATOR} "
    joined = between.join(texts)
    if joined.count(SEPARATOR) >= max(1, len(texts)):
        joined = between.join(text.replace(SEPARATOR, " ") for text in texts)
    blanked = joined.encode("utf-8", "surrogatepass").translate(_BLANKED)
    return blanked.decode("utf-8", "surrogatepass").split()


def split_runs(runs: Collection[str]) -> Iterable[tuple[Word, ...]]:
    """Return the words of each run; beyond ASCII a run may still hold whole sentences."""
    return map(_split if len(runs) > _MANY_RUNS else _split_or_recall, runs)


def _split_or_recall(run: str) -> tuple[Word, ...]:
    return _recalled(run) if len(run) <= _MAX_RECALLED else _split(run)


def _split(run: str) -> tuple[Word, ...]:
    plain = run.lower()
    if run.isascii():
        # What most runs are, without looking for parts.
        if run.isalpha() and run[1:] == plain[1:]:
            return (_word(plain),) if len(run) > 1 else ()
    else:
        run = _ACCENTED.sub(_without_accent, _unfolded(run))
        run = _INNER.sub(r"\1 \1", run)
    parts = _PART.findall(run)
    words: list[Word] = []
    for part in map(str.lower, parts):
        if not part.isascii() and _STARTS_HAN.match(part):
            words.extend(_han(part))
        elif len(part) > 1 or not "a" <= part <= "z":
            words.append(_word(part))
    if len(parts) > 1 and len(run) <= _MAX_COMPOUND and run.isascii() and parts[-1] != "s":
        words.append(_word(plain))
    return tuple(words)


_recalled = lru_cache(8_192)(_split)


def _word(plain: str) -> Word:
    if not (plain.isascii() and plain.isalpha()):
        return Word(plain[:_MAX_OTHER], plain, idle=False)
    try:
        stem: Callable[[str], str] = _thread.stem
    except AttributeError:
        # One for each thread, because it keeps its state while it works.
        stem = _thread.stem = _new_stemmer()
    return Word(stem(plain[:_MAX_WORD]), plain, plain in STOP_WORDS)


def _new_stemmer() -> Callable[[str], str]:
    return Stemmer.Stemmer("english", 0).stemWord  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _han(run: str) -> Iterator[Word]:
    """Yield the words of Chinese text, each followed by its characters."""
    for word in han_words(run):
        yield Word(word, word, word in HAN_STOP_WORDS)
        if len(word) > 1:
            yield from (Word(letter, "", letter in HAN_STOP_WORDS) for letter in word)


def _unfolded(run: str) -> str:
    """Return a run in which each character is written in one way."""
    if len(run) > _MAX_RECALLED:
        run = _FLOOD.sub(r"\1", run)
    return unicodedata.normalize("NFKC", run)[: max(_LEAST_UNFOLDED, _MOST_UNFOLDED * len(run))]


def _without_accent(found: re.Match[str]) -> str:
    letter = found[0]
    plain = _UNACCENTED.get(letter) or unicodedata.normalize("NFD", letter)[0]
    return plain if plain.isascii() else letter


_MOST = 12
_SHORTEST = 8
_SHORTEST_HAN = 4
_HAN = re.compile("[\u3400-\u9fff]")
_BORDERS = re.compile(
    r"(?<=[.!?;])\s+|[。！？；，]"  # noqa: RUF001 - Chinese has its own
    r"|\b(?:and then|and also|then|also|after that|afterwards|finally|next|as well as"
    r"|additionally|furthermore)\b|,\s+and\s+"
    "|然后|并且|同时|接着|之后|最后|以及|另外|还有",
    re.IGNORECASE,
)


def clauses_of(text: str) -> list[str]:
    """Return the clauses of a text that has more than one, else nothing."""
    parts = (part.strip(" ,，") for part in _BORDERS.split(text))  # noqa: RUF001 - as above
    found = [part for part in parts if len(part) >= _shortest(part)]
    return found[:_MOST] if len(found) > 1 else []


def _shortest(part: str) -> int:
    return _SHORTEST_HAN if _HAN.search(part) else _SHORTEST
