"""RegistryTools's `ToolStorage`: metadata of tools in JSON and SQLite files."""

import glob
import logging
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

from pegboard.compat.registrytools.metadata import (
    ToolMetadata,
    ToolTemperature,
    metadata_of,
    temperature_of,
    tool_of,
)
from pegboard.errors import InvalidToolError, StorageError
from pegboard.model import Usage
from pegboard.storage import Store, open_store

__all__ = ["JSONStorage", "SQLiteStorage", "ToolStorage"]

logger: logging.Logger = logging.getLogger("pegboard.compat")

_SUFFIXES = frozenset({"", ".json", ".db", ".sqlite", ".sqlite3"})


class ToolStorage(ABC):
    """A storage of metadata: subclass it, and write `load_all`, `save` and, if needed, `delete`.

    All other methods use these three, and can be overridden to be faster.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path).expanduser()

    @abstractmethod
    def load_all(self) -> list[ToolMetadata]:
        """Return all tools."""

    @abstractmethod
    def save(self, tool: ToolMetadata) -> None:
        """Store a tool; it replaces a tool of the same name."""

    def delete(self, tool_name: str) -> bool | None:
        """Delete a tool, and tell whether it existed, if that is known."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot delete {tool_name!r}: it has no method `delete`."
        )

    @property
    def path(self) -> Path | None:
        """The path of the storage."""
        return getattr(self, "_path", None)

    def save_many(self, tools: Iterable[ToolMetadata]) -> None:
        """Store many tools."""
        for tool in tools:
            self.save(tool)

    def get(self, tool_name: str) -> ToolMetadata | None:
        """Return a tool, or ``None``."""
        return next((tool for tool in self.load_all() if tool.name == tool_name), None)

    def exists(self, tool_name: str) -> bool:
        """Tell whether there is a tool of this name."""
        return self.get(tool_name) is not None

    def count(self) -> int:
        """Return how many tools there are."""
        return len(self.load_all())

    def is_empty(self) -> bool:
        """Tell whether there are no tools."""
        return self.count() == 0

    def clear(self) -> None:
        """Delete all tools."""
        for tool in self.load_all():
            self.delete(tool.name)

    def load_by_temperature(
        self, temperature: ToolTemperature | str, limit: int | None = None
    ) -> list[ToolMetadata]:
        """Return the tools of this temperature, the most used first, at most ``limit``."""
        if limit is not None and limit < 0:
            raise ValueError(f"`limit` must be 0 or more, or None for all, not {limit}.")
        wanted = ToolTemperature(temperature)
        found = [it for it in self.load_all() if temperature_of(it.use_frequency) is wanted]
        return sorted(found, key=lambda tool: -tool.use_frequency)[:limit]

    def initialize(self) -> None:  # noqa: B027 - most have nothing to make
        """Prepare the storage before the first use; by default this does nothing."""

    def validate(self) -> bool:
        """Tell whether all tools can be read."""
        try:
            self.load_all()
        except Exception:
            logger.warning("storage_invalid", exc_info=True)
            return False
        return True


class _FileStorage(ToolStorage):
    """A file that is opened at the first use and closed with the last reference to it."""

    _suffix: ClassVar[str]

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._path = _with_suffix(Path(path).expanduser(), self._suffix)
        # Absolute, so that it stays the same file, and is never taken for a URL.
        self._file = self._path.absolute()
        self._lock = threading.Lock()
        self._opened: Store | None = None
        self._closing: weakref.finalize[..., Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def store(self) -> Store:
        """The store underneath."""
        with self._lock:
            if self._opened is None:
                self._opened = open_store(self._file)
                self._closing = weakref.finalize(self, self._opened.close)
            return self._opened

    def load_all(self) -> list[ToolMetadata]:
        """Return all tools, the most used first."""
        usage = self.store.usage()
        return [metadata_of(found, usage) for found in self.store.load_all()]

    def save(self, tool: ToolMetadata) -> None:
        """Store a tool; it replaces a tool of the same name.

        Raises:
            InvalidToolError: when the tool is invalid.
            StorageError: when it cannot be written.
        """
        self.save_many([tool])

    def save_many(self, tools: Iterable[ToolMetadata]) -> None:
        """Store many tools, all or none, in addition to the stored ones."""
        given = {tool.name: tool for tool in tools}
        store = self.store
        store.save_many([tool_of(tool) for tool in given.values()])
        there = store.usage(given)
        news = {
            name: tool.usage
            for name, tool in given.items()
            if tool.usage != there.get(name, Usage())
        }
        if news:
            store.set_usage(news)

    def delete(self, tool_name: str) -> bool:
        """Delete a tool, and tell whether it existed."""
        try:
            return self.store.delete(tool_name)
        except InvalidToolError:
            # No tool can have that name.
            return False

    def get(self, tool_name: str) -> ToolMetadata | None:
        """Return a tool, or ``None``."""
        try:
            found = self.store.load([tool_name]).get(tool_name)
        except InvalidToolError:
            # No tool can have that name.
            return None
        return None if found is None else metadata_of(found, self.store.usage([tool_name]))

    def count(self) -> int:
        """Return how many tools there are."""
        return len(self.store.load_all())

    def initialize(self) -> None:
        """Open the file now instead of at the first use."""
        _ = self.store

    def validate(self) -> bool:
        """Tell whether the file exists, and all of it can be read."""
        # Opening would create it, and what was just saved may still be in a file next to it.
        files = f"{glob.escape(self._file.name)}*"
        if self._opened is None and not any(self._file.parent.glob(files)):
            return False
        try:
            self.store.check()
        except StorageError:
            logger.warning("storage_invalid", exc_info=True)
            return False
        return True

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._opened = None
            if self._closing is not None:
                self._closing()


class JSONStorage(_FileStorage):
    """A JSON file that people can read and edit; the default. Its name ends in ``.json``."""

    _suffix = ".json"


class SQLiteStorage(_FileStorage):
    """An SQLite database in one file, whose name ends in ``.db``."""

    _suffix = ".db"


def _with_suffix(path: Path, suffix: str) -> Path:
    if path.suffix.lower() in _SUFFIXES:
        return path.with_suffix(suffix)
    # `catalog.v1` and `catalog.v2` are two different files.
    return path.with_name(f"{path.name}{suffix}")
