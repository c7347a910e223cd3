"""What can be said with a search, and the query that it makes."""

from collections.abc import Callable, Iterable
from typing import TypedDict, cast

import msgspec

from pegboard.errors import InvalidQueryError
from pegboard.model import Tool
from pegboard.search.searcher import Query

__all__ = [
    "DEFAULT_METHOD",
    "Boost",
    "SearchOptions",
    "Visible",
    "names_of",
    "queries_of",
    "query_of",
]

DEFAULT_METHOD = "hybrid"

Visible = Callable[[Tool], bool]
Boost = Callable[[str], float]


class SearchOptions(TypedDict, total=False):
    """How to search; whatever is left out does not restrict it."""

    method: str
    """``"hybrid"`` (the default), ``"bm25"``, ``"embedding"``, ``"regex"``, or one of a plug-in."""
    limit: int
    """How many hits at most; 5 unless you say otherwise, and no more than 1,000."""
    servers: Iterable[str]
    """Only tools of these servers."""
    categories: Iterable[str]
    """Only tools of these categories."""
    tags: Iterable[str]
    """Only tools with at least one of these tags."""
    groups: Iterable[str]
    """Only tools of at least one of these groups."""
    budget: int | None
    """Only as many hits as fit into so many tokens, by `brief`: name, parameters, one sentence."""
    usage: bool
    """Whether tools that are used come before others that fit alike; on, where use is counted."""
    abstain: bool
    """Answer nothing rather than something that does not fit; on."""
    explain: bool
    """Say how each part of the ranking contributed; off."""
    matches: bool
    """Say in which fields each tool matched; on. Who does not need it saves time without."""


_KNOWN = tuple(SearchOptions.__annotations__)


def query_of(
    text: object,
    options: SearchOptions,
    *,
    visible: Visible | None = None,
    boost: Boost | None = None,
) -> Query:
    """Return the query that a text and options make.

    Raises:
        InvalidQueryError: when they make none.
    """
    [query] = queries_of([text], options, visible=visible, boost=boost)
    return query


def queries_of(
    texts: Iterable[object],
    options: SearchOptions,
    *,
    visible: Visible | None = None,
    boost: Boost | None = None,
) -> list[Query]:
    """Return the queries that texts and options make; the options are read once for all of them.

    Raises:
        InvalidQueryError: when they make none.
    """
    asked = _asked(options, visible=visible, boost=boost)
    return [msgspec.structs.replace(asked, text=_text(text)) for text in _several(texts)]


def _asked(options: SearchOptions, *, visible: Visible | None, boost: Boost | None) -> Query:
    """Return the query that options make, still without a text."""
    unknown = set(options).difference(_KNOWN)
    if unknown:
        raise InvalidQueryError(
            f"Unknown option {', '.join(sorted(unknown))}; known are {', '.join(_KNOWN)}.",
            option=min(unknown),
        )
    if options.get("budget") is not None:
        _positive("budget", options.get("budget"))
    return Query(
        text="",
        limit=_positive("limit", options.get("limit", 5)),
        servers=names_of("servers", options.get("servers", ())),
        categories=names_of("categories", options.get("categories", ())),
        tags=names_of("tags", options.get("tags", ())),
        visible=visible,
        boost=boost,
        abstain=bool(options.get("abstain", True)),
        explain=bool(options.get("explain", False)),
        matches=bool(options.get("matches", True)),
    )


def names_of(option: str, names: object) -> frozenset[str]:
    """Return the names that a filter is given.

    Raises:
        InvalidQueryError: when they are something else.
    """
    if isinstance(names, str):
        raise InvalidQueryError(f"`{option}` takes a list of names: [{names!r}].", option=option)
    try:
        found = frozenset(cast("Iterable[str]", names))
    except TypeError:
        found = frozenset[str]([cast("str", None)])
    if not all(isinstance(name, str) for name in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidQueryError(f"`{option}` takes a list of names, not {names!r}.", option=option)
    return found


def _several(texts: object) -> Iterable[object]:
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        kind = type(texts).__name__
        raise InvalidQueryError(
            f"`search_many` takes several texts, such as a list of them, not {kind!r}; for a "
            "single one there is `search`."
        )
    return cast("Iterable[object]", texts)


def _text(text: object) -> str:
    if not isinstance(text, str):
        kind = type(text).__name__
        raise InvalidQueryError(f"What is searched for is a text (a str), not {kind!r}.")
    if not text.strip():
        raise InvalidQueryError(
            "What is searched for is blank. Say in a few words what the tool should do."
        )
    return text


def _positive(option: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidQueryError(
            f"`{option}` is a whole number from 1 on, not {number!r}.", option=option
        )
    return number
