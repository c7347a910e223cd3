"""Cutting long text, in a way that a reader notices."""

__all__ = ["truncate_text"]


def truncate_text(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of the text, then a mark that says how much is shown.

    A text that fits comes back as it is, without a mark.
    """
    if limit < 0:
        raise ValueError(f"A limit counts characters, so it is not negative: {limit}.")
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… [truncated: {limit} of {len(text)} characters shown]"
