"""Words that commands say."""

__all__ = ["counted", "sentence"]


def sentence(words: str) -> str:
    """Return words as a sentence; capital letters in them stay."""
    return f"{words[:1].upper()}{words[1:]}."


def counted(number: int, noun: str) -> str:
    """Return ``1 tool`` or ``2 tools``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
