"""Search: find the right tool among thousands, or say that there is none."""

from pegboard.search.budget import brief, tokens_of
from pegboard.search.engine import SearchEngine
from pegboard.search.filters import filter_of
from pegboard.search.names import NameIndex
from pegboard.search.open_searcher import methods, open_searcher
from pegboard.search.options import SearchOptions
from pegboard.search.ranking import best_of
from pegboard.search.searcher import Answer, Hit, Match, Query, Searcher

__all__ = [
    "Answer",
    "Hit",
    "Match",
    "NameIndex",
    "Query",
    "SearchEngine",
    "SearchOptions",
    "Searcher",
    "best_of",
    "brief",
    "filter_of",
    "methods",
    "open_searcher",
    "tokens_of",
]
