"""Errors of searches: an invalid query or pattern, an unknown method, damaged search data."""

from collections.abc import Sequence
from typing import ClassVar

from pegboard.errors.root import LISTED, PegboardError, shorten

__all__ = ["InvalidPatternError", "InvalidQueryError", "SearchDataError", "SearcherNotFoundError"]


class InvalidQueryError(PegboardError, ValueError):
    """The query of a search cannot be used; ``option`` names the part that is wrong."""

    code: ClassVar[str] = "invalid_query"

    def __init__(self, message: str, *, option: str = "text") -> None:
        super().__init__(message)
        self.option = option


class InvalidPatternError(InvalidQueryError):
    """A regular expression cannot be used; ``position`` is where it fails, if that is known."""

    code: ClassVar[str] = "invalid_pattern"

    def __init__(self, pattern: str, problem: str, *, position: int | None = None) -> None:
        place = "" if position is None else f" at position {position}"
        super().__init__(f"The pattern {shorten(pattern)} cannot be used: {problem}{place}.")
        self.pattern = pattern
        self.problem = problem
        self.position = position


class SearcherNotFoundError(InvalidQueryError, KeyError):
    """No search method has that name; ``known`` lists the methods that exist."""

    code: ClassVar[str] = "searcher_not_found"

    def __init__(self, name: object, *, known: Sequence[str] = ()) -> None:
        names = ", ".join(repr(other) for other in known[:LISTED])
        super().__init__(f"No searcher is named {shorten(name)}; known: {names}.", option="method")
        self.name = name
        self.known: tuple[str, ...] = tuple(known)


class SearchDataError(PegboardError, RuntimeError):
    """The word table for semantic search, which is a part of Pegboard, is missing or damaged."""

    code: ClassVar[str] = "search_data"
