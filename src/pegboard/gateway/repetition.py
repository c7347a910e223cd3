"""Repetition: structured content that only says again what the texts of its result say."""

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

import msgspec

from pegboard.gateway.objects import object_in

__all__ = ["Repetition", "json_of", "repetition_in"]

_KEY = "result"
"""Under which the SDKs wrap what is no object."""


class Repetition(Enum):
    """How structured content repeats the texts."""

    JSON = "the text is its JSON"
    WRAPPED_JSON = "the text is the JSON of what it wraps"
    WRAPPED_TEXT = "it wraps the text"
    WRAPPED_LIST = "it wraps a list, and each item is a text"

    def restored(self, text: bytes) -> bytes:
        """Return the JSON that structured content says, out of the single text that it repeats."""
        # A text that is wrapped stays one: it may be JSON itself, and nobody means the wrapping.
        return b'{"%s":%s}' % (_KEY.encode(), text) if self is Repetition.WRAPPED_JSON else text


def repetition_in(texts: Sequence[str], structured: object) -> Repetition | None:
    """Return how structured content repeats the texts of its result; ``None`` if it says more."""
    text = "\n".join(texts)
    if _is_json_of(text, structured):
        return Repetition.JSON
    members = object_in(structured)
    if list(members) != [_KEY]:
        return None
    wrapped: object = members[_KEY]
    if wrapped == text:
        return Repetition.WRAPPED_TEXT
    if _is_json_of(text, wrapped):
        return Repetition.WRAPPED_JSON
    if not isinstance(wrapped, list):
        return None
    items = cast("list[object]", wrapped)
    is_each_said = len(items) == len(texts) and all(
        item == it or _is_json_of(it, item) for item, it in zip(items, texts, strict=True)
    )
    return Repetition.WRAPPED_LIST if is_each_said else None


def json_of(structured: Any) -> str:
    """Return structured content as JSON."""
    try:
        return msgspec.json.encode(structured).decode()
    except (TypeError, ValueError):
        # Halves of characters, from a tool of this process.
        return json.dumps(structured, default=str)


def _is_json_of(text: str, value: object) -> bool:
    try:
        return bool(msgspec.json.decode(text) == value)
    except (ValueError, RecursionError):
        return False
