"""Catalog cache: the tools of servers from their last run, in files or in a store."""

import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
import platformdirs

from pegboard.config.atomic_write import make_folder
from pegboard.errors import StorageError
from pegboard.storage import Store
from pegboard.upstream.catalog.offline_catalog import DAY, KEPT_FOR, SERVERS
from pegboard.upstream.connection import Negotiated

__all__ = [
    "CachedCatalog",
    "CatalogCache",
    "FileCatalogCache",
    "NoCatalogCache",
    "StoreCatalogCache",
]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

# Other programs may keep files in the same folder.
_OURS = re.compile(r"(\.writing-\w{8})|[0-9a-f]{32}\.json")


class CachedCatalog(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cached catalog of a server."""

    negotiated: Negotiated
    tools: tuple[Mapping[str, Any], ...]
    """The definitions as the server sent them."""
    names: Mapping[str, tuple[str, str]] = msgspec.field(default_factory=dict[str, tuple[str, str]])
    """By original name: the name that a tool should have had, and the one that it got."""


class CatalogCache(Protocol):
    """Stores the catalogs of servers. It is called in a thread, and its errors are only logged."""

    def load(self, keys: Iterable[str]) -> Mapping[str, CachedCatalog]:
        """Return the catalogs under these keys; unknown keys are left out."""
        ...

    def save(self, key: str, cached: CachedCatalog) -> None:
        """Store the present catalog of a server."""
        ...


class NoCatalogCache:
    """Stores nothing."""

    def load(self, keys: Iterable[str]) -> Mapping[str, CachedCatalog]:
        """Return nothing."""
        return {}

    def save(self, key: str, cached: CachedCatalog) -> None:
        """Store nothing."""


class FileCatalogCache:
    """One small file per server, by default in the user's cache directory.

    A file that was not used for 90 days is removed.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self._directory = Path(directory) if directory else _default_directory()
        self._is_tidy = False

    def load(self, keys: Iterable[str]) -> Mapping[str, CachedCatalog]:
        """Return the catalogs under these keys; unreadable files are left out."""
        found: dict[str, CachedCatalog] = {}
        for key in keys:
            try:
                data = self._path(key).read_bytes()
                found[key] = _decoder.decode(data)
                self._note_use(self._path(key))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
                context = {"reason": str(error)}
                logger.warning("memory_unreadable: %s: %s", self._path(key), error, extra=context)
        return found

    def save(self, key: str, cached: CachedCatalog) -> None:
        """Write a temporary file, and move it into place in one step."""
        make_folder(self._directory)
        handle, name = tempfile.mkstemp(dir=self._directory, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_encoder.encode(cached))
            Path(name).replace(self._path(key))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        if not self._is_tidy:
            self._is_tidy = True
            self._tidy_up()

    def _note_use(self, path: Path) -> None:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > DAY:
                os.utime(path)

    def _tidy_up(self) -> None:
        """Remove unused files, and the temporary files of killed processes."""
        now = time.time()
        for path in self._directory.iterdir():
            ours = _OURS.fullmatch(path.name)
            if ours is not None:
                with suppress(OSError):
                    if now - path.stat().st_mtime > (DAY if ours[1] else KEPT_FOR):
                        path.unlink()

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}.json"


def _default_directory() -> Path:
    return Path(platformdirs.user_cache_dir("pegboard", appauthor=False)) / "catalog-2"


_decoder = msgspec.json.Decoder(CachedCatalog)
_encoder = msgspec.json.Encoder()


USES = "servers-used"
"""The namespace with the day of the last use of each key, counted from the epoch."""
_EVERY = 7
"""Days after which a use is recorded again."""


class StoreCatalogCache:
    """Keeps the catalogs in a store, where all processes with the same store share them.

    A catalog that no process has used for 90 days is removed.

    Args:
        store: returns the store, which may be opened later than this.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._noted: dict[str, int] = {}

    def load(self, keys: Iterable[str]) -> Mapping[str, CachedCatalog]:
        """Return the catalogs under these keys; unreadable ones are left out."""
        found: dict[str, CachedCatalog] = {}
        values = self._store().namespace(SERVERS)
        for key in keys:
            stored = values.text(key)
            if stored is not None:
                try:
                    found[key] = msgspec.json.decode(stored, type=CachedCatalog)
                except (msgspec.MsgspecError, RecursionError) as error:
                    logger.warning("memory_unreadable: %s", error, extra={"reason": str(error)})
        self._note_uses(found)
        return found

    def save(self, key: str, cached: CachedCatalog) -> None:
        """Store the present catalog of a server."""
        values = self._store().namespace(SERVERS)
        values.put(key, msgspec.json.decode(msgspec.json.encode(cached)))
        self._note_uses([key])

    def _note_uses(self, keys: Collection[str]) -> None:
        today = int(time.time() // DAY)
        due = {key for key in keys if today - self._noted.get(key, 0) >= _EVERY}
        if not due:
            return
        try:
            self._forget_unused(due, today)
        except StorageError as error:
            # A process may have the right to read the store, but not to write to it.
            logger.debug("memory_not_tidied: %s", error, extra={"reason": str(error)})
        self._noted |= dict.fromkeys(due, today)

    def _forget_unused(self, used: set[str], today: int) -> None:
        """Record what is used today, and remove what no process has used for long."""
        values, uses = self._store().namespace(SERVERS), self._store().namespace(USES)
        days = {key: it.value for key, it in uses.items().items() if isinstance(it.value, int)}
        # For catalogs from before these records existed, the time begins now.
        unnoted = set(values.keys()) - days.keys()
        stale = {key for key in used if today - days.get(key, 0) >= _EVERY}
        if unnoted or stale:
            uses.put_many(dict.fromkeys(unnoted | stale, today))
        limit = today - KEPT_FOR / DAY
        unused = [key for key, day in days.items() if day < limit and key not in used]
        if unused:
            values.delete(unused)
            uses.delete(unused)
