"""The options of a search (limit, filters, budget), and the query that they make."""

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
    """How to search; an option that is left out restricts nothing."""

    method: str
    """``"hybrid"`` (the default), ``"bm25"``, ``"embedding"``, ``"regex"``, or a plug-in's name."""
    limit: int
    """The most hits to return; 5 by default, and no more than 1,000."""
    servers: Iterable[str]
    """Only tools of these servers."""
    categories: Iterable[str]
    """Only tools of these categories."""
    tags: Iterable[str]
    """Only tools with at least one of these tags."""
    groups: Iterable[str]
    """Only tools of at least one of these groups."""
    budget: int | None
    """Only as many hits as fit this many tokens, by `brief`: name, parameters, one sentence."""
    usage: bool
    """Whether a used tool comes before others that fit equally; on by default if use is counted."""
    abstain: bool
    """Return nothing rather than tools that do not fit; on by default."""
    explain: bool
    """Report how each part of the ranking contributed; off by default."""
    matches: bool
    """Report in which fields each tool matched; on by default. Switching it off saves time."""
    documents: bool
    """Also find what the gateway has beside the tools, such as skills; off by default."""


_KNOWN = tuple(SearchOptions.__annotations__)


def query_of(
    text: object,
    options: SearchOptions,
    *,
    visible: Visible | None = None,
    boost: Boost | None = None,
) -> Query:
    """Return the query of a text and options.

    Raises:
        InvalidQueryError: when the text or an option is not valid.
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
    """Return the queries of several texts with the same options.

    Raises:
        InvalidQueryError: when a text or an option is not valid.
    """
    template = _template(options, visible=visible, boost=boost)
    return [msgspec.structs.replace(template, text=_text(text)) for text in _several(texts)]


def _template(options: SearchOptions, *, visible: Visible | None, boost: Boost | None) -> Query:
    """Return the query of options, still without a text."""
    unknown = set(options).difference(_KNOWN)
    if unknown:
        raise InvalidQueryError(
            f"Unknown option {', '.join(sorted(unknown))}. The known ones are {', '.join(_KNOWN)}.",
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
    """Return the names in a filter.

    Raises:
        InvalidQueryError: when it is not a list of names.
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
            f"`search_many` takes several texts, such as a list, not {kind!r}. Use `search` for a "
            "single text."
        )
    return cast("Iterable[object]", texts)


def _text(text: object) -> str:
    if not isinstance(text, str):
        kind = type(text).__name__
        raise InvalidQueryError(f"The text of a query is a str, not {kind!r}.")
    if not text.strip():
        raise InvalidQueryError(
            "The text of the query is blank. Say in a few words what the tool should do."
        )
    return text


def _positive(option: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidQueryError(
            f"`{option}` is a whole number, at least 1, not {number!r}.", option=option
        )
    return number
