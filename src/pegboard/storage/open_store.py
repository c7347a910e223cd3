"""Open a store by its URL: a built-in kind, or one of a plug-in package."""

import hashlib
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

import platformdirs

from pegboard.errors import StorageError
from pegboard.errors.extras import install_extra
from pegboard.storage.encoding import check_tenant
from pegboard.storage.store import Store
from pegboard.storage.urls import SCHEME, path_of, without_password

__all__ = ["DEFAULT_TENANT", "check_url", "default_url", "index_place", "open_store", "scheme_of"]

DEFAULT_TENANT = "default"
ENTRY_POINTS = "pegboard.stores"

Opener = Callable[[str, str], Store]
"""Takes a URL and a tenant."""

_BY_SUFFIX = {".json": "json", ".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite"}
_FILES = ("json", "sqlite")
_HOMES = {
    "json": "pegboard.storage.json_file",
    "sqlite": "pegboard.storage.sqlite",
    "postgresql": "pegboard.storage.postgres",
    "postgres": "pegboard.storage.postgres",
}


def open_store(url: str | Path | None = None, *, tenant: str = DEFAULT_TENANT) -> Store:
    """Open what a URL names, for one tenant; close it, or use it as a context.

    Args:
        url: ``tools.json`` or ``json:///path``, ``sqlite:///path`` or a path that ends in ``.db``,
            ``postgresql://…``, or a scheme that another package offers. Without it
            ``PEGBOARD_STORE`` counts, and then an SQLite file in the user's data directory.
        tenant: whose data; no tenant sees that of another.

    Raises:
        ValueError: when the scheme is unknown.
        StorageError: when it cannot be opened.
    """
    wanted = default_url() if url is None else os.fspath(url)
    return _opener(scheme_of(wanted), wanted)(wanted, check_tenant(tenant))


def check_url(url: str) -> None:
    """Refuse a URL that names no store that can be opened; nothing is opened.

    Raises:
        ValueError: when the scheme is unknown.
        StorageError: when what it needs is not installed.
    """
    _opener(scheme_of(url), url)


def default_url() -> str:
    """Return where everything is kept when the caller names no store."""
    named = os.environ.get("PEGBOARD_STORE")
    directory = Path(platformdirs.user_data_dir("pegboard", appauthor=False))
    return named or str(directory / "pegboard.db")


def scheme_of(url: str) -> str:
    """Return the kind of store that a URL or path names.

    Raises:
        ValueError: when it does not say.
    """
    found = SCHEME.match(url)
    if found is not None:
        return found[1].lower()
    scheme = _BY_SUFFIX.get(Path(url).suffix.lower())
    if scheme is None:
        raise ValueError(
            f"{without_password(url)!r} does not say what kind of store it is: use a path that "
            "ends in `.json` or `.db`, or a URL such as `sqlite:///path` or `postgresql://…`."
        )
    return scheme


def index_place(store: Store) -> Path | None:
    """Return the file of a store's search index: beside the store, or in the user's cache.

    A store in memory has none.
    """
    try:
        scheme = scheme_of(store.url)
    except ValueError:
        return None
    if scheme in _FILES:
        path = path_of(store.url).absolute()
        tenant = "" if store.tenant == DEFAULT_TENANT else f".{_digest(store.tenant)}"
        return path.with_name(f"{path.name}{tenant}.search")
    if scheme == "memory":
        return None
    cache = Path(platformdirs.user_cache_dir("pegboard", appauthor=False))
    return cache / f"{_digest(store.url, store.tenant)}.search"


def _opener(scheme: str, url: str) -> Opener:
    home = _HOMES.get(scheme)
    return _plugged_in(scheme, url) if home is None else _built_in(home, scheme, url)


def _built_in(home: str, scheme: str, url: str) -> Opener:
    try:
        return cast("Opener", import_module(home).open_url)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise StorageError(
            f"Stores of the kind `{scheme}` need {error.name!r}: `{install_extra('postgres')}`.",
            url=without_password(url),
        ) from error


def _plugged_in(scheme: str, url: str) -> Opener:
    # Only here: it takes longer to import than a store to open.
    from importlib.metadata import entry_points  # noqa: PLC0415

    for plugin in entry_points(group=ENTRY_POINTS, name=scheme):
        try:
            return plugin.load()
        except (ImportError, AttributeError) as error:
            raise StorageError(
                f"The package that offers `{scheme}:` stores cannot be used: {error}.",
                url=without_password(url),
            ) from error
    known = sorted({*_HOMES, *entry_points(group=ENTRY_POINTS).names})
    raise ValueError(
        f"No installed package opens `{scheme}:` stores (known: {', '.join(known)}). Install a "
        f"package that offers it under the entry point {ENTRY_POINTS!r}."
    )


def _digest(*texts: str) -> str:
    whole = "\0".join(texts).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
