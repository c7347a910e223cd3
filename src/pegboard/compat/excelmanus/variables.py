"""Variables and secrets in the texts of ExcelManus's `mcp.json`."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, cast

from pegboard.config.secret_detection import is_secret_name
from pegboard.errors import ConfigError

__all__ = [
    "Undefined",
    "Written",
    "each_text",
    "expanded",
    "plain_secrets",
    "replaced",
    "secrets_of",
]

Undefined: TypeAlias = Literal["keep", "empty", "error"]
"""What becomes of a variable that is not defined: it stays, it is left out, or the server is."""

_VARIABLE = re.compile(r"\$(?:\{([a-z_][a-z0-9_]*)\}|([a-z_][a-z0-9_]*))", re.ASCII | re.IGNORECASE)
_SECRET_NAME = re.compile(r"token|secret|password|passwd|api[-_]?key|access[-_]key", re.IGNORECASE)
_SHORTEST_SECRET = 6
"""Characters; to redact a shorter text would make messages unreadable."""


def plain_secrets(value: object, place: str = "") -> Iterator[str]:
    """Yield the places of texts that a name before them calls a secret."""
    if isinstance(value, dict):
        for key, it in cast("dict[str, object]", value).items():
            inner = f"{place}.{key}" if place else key
            if _is_plain_secret(key, it):
                yield inner
            yield from plain_secrets(it, inner)
    elif isinstance(value, list):
        items = cast("list[object]", value)
        if place.endswith("args"):
            yield from (f"{place}[{index}]" for index in _secret_arguments(items))
        for index, it in enumerate(items):
            yield from plain_secrets(it, f"{place}[{index}]")


class Written(str):
    """A text of the file with variables in it, which are expanded when its server is started."""

    undefined: Undefined = "keep"

    @classmethod
    def of(cls, text: str, undefined: Undefined) -> str:
        """Return a text as it is, unless it has variables."""
        if not _VARIABLE.search(text):
            return text
        made = cls(text)
        made.undefined = undefined
        return made


def expanded(text: str) -> str:
    """Return a text with its variables expanded, if it is one of the file."""
    return replaced(text, text.undefined) if isinstance(text, Written) else text


def replaced(text: str, undefined: Undefined) -> str:
    """Return a text with its variables expanded.

    Raises:
        ConfigError: when one is not defined, and ``undefined`` is ``error``.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if undefined == "error" and name not in os.environ:
            raise ConfigError(f"The variable `{name}` is not defined.")
        return os.environ.get(name, match[0] if undefined == "keep" else "")

    return _VARIABLE.sub(value, text)


def secrets_of(texts: object) -> set[str]:
    """Return the values of variables that have the name of a secret."""
    found: set[str] = set()

    def look(text: str) -> str:
        names = _VARIABLE.findall(text) if isinstance(text, Written) else ()
        values = (os.environ.get(it) for pair in names for it in pair if is_secret_name(it))
        found.update(it for it in values if it and len(it) >= _SHORTEST_SECRET)
        return text

    each_text(texts, look)
    return found


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of JSON in which each text, but no key, was changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: each_text(it, change) for key, it in fields.items()}
    if isinstance(value, list):
        return [each_text(it, change) for it in cast("list[Any]", value)]
    return value


def _secret_arguments(arguments: list[object]) -> Iterator[int]:
    for index, argument in enumerate(arguments):
        name, is_joined, value = (argument if isinstance(argument, str) else "").partition("=")
        place = index if is_joined else index + 1
        following = value if is_joined else next(iter(arguments[place : place + 1]), "")
        is_flag = not is_joined and str(following).strip().startswith("--")
        if name.strip().startswith("--") and not is_flag and _is_plain_secret(name, following):
            yield place


def _is_plain_secret(name: str, value: object) -> bool:
    if not isinstance(value, str) or not value.strip():
        return False
    return _SECRET_NAME.search(name) is not None and not _VARIABLE.fullmatch(value.strip())
