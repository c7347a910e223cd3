"""Chinese text as words: the longest ones that the table of words knows."""

from collections.abc import Iterator

from pegboard.search.word_table import open_table

__all__ = ["HAN", "HAN_STOP_WORDS", "han_words"]

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
