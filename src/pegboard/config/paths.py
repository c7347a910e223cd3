"""Paths of keys and indexes that lead to a value inside JSON."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

from pegboard.config.secret_words import looks_like_token, looks_random

__all__ = ["FieldPath", "shown_key", "shown_path", "value_at"]

FieldPath = tuple[str | int, ...]
"""From an entry to a value in it: ``("env", "GITHUB_TOKEN")``."""

_NAME = re.compile(r"[\w$@#./\-]{0,80}")
_BETWEEN_WORDS = re.compile(r"[^\w\-]+")


def shown_key(key: str) -> str:
    """Return as much of a key as is a name; behind that, people may have put a secret."""
    found = _NAME.match(key) if _is_name(key) else None
    name = "" if found is None else found[0]
    return name if name == key else f"{name}…"


def shown_path(path: FieldPath) -> str:
    """Return a path as people read it: ``args[2]``, ``env.GITHUB_TOKEN``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown_key(step)}" for step in path)
    return "".join(steps).removeprefix(".")


def value_at(content: object, keys: Sequence[str]) -> object:
    """Return what a path of keys leads to, or ``None``."""
    for key in keys:
        if not isinstance(content, Mapping):
            return None
        content = cast("Mapping[str, object]", content).get(key)
    return content


def _is_name(key: str) -> bool:
    return not looks_like_token(key) and not any(map(looks_random, _BETWEEN_WORDS.split(key)))
