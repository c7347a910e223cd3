"""Move plain-text secrets of an entry to the keyring or a private file, and refer to them."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from pegboard.config.problems import FieldPath, shown_path
from pegboard.config.secret_detection import is_secret, secrets_in
from pegboard.config.secrets.kept_secrets import LARGEST_SECRET, Keep, KeptSecret
from pegboard.config.secrets.plain_secrets import PlainSecret, plain_secrets, text_of

__all__ = ["Moved", "move_secrets"]

_LEADING_SCHEME = re.compile(r"\s*(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)
_SHORTEST_PART = 6


class Moved(NamedTuple):
    """An entry whose secrets were moved out of it."""

    entry: dict[str, Any]
    kept: dict[str, KeptSecret]
    """By the shown path of the field."""
    left: tuple[str, ...]
    """Fields that keep their secret, because it is next to a variable or too long."""


def move_secrets(server: str, entry: Mapping[str, Any], keep: Keep) -> Moved:
    """Move every secret in plain text out of an entry, and write a reference in its place.

    The entry has our field names.

    Raises:
        ConfigError: when a secret cannot be kept.
    """
    copied = cast("dict[str, Any]", _copied(entry))
    kept: dict[str, KeptSecret] = {}
    left: list[str] = []
    for found in list(plain_secrets(server, copied)):
        shown = shown_path(found.path)
        text = _at(copied, found.path)
        if "${" in text or not _can_be_kept(text):
            left.append(shown)
            continue
        start, secret, end = _split(server, copied, found)
        place = keep(f"{server}.{found.variable}", secret)
        _put(copied, found.path, f"{start}{place.reference}{end}")
        kept[shown] = place
    return Moved(copied, kept, tuple(left))


def _split(server: str, entry: dict[str, Any], found: PlainSecret) -> tuple[str, str, str]:
    """Return what stands before the secret, the secret, and what stands behind it."""
    text = _at(entry, found.path)
    name = str(found.path[-1])
    whole = _LEADING_SCHEME.sub("", text, count=1)
    if is_secret(name, text):
        return text[: len(text) - len(whole)], whole, ""
    for part in sorted({it.value for it in secrets_in(text)}, key=len):
        if len(part) < _SHORTEST_PART or text.count(part) != 1:
            continue
        start, _, end = text.partition(part)
        tried = cast("dict[str, Any]", _copied(entry))
        _put(tried, found.path, f"{start}${{file:x}}{end}")
        if all(it.path != found.path for it in plain_secrets(server, tried)):
            return start, part, end
    return "", text, ""


def _can_be_kept(text: str) -> bool:
    # Half of a surrogate pair can be written to no file.
    is_text = not any("\ud800" <= it <= "\udfff" for it in text)
    return is_text and len(text.encode()) < LARGEST_SECRET


def _copied(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _copied(it) for key, it in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_copied(it) for it in cast("list[object]", value)]
    return value


def _at(entry: Any, path: FieldPath) -> str:
    for step in path:
        entry = entry[step]
    return text_of(entry)


def _put(entry: Any, path: FieldPath, text: str) -> None:
    for step in path[:-1]:
        entry = entry[step]
    entry[path[-1]] = text
