"""Hidden characters: show invisible and bidirectional control characters of a text as escapes.

A definition, a question or an error message of a server is read by models and by people. Characters
that only one of them sees can carry orders to the model. They are shown as escapes, as JSON and
Python write them. What scripts and emoji need stays: joiners in Persian or Hindi, flags, families.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, cast

import msgspec

__all__ = [
    "LONGEST",
    "MOST_SHOWN",
    "all_visible",
    "hidden_kinds",
    "is_plain_json",
    "visible",
    "visible_definition",
    "visible_json",
    "without_hidden",
]

_KINDS: Final[Mapping[str, str]] = {
    "tag characters, which spell out invisible text": r"\U000e0000-\U000e00ff",
    "characters that change the text direction": r"\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c",
    "zero-width characters": (
        r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2028\u2029\u2060-\u2065"
        r"\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    ),
    "variation selectors, which can carry hidden data": (
        r"\ufe00-\ufe0f\u180b-\u180d\u180f\U000e0100-\U000e0fff"
    ),
    "control characters": r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f",
    "private-use characters, which have no meaning of their own": (
        r"\ue000-\uf8ff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"
    ),
}
"""What hides, by kind; the order is that of the doctor's findings."""
_HIDING = "".join(_KINDS.values())

# Scripts whose letters are shaped by joiners, from Hebrew to Myanmar, and the like.
_SHAPED = (
    r"\u0590-\u061b\u061d-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\u1900-\u1cff\ua800-\uabff"
    r"\ufb1d-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc\U00010800-\U00011fff\U0001e800-\U0001efff"
)
_RIGHT_TO_LEFT = (
    r"\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
    r"\U00010800-\U00010fff\U0001e800-\U0001efff"
)
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff"
_PICTURE = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_TONE = r"[\U0001f3fb-\U0001f3ff]?[\ufe0e\ufe0f]?"
_NEEDED = (
    # The flags of regions: a black flag and the letters of the region.
    r"\U0001f3f4[\U000e0061-\U000e007a]{2}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,4}"
    r"\U000e007f",
    # Emoji, joined or not; keycaps.
    rf"[{_PICTURE}]{_TONE}(?:\u200d[{_PICTURE}]{_TONE})*",
    r"[0-9#*]\ufe0f\u20e3",
    # One joiner or selector after a letter that it shapes.
    rf"[{_SHAPED}][\u200c\u200d]",
    rf"[{_UNSPACED}]\u200b(?=[{_UNSPACED}])",
    r"[\u0300-\u034e\u0350-\u036f\u0591-\u05c7]\u034f",
    r"[\u1820-\u18aa][\u180b-\u180d\u180f]",
    r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003fffd][\ufe00-\ufe02\U000e0100-\U000e01ef]",
    r"[\u2010-\u2027\u2030-\u205e\u2200-\u22ff\u3001-\u303f\uff01-\uff60][\ufe00-\ufe0f]",
)
_MARK = r"(?<![\u200e\u200f\u061c])[\u200e\u200f\u061c](?![\u200e\u200f\u061c])"
"""One mark of direction, which texts need that mix two directions."""

LONGEST, MOST_SHOWN = 65_536, 1_000
"""Characters of a text that hides something, and the escapes that are shown of it."""

_escaped_control = re.compile(rb"\\[ubf]")
"""How JSON writes control characters; only ``DEL`` it writes as it is."""
_any_hiding = re.compile(f"[{_HIDING}]")
_by_kind = {kind: re.compile(f"[{span}]") for kind, span in _KINDS.items()}
_has_right_to_left = re.compile(f"[{_RIGHT_TO_LEFT}]")
_parts = re.compile(f"({'|'.join(_NEEDED)})|[{_HIDING}]")
_parts_of_both = re.compile(f"({'|'.join((*_NEEDED, _MARK))})|[{_HIDING}]")


def visible(text: str) -> str:
    """Return a text in which hidden characters are shown as escapes; most texts have none.

    Tab, line feed and carriage return stay, and so do characters that scripts and emoji need. A
    text that hides something ends after `LONGEST` characters, or after `MOST_SHOWN` escapes: each
    takes a microsecond, and no text that is meant to be read has as many.
    """
    if _any_hiding.search(text) is None:
        return text
    read = text[:LONGEST]
    shown: list[str] = []
    done = 0
    hidden = (it for it in _parts_of(read).finditer(read) if it[1] is None)
    for part in islice(hidden, MOST_SHOWN):
        shown += read[done : part.start()], _escape(part[0])
        done = part.end()
    next_hidden = next(hidden, None)
    end = len(read) if next_hidden is None else next_hidden.start()
    shown.append(read[done:end])
    if end < len(text):
        words = f"… ({len(text) - end} more characters are left out, because of hidden ones)"
        shown.append(words)
    return "".join(shown)


def all_visible(text: str) -> str:
    """Do what `visible` does, with a text of any length: for what a person has asked for."""
    if _any_hiding.search(text) is None:
        return text
    return _parts_of(text).sub(lambda it: it[1] or _escape(it[0]), text)


def visible_json(value: Any) -> Any:
    """Return JSON in which hidden characters of all texts and keys are shown as escapes.

    It is the same object if there are none.
    """
    if isinstance(value, str):
        return visible(value)
    # A quick look at the whole first: walking through it takes twenty times as long.
    with suppress(TypeError, ValueError, RecursionError):
        if is_plain_json(msgspec.json.encode(value)):
            return value
    return _walked(value)


def visible_definition(raw: Any) -> Any:
    """Return a definition whose hidden characters are shown as escapes; calls need its name."""
    shown = visible_json(raw)
    if shown is raw or not isinstance(raw, Mapping) or "name" not in raw:
        return shown
    return {**shown, "name": cast("Any", raw["name"])}


def is_plain_json(text: bytes) -> bool:
    """Tell whether JSON certainly hides nothing; a quick look at all of it."""
    if b"\x7f" in text or _escaped_control.search(text) is not None:
        return False
    return text.isascii() or _any_hiding.search(text.decode("utf-8", "replace")) is None


def hidden_kinds(text: str) -> dict[str, str]:
    """Return the kinds of hidden characters in a text, each with the code point of the first."""
    if _any_hiding.search(text) is None:
        return {}
    hidden = "".join(dict.fromkeys(it[0] for it in _parts_of(text).finditer(text) if it[1] is None))
    found = {kind: pattern.search(hidden) for kind, pattern in _by_kind.items()}
    return {kind: f"U+{ord(first[0]):04X}" for kind, first in found.items() if first is not None}


def without_hidden(text: str) -> str:
    """Return a text without its hidden characters."""
    if _any_hiding.search(text) is None:
        return text
    return _parts_of(text).sub(lambda it: it[1] or "", text)


def _walked(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        shown = {visible(key): _walked(item) for key, item in given.items()}
        is_same = all(key in given and given[key] is item for key, item in shown.items())
        return given if is_same else shown
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        parts = [_walked(item) for item in items]
        return items if all(a is b for a, b in zip(items, parts, strict=True)) else parts
    return value


def _parts_of(text: str) -> re.Pattern[str]:
    """Return what finds the hidden characters of a text, and those that its scripts need."""
    return _parts_of_both if _has_right_to_left.search(text) else _parts


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
