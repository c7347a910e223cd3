"""Search: find the right tool among thousands, or report that none fits.

Names are imported when they are first used: code that only reads a response needs no engine.
`open_searcher` is imported at once: later, the module of that name would have taken its place.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names
from pegboard.search.open_searcher import open_searcher, search_methods

if TYPE_CHECKING:
    from pegboard.search.budget import brief, tokens_of
    from pegboard.search.engine import SearchEngine
    from pegboard.search.methods.names import NameIndex
    from pegboard.search.options import SearchOptions
    from pegboard.search.searcher import (
        Hit,
        Match,
        Query,
        Searcher,
        SearchResponse,
        best_of,
        filter_of,
    )

__all__ = [
    "Hit",
    "Match",
    "NameIndex",
    "Query",
    "SearchEngine",
    "SearchOptions",
    "SearchResponse",
    "Searcher",
    "best_of",
    "brief",
    "filter_of",
    "open_searcher",
    "search_methods",
    "tokens_of",
]

_HOMES = {
    "SearchResponse": "searcher",
    "Hit": "searcher",
    "Match": "searcher",
    "NameIndex": "methods.names",
    "Query": "searcher",
    "SearchEngine": "engine",
    "SearchOptions": "options",
    "Searcher": "searcher",
    "best_of": "searcher",
    "brief": "budget",
    "filter_of": "searcher",
    "tokens_of": "budget",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
