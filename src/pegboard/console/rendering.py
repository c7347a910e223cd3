"""Rendering: the templates of the pages, their words in two languages, and their formats."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pegboard.model.hidden_characters import visible

__all__ = ["LANGUAGES", "Language", "language_of", "rendered", "url_of"]

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

_HERE = Path(__file__).parent
_UNKNOWN = "\N{EN DASH}"
"""What a page shows where a number is not known; it is never 0."""


def language_of(chosen: str, accepted: str) -> Language:
    """Return the language of a page: the chosen one, or the first that the browser accepts."""
    if chosen in LANGUAGES:
        return chosen
    for part in accepted.lower().split(","):
        name = part.split(";")[0].strip()[:2]
        if name in LANGUAGES:
            return name
    return "en"


def rendered(template: str, language: Language, values: Mapping[str, Any]) -> bytes:
    """Return a page; all values are escaped. May take a while, so run it in a thread."""
    return _environment(language).get_template(template).render(values).encode()


@cache
def _environment(language: Language) -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    known: dict[str, Any] = made.globals
    known.update(t=_translator(language), language=language, url_of=url_of)
    filters: dict[str, Any] = made.filters
    filters.update(number=_number, seconds=_seconds, moment=_moment, iso=_iso, bytes=_bytes)
    filters.update(instant=_instant)
    return made


def url_of(kind: str, name: str) -> str:
    """Return the address of the page of a server or a tool; a name may have any character."""
    return f"/console/{kind}s/{quote(name, safe='')}"


def _translator(language: Language) -> Callable[..., str]:
    """Return the function that says a text of the pages in a language; English is the key."""
    words: Mapping[str, str] = {}
    if language != "en":
        path = _HERE / "texts" / f"{language}.json"
        words = msgspec.json.decode(path.read_bytes(), type=dict[str, str])

    def said(text: str, **values: object) -> str:
        found = words.get(text, text)
        # Escaped with the whole: the template sees plain text.
        return found.format(**values) if values else found

    return said


def _shown(value: object) -> object:
    # Definitions and results are hostile: nothing in them may hide from a person.
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _seconds(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1e3:.1f} ms" if value < 0.1 else f"{value * 1e3:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"


def _moment(value: datetime | None) -> str:
    return _UNKNOWN if value is None else f"{value.astimezone():%Y-%m-%d %H:%M:%S}"


def _instant(value: float) -> datetime:
    return datetime.fromtimestamp(value, UTC)


def _iso(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _bytes(value: int | None) -> str:
    if value is None:
        return _UNKNOWN
    if value < 1000:
        return f"{value} B"
    return f"{value / 1000:,.1f} kB" if value < 1_000_000 else f"{value / 1e6:,.1f} MB"
