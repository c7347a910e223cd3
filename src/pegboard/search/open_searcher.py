"""Open a searcher by the name of its method: a built-in one, or a plug-in of another package."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pegboard.errors import InvalidQueryError, SearcherNotFoundError
from pegboard.search.searcher import Searcher

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

__all__ = ["BUILT_IN", "INDEXED", "checked_searcher", "open_searcher", "search_methods"]

ENTRY_POINTS = "pegboard.searchers"
INDEXED = frozenset({"bm25", "embedding", "hybrid"})
"""The methods that search a `ToolIndex`, which they can share."""
# Imported when first asked for: NumPy and RE2 cost more than all the rest of a start.
_HOMES = {
    "regex": ("pegboard.search.methods.regex", "Regex"),
    "bm25": ("pegboard.search.methods.bm25", "BM25"),
    "embedding": ("pegboard.search.methods.embedding", "Embedding"),
    "hybrid": ("pegboard.search.methods.hybrid", "Hybrid"),
}
BUILT_IN = frozenset(_HOMES)
"""The methods that are a part of Pegboard."""


def open_searcher(method: str, *, index: Any = None) -> Searcher:
    """Return a searcher without tools.

    Args:
        method: ``"regex"``, ``"bm25"``, ``"embedding"``, ``"hybrid"``, or a name that another
            package provides.
        index: the `ToolIndex` to search, for the methods that use one; by default a new one.

    Raises:
        SearcherNotFoundError: when no method has this name.
        InvalidQueryError: when the package that provides it cannot be used.
    """
    home = _HOMES.get(method) if isinstance(method, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if home is None:
        return _plugged_in(method)
    module, name = home
    kind: Any = getattr(import_module(module), name)
    return kind(index) if method in INDEXED and index is not None else kind()


def search_methods() -> tuple[str, ...]:
    """Return the names of all methods that can be opened."""
    return tuple(dict.fromkeys((*_HOMES, *sorted(_plugins().names))))


def checked_searcher(searcher: object) -> Searcher:
    """Return an object if it is a searcher.

    Raises:
        TypeError: when it is not.
    """
    if not isinstance(searcher, Searcher):
        raise TypeError(
            f"{type(searcher).__name__!r} does not have the methods of a searcher: `apply`, "
            "`search` and `search_many`."
        )
    return searcher


def _plugged_in(method: object) -> Searcher:
    for plugin in _plugins():
        if plugin.name == method:
            return _opened(plugin)
    raise SearcherNotFoundError(method, known=search_methods())


def _plugins() -> "EntryPoints":
    # Imported only here: the import takes longer than most searches.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=ENTRY_POINTS)


def _opened(plugin: "EntryPoint") -> Searcher:
    try:
        return checked_searcher(plugin.load()())
    except Exception as error:
        raise InvalidQueryError(
            f"The search method {plugin.name!r} of {plugin.value} cannot be used: {error}",
            option="method",
        ) from error
