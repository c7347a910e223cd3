"""Where the index of a store's tools is kept between runs."""

import hashlib
from pathlib import Path

import platformdirs

from pegboard.storage import DEFAULT_TENANT, Store
from pegboard.storage.open_store import scheme_of
from pegboard.storage.urls import path_of

__all__ = ["index_place"]

_FILES = ("json", "sqlite")


def index_place(store: Store) -> Path | None:
    """Return a file beside the store, or in the user's cache; ``None`` if the store is no place."""
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


def _digest(*texts: str) -> str:
    whole = "\0".join(texts).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
