"""Paths of keys and indexes that lead to a value inside JSON."""

from collections.abc import Mapping, Sequence
from typing import cast

__all__ = ["FieldPath", "shown_path", "value_at"]

FieldPath = tuple[str | int, ...]
"""From an entry to a value in it: ``("env", "GITHUB_TOKEN")``."""


def shown_path(path: FieldPath) -> str:
    """Return a path as people read it: ``args[2]``, ``env.GITHUB_TOKEN``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in path)
    return "".join(steps).removeprefix(".")


def value_at(content: object, keys: Sequence[str]) -> object:
    """Return what a path of keys leads to, or ``None``."""
    for key in keys:
        if not isinstance(content, Mapping):
            return None
        content = cast("Mapping[str, object]", content).get(key)
    return content
