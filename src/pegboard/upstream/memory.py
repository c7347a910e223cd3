"""Memory: what servers offered when last seen, so that they need not be started to ask."""

import logging
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
import platformdirs

from pegboard.upstream.connection import Negotiated
from pegboard.upstream.memory_key import DAY, KEPT_FOR, memory_key

__all__ = ["CatalogMemory", "FileMemory", "NoMemory", "Remembered", "memory_key"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

# Others may keep something in the same folder.
_OURS = re.compile(r"(\.writing-\w{8})|[0-9a-f]{32}\.json")


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a server between runs."""

    negotiated: Negotiated
    tools: tuple[Mapping[str, Any], ...]
    """The definitions as the server sent them."""
    names: Mapping[str, tuple[str, str]] = msgspec.field(default_factory=dict[str, tuple[str, str]])
    """By original name: what a tool should have been called, and what it was called instead."""


class CatalogMemory(Protocol):
    """Keeps what servers offered. Called in a thread; what it raises is logged, no more."""

    def load(self, keys: Iterable[str]) -> Mapping[str, Remembered]:
        """Return what is known under these keys; unknown ones are simply missing."""
        ...

    def save(self, key: str, remembered: Remembered) -> None:
        """Keep what a server offers now."""
        ...


class NoMemory:
    """Forgets everything."""

    def load(self, keys: Iterable[str]) -> Mapping[str, Remembered]:
        """Return nothing."""
        return {}

    def save(self, key: str, remembered: Remembered) -> None:
        """Keep nothing."""


class FileMemory:
    """One small file per server, in the user's cache directory unless told otherwise.

    What has not been used for 90 days is removed.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self._directory = Path(directory) if directory else _default_directory()
        self._is_tidy = False

    def load(self, keys: Iterable[str]) -> Mapping[str, Remembered]:
        """Return what is known under these keys; what cannot be read counts as unknown."""
        found: dict[str, Remembered] = {}
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

    def save(self, key: str, remembered: Remembered) -> None:
        """Write a file of its own and put it in place in one step."""
        self._directory.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._directory, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_encoder.encode(remembered))
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


_decoder = msgspec.json.Decoder(Remembered)
_encoder = msgspec.json.Encoder()
