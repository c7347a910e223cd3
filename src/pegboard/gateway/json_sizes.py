"""How many values JSON has, counted without reading it: each costs much more than its bytes."""

__all__ = ["has_more_values"]


def has_more_values(text: bytes, most: int) -> bool:
    """Tell whether JSON has more values than so many, empty lists and objects counted twice."""
    return _marks_in(text) > most and _has_more_outside_strings(text, most)


def _marks_in(text: bytes) -> int:
    """Count what stands before every value but the first; in a string, it may mean nothing."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _has_more_outside_strings(text: bytes, most: int) -> bool:
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A value has two strings at most, its key and itself, and a string two quotes.
    if unescaped.count(b'"') > 4 * most:
        return True
    return _marks_in(b"".join(unescaped.split(b'"')[::2])) > most
