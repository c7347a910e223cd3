"""Errors of searches."""

from collections.abc import Sequence
from typing import ClassVar

from pegboard.errors.root import LISTED, PegboardError, shorten

__all__ = ["InvalidPatternError", "InvalidQueryError", "SearchDataError", "SearcherNotFoundError"]


class InvalidQueryError(PegboardError, ValueError):
    """A search cannot be made as it was asked for; ``option`` names what is wrong with it."""

    code: ClassVar[str] = "invalid_query"

    def __init__(self, message: str, *, option: str = "text") -> None:
        super().__init__(message)
        self.option = option


class InvalidPatternError(InvalidQueryError):
    """A regular expression cannot be used; ``position`` tells where, if that is known."""

    code: ClassVar[str] = "invalid_pattern"

    def __init__(self, pattern: str, problem: str, *, position: int | None = None) -> None:
        place = "" if position is None else f" at position {position}"
        super().__init__(f"The pattern {shorten(pattern)} cannot be used: {problem}{place}.")
        self.pattern = pattern
        self.problem = problem
        self.position = position


class SearcherNotFoundError(InvalidQueryError, KeyError):
    """No search method has that name; ``known`` lists those that there are."""

    code: ClassVar[str] = "searcher_not_found"

    def __init__(self, name: object, *, known: Sequence[str] = ()) -> None:
        names = ", ".join(repr(other) for other in known[:LISTED])
        super().__init__(f"No searcher is named {shorten(name)}; known: {names}.", option="method")
        self.name = name
        self.known: tuple[str, ...] = tuple(known)


class SearchDataError(PegboardError, RuntimeError):
    """The table that says what words mean, which comes with Pegboard, is missing or damaged."""

    code: ClassVar[str] = "search_data"
