"""Limits on JSON of clients: the number of values, their nesting, and numbers slow to read."""

from typing import Any

import msgspec

__all__ = [
    "LONGEST_NUMBER",
    "MOST_LEVELS",
    "MOST_VALUES",
    "JsonTexts",
    "has_more_values",
    "has_slow_numbers",
    "is_shallow",
    "slow_numbers_in",
]

MOST_LEVELS = 200
"""The deepest nesting that a message of a client may have."""
MOST_VALUES = 100_000
"""The most values that a message of a client may have; empty lists and objects count twice.

Each value costs much more memory and time than its bytes.
"""

MOST_DIGITS = 200
"""Digits in a row that a number may have: longer numbers take quadratic time."""
MOST_EXPONENTS = 1_000
"""Numbers with an exponent of three digits, such as ``1e300``: most of them take about 25 µs."""

LONGEST_NUMBER = 2 * MOST_DIGITS
"""Bytes at the end of a piece of JSON that the next piece is looked at with."""
NEVER_SLOW = 6 * MOST_EXPONENTS
"""Bytes of a text that has no more numbers than that."""
_SLICE = 512 * 1024
_SIGNS = b"+-"
_SHAPES = bytes(
    ord("0") if chr(it).isdigit() else ord("e") if it in b"eE" else it for it in range(128)
) + bytes(range(128, 256))
_LONG = b"0" * (MOST_DIGITS + 1)


def has_more_values(text: bytes, most: int) -> bool:
    """Tell whether JSON has more values than ``most``; empty lists and objects count twice."""
    return _marks_in(text) > most and _has_more_outside_strings(text, most)


def has_slow_numbers(text: bytes) -> bool:
    """Tell whether JSON has numbers that take far more time to decode than their bytes suggest.

    Ask only for texts longer than `NEVER_SLOW`.
    """
    # Some strings look so, too: hexadecimal numbers and base64.
    return _looks_slow(text) and _looks_slow(b" ".join(_without_escapes(text).split(b'"')[::2]))


def is_shallow(value: object, most: int = MOST_LEVELS) -> bool:
    """Tell whether a decoded value has at most so many levels of lists and objects."""
    level: list[Any] = [value]
    for _ in range(most):
        level = [
            child
            for it in level
            if isinstance(it, dict | list)
            for child in (it.values() if isinstance(it, dict) else it)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            if isinstance(child, dict | list)
        ]
        if not level:
            return True
    return False


class JsonTexts:
    """Decodes the JSON in several texts of one message, together within the limits of a message."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def decode(self, text: str) -> Any:
        """Return the value of a text.

        Raises:
            ValueError: when it is not JSON, or exceeds a limit.
        """
        encoded = text.encode()
        marks = 1 + _marks_in(encoded)
        if marks > self._left:
            raise ValueError("The texts have too many values.")
        if len(encoded) > NEVER_SLOW and has_slow_numbers(encoded):
            raise ValueError("The text has numbers that are too long.")
        self._left -= marks
        try:
            value = msgspec.json.decode(encoded)
        except RecursionError:
            raise ValueError("The text is nested too deeply.") from None
        if encoded.count(b"{") + encoded.count(b"[") > MOST_LEVELS and not is_shallow(value):
            raise ValueError("The text is nested too deeply.")
        return value


def slow_numbers_in(text: bytes) -> int:
    """Count the numbers with an exponent of three digits; one that is too long is too many."""
    shapes = text.translate(_SHAPES, _SIGNS)
    return MOST_EXPONENTS + 1 if _LONG in shapes else shapes.count(b"e000")


def _looks_slow(text: bytes) -> bool:
    found = 0
    for start in range(0, len(text), _SLICE):
        # In slices, because other threads have to wait for each; a number may be cut in two.
        found += slow_numbers_in(text[max(0, start - LONGEST_NUMBER) : start + _SLICE])
        if found > MOST_EXPONENTS:
            return True
    return False


def _marks_in(text: bytes) -> int:
    """Count what stands before every value but the first; in a string, it may mean nothing."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _has_more_outside_strings(text: bytes, most: int) -> bool:
    unescaped = _without_escapes(text)
    # A value has two strings at most, its key and itself, and a string two quotes.
    if unescaped.count(b'"') > 4 * most:
        return True
    return _marks_in(b"".join(unescaped.split(b'"')[::2])) > most


def _without_escapes(text: bytes) -> bytes:
    """Return JSON in which every quote begins or ends a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")
