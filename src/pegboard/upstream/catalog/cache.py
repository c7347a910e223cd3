"""Memory: what servers offered when last seen, so that they need not be started to ask."""

import hashlib
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

from pegboard.config import ServerConfig
from pegboard.errors import StorageError
from pegboard.storage import Store
from pegboard.upstream.connection import Negotiated

__all__ = [
    "DAY",
    "KEPT_FOR",
    "SERVERS",
    "CachedCatalog",
    "CatalogCache",
    "FileCatalogCache",
    "NoCatalogCache",
    "StoreCatalogCache",
    "catalog_key",
]

SERVERS = "servers"
"""The namespace of a store in which servers are remembered."""
DAY = 86_400.0
KEPT_FOR = 90 * DAY
"""Seconds after which what nobody has used is forgotten: every new token gives a new key."""


def catalog_key(config: ServerConfig) -> str:
    """Return a key that changes with whatever may change the tools, and shows no secret."""
    identity = (
        config.name,
        config.transport,
        config.command,
        config.args,
        dict(config.env),
        config.cwd,
        config.url,
        dict(config.headers),
        # Who asks may decide what is offered.
        config.bearer_token,
        None if config.oauth is None else (config.oauth.client_id, config.oauth.scopes),
    )
    # Not JSON: an environment may hold text that is no Unicode.
    return hashlib.sha256(repr(identity).encode("utf-8", "surrogatepass")).hexdigest()[:32]


logger: logging.Logger = logging.getLogger("pegboard.upstream")

# Others may keep something in the same folder.
_OURS = re.compile(r"(\.writing-\w{8})|[0-9a-f]{32}\.json")


class CachedCatalog(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a server between runs."""

    negotiated: Negotiated
    tools: tuple[Mapping[str, Any], ...]
    """The definitions as the server sent them."""
    names: Mapping[str, tuple[str, str]] = msgspec.field(default_factory=dict[str, tuple[str, str]])
    """By original name: what a tool should have been called, and what it was called instead."""


class CatalogCache(Protocol):
    """Keeps what servers offered. Called in a thread; what it raises is logged, no more."""

    def load(self, keys: Iterable[str]) -> Mapping[str, CachedCatalog]:
        """Return what is known under these keys; unknown ones are simply missing."""
        ...

    def save(self, key: str, cached: CachedCatalog) -> None:
        """Keep what a server offers now."""
        ...


class NoCatalogCache:
    """Forgets everything."""

    def load(self, keys: Iterable[str]) -> Mapping[str, CachedCatalog]:
        """Return nothing."""
        return {}

    def save(self, key: str, cached: CachedCatalog) -> None:
        """Keep nothing."""


class FileCatalogCache:
    """One small file per server, in the user's cache directory unless told otherwise.

    What has not been used for 90 days is removed.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self._directory = Path(directory) if directory else _default_directory()
        self._is_tidy = False

    def load(self, keys: Iterable[str]) -> Mapping[str, CachedCatalog]:
        """Return what is known under these keys; what cannot be read counts as unknown."""
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
        """Write a file of its own and put it in place in one step."""
        self._directory.mkdir(parents=True, exist_ok=True)
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
        """Remove what nobody uses any more, and what a process left that was killed."""
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
"""The namespace that says of each key on which day it was last used, counted from the epoch."""
_EVERY = 7
"""Days after which a use is noted again."""


class StoreCatalogCache:
    """Remembers in a store, so that all processes that share it share what one has learned.

    What none of them has used for 90 days is forgotten.

    Args:
        store: gives the store, which may be opened later than this.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._noted: dict[str, int] = {}

    def load(self, keys: Iterable[str]) -> Mapping[str, CachedCatalog]:
        """Return what is known under these keys; what cannot be understood counts as unknown."""
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
        """Keep what a server offers now."""
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
            # Not everybody who may read it may write to it.
            logger.debug("memory_not_tidied: %s", error, extra={"reason": str(error)})
        self._noted |= dict.fromkeys(due, today)

    def _forget_unused(self, used: set[str], today: int) -> None:
        """Note what is used today, and forget what others have not used for long either."""
        values, uses = self._store().namespace(SERVERS), self._store().namespace(USES)
        days = {key: it.value for key, it in uses.items().items() if isinstance(it.value, int)}
        # Of what was remembered before there were these notes, the time begins now.
        unnoted = set(values.keys()) - days.keys()
        stale = {key for key in used if today - days.get(key, 0) >= _EVERY}
        if unnoted or stale:
            uses.put_many(dict.fromkeys(unnoted | stale, today))
        limit = today - KEPT_FOR / DAY
        unused = [key for key, day in days.items() if day < limit and key not in used]
        if unused:
            values.delete(unused)
            uses.delete(unused)
