"""Problems found in a configuration file, and the field paths that they name."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

from pegboard.config.secret_detection import looks_like_token, looks_random

__all__ = ["FieldPath", "Problem", "ProblemKind", "Severity", "shown_key", "shown_path", "value_at"]

FieldPath = tuple[str | int, ...]
"""From an entry to a value in it: ``("env", "GITHUB_TOKEN")``."""

_NAME = re.compile(r"[\w$@#./\-]{0,80}")
_BETWEEN_WORDS = re.compile(r"[^\w\-]+")


def shown_key(key: str) -> str:
    """Return the part of a key that looks like a name; the rest may be a secret."""
    found = _NAME.match(key) if _is_name(key) else None
    name = "" if found is None else found[0]
    return name if name == key else f"{name}…"


def shown_path(path: FieldPath) -> str:
    """Return a path as people read it: ``args[2]``, ``env.GITHUB_TOKEN``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown_key(step)}" for step in path)
    return "".join(steps).removeprefix(".")


def value_at(content: object, keys: Sequence[str]) -> object:
    """Return the value at a path of keys, or ``None``."""
    for key in keys:
        # In this order: asking for a Mapping is slow, and nearly always it is a dict.
        if not isinstance(content, dict) and not isinstance(content, Mapping):
            return None
        content = cast("Mapping[str, object]", content).get(key)
    return content


def _is_name(key: str) -> bool:
    return not looks_like_token(key) and not any(map(looks_random, _BETWEEN_WORDS.split(key)))


Severity = Literal["error", "warning"]
"""An ``error`` makes the entry unusable; a ``warning`` does not."""

ProblemKind = Literal["entry", "variable", "unknown_field", "plain_secret", "doubt", "not_allowed"]
"""What the problem is about: the entry itself, an undefined variable, an unknown field, a secret in
plain text, a field that probably does not mean what it says, or a server that `registry.allow` and
`registry.deny` do not allow."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, where, and with which server. It never contains a value of the file."""

    message: str
    server: str | None = None
    """``None`` when the problem concerns the file as a whole."""
    line: int | None = None
    column: int | None = None
    severity: Severity = "error"
    kind: ProblemKind = "entry"

    def __str__(self) -> str:
        place = "" if self.line is None else f"{self.line}:{self.column}: "
        return f"{place}{self.severity}: {self.message}"
