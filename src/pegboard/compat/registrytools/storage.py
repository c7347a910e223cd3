"""RegistryTools's `ToolStorage`: metadata of tools in its JSON files and SQLite databases."""

import json
import logging
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import wraps
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

from pegboard.compat.registrytools.metadata import ToolMetadata, ToolTemperature, tool_of
from pegboard.errors import InvalidToolError, StorageError
from pegboard.model import Usage
from pegboard.model.call import HOT_USES, WARM_USES
from pegboard.model.fork_guard import GuardedLock
from pegboard.storage import Store, open_store
from pegboard.storage.json_file.paths import set_aside
from pegboard.storage.registrytools import (
    PegboardFileError,
    RegistryToolsContentError,
    RegistryToolsDatabase,
    RegistryToolsError,
    RegistryToolsJson,
    entry_in_row,
    entry_of,
    insert,
    named,
)

__all__ = ["JSONStorage", "SQLiteStorage", "ToolStorage"]

logger: logging.Logger = logging.getLogger("pegboard.compat")

_USES = {
    ToolTemperature.HOT: (HOT_USES, 2**63 - 1),
    ToolTemperature.WARM: (WARM_USES, HOT_USES - 1),
    ToolTemperature.COLD: (-(2**63), WARM_USES - 1),
}
"""The fewest and the most uses; a storage does not look at the idle days."""

P = ParamSpec("P")
R = TypeVar("R")


class ToolStorage(ABC):
    """A storage of metadata: subclass it, and write `load_all` and `save`.

    The other methods use these two, and can be overridden to be faster. `delete` has to be
    written if it is needed.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # These are abstract in the package. The document's subclass has none of them.
        for name in ("save_many", "delete", "exists", "load_by_temperature"):
            method = vars(ToolStorage)[name]
            if getattr(cls, name) is method:
                concrete = FunctionType(method.__code__, globals(), name, method.__defaults__)
                setattr(cls, name, concrete)

    @abstractmethod
    def load_all(self) -> list[ToolMetadata]:
        """Return all tools."""

    @abstractmethod
    def save(self, tool: ToolMetadata) -> None:
        """Store a tool; it replaces a tool of the same name."""

    @abstractmethod
    def save_many(self, tools: Iterable[ToolMetadata]) -> None:
        """Store many tools."""
        for tool in tools:
            self.save(tool)

    @abstractmethod
    def delete(self, tool_name: str) -> bool | None:
        """Delete a tool, and tell whether it existed, if that is known."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot delete {tool_name!r}: it has no method `delete`."
        )

    @abstractmethod
    def exists(self, tool_name: str) -> bool:
        """Tell whether there is a tool of this name."""
        return self.get(tool_name) is not None

    @abstractmethod
    def load_by_temperature(
        self, temperature: ToolTemperature, limit: int | None = None
    ) -> list[ToolMetadata]:
        """Return the tools that were used as often as this temperature says, at most ``limit``."""
        # Any other value means cold, as in the package.
        fewest, most = _USES[temperature if temperature in _USES else ToolTemperature.COLD]
        found = [tool for tool in self.load_all() if fewest <= tool.use_frequency <= most]
        return found[:limit] if limit else found

    @property
    def path(self) -> Path | None:
        """The path of the storage."""
        return getattr(self, "_path", None)

    def get(self, tool_name: str) -> ToolMetadata | None:
        """Return a tool, or ``None``."""
        return next((tool for tool in self.load_all() if tool.name == tool_name), None)

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

    def initialize(self) -> None:
        """Make the folder of the path, or the path itself if it has no suffix."""
        if (path := self.path) is not None:
            (path.parent if path.suffix else path).mkdir(parents=True, exist_ok=True)

    def validate(self) -> bool:
        """Tell whether the file or folder of the path exists, or else whether tools can be read."""
        try:
            if (path := self.path) is not None:
                return path.is_file() if path.suffix else path.is_dir()
            self.load_all()
        except Exception:
            logger.debug("storage_invalid", exc_info=True)
            return False
        return True


def _or_in_store(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a method that does the same in a store of Pegboard, if the file turns out to be one."""

    @wraps(method)
    def either(self: "_FileStorage", *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except PegboardFileError:
            pass
        try:
            return getattr(self.in_store(), method.__name__)(*args, **kwargs)
        except StorageError as error:
            raise OSError(str(error)) from error

    return either


class _FileStorage(ToolStorage):
    """A file in the format of RegistryTools, or of Pegboard if it is such a file already."""

    _suffix: ClassVar[str]

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._path: Path = Path(path)
        if self._path.suffix != self._suffix:
            self._path = self._path.with_suffix(self._suffix)
        self._lock = GuardedLock("storage", threading.Lock())
        self._store: _StoreStorage | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._path

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def in_store(self) -> "_StoreStorage":
        """Return the storage for a file that is a store of Pegboard."""
        with self._lock:
            if self._store is None:
                # Absolute, so that it is never taken for a URL.
                opened = open_store(self._path.absolute())
                self._store = _StoreStorage(opened)  # pyright: ignore[reportAbstractUsage]
            return self._store


class JSONStorage(_FileStorage):
    """A JSON file with one object for each tool; its name ends in ``.json``.

    RegistryTools reads and writes the same files. Any number of threads and processes may use one:
    no tool that was saved is lost. A file that cannot be used raises an `OSError`, and content of
    the wrong shape what RegistryTools raises.
    """

    _suffix = ".json"

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._file = RegistryToolsJson(self._path)

    @_or_in_store
    def load_all(self) -> list[ToolMetadata]:
        """Return all tools in the order of the file; invalid ones are logged and left out."""
        return _valid(self._entries().values(), ToolMetadata.model_validate)

    @_or_in_store
    def save(self, tool: ToolMetadata) -> None:
        """Store a tool, or replace it; a file that is not JSON is set aside, and one begun."""
        with self._file.alone():
            entries: Any = {}
            try:
                entries = named(self._file.read())
            except json.JSONDecodeError:
                if content := self._path.read_bytes():
                    kept = set_aside(self._path, content)
                    logger.warning("storage_damaged: The damaged file is kept as %s.", kept)
            entries[tool.name] = tool.model_dump(mode="json")
            self._file.write(entries)

    @_or_in_store
    def save_many(self, tools: Iterable[ToolMetadata]) -> None:
        """Store these tools instead of all that are there; an empty list changes nothing."""
        if not tools:
            return
        entries = {tool.name: tool.model_dump(mode="json") for tool in tools}
        with self._file.alone():
            self._file.check_owner()
            self._file.write(entries)

    @_or_in_store
    def delete(self, tool_name: str) -> bool:
        """Delete a tool, and tell whether it existed; with the last one goes the file."""
        self._file.check_owner()
        if not self._path.exists():
            return False
        with self._file.alone():
            entries = self._entries()
            if tool_name not in entries:
                return False
            del entries[tool_name]
            if entries:
                self._file.write(entries)
            else:
                self._path.unlink()
        return True

    @_or_in_store
    def exists(self, tool_name: str) -> bool:
        """Tell whether there is a tool of this name."""
        return tool_name in self._readable()

    def load_by_temperature(
        self, temperature: ToolTemperature, limit: int | None = None
    ) -> list[ToolMetadata]:
        """Return the tools that were used as often as this temperature says, at most ``limit``."""
        return super().load_by_temperature(temperature, limit)

    @_or_in_store
    def count(self) -> int:
        """Return how many tools there are; none if the file cannot be read."""
        return len(self._readable())

    @_or_in_store
    def get(self, tool_name: str) -> ToolMetadata | None:
        """Return a tool, or ``None`` if there is none or the file cannot be read."""
        entries = self._readable()
        return ToolMetadata.model_validate(entries[tool_name]) if tool_name in entries else None

    @_or_in_store
    def clear(self) -> None:
        """Delete the file."""
        self._file.check_owner()
        if self._path.exists():
            with self._file.alone():
                self._path.unlink(missing_ok=True)

    @_or_in_store
    def initialize(self) -> None:
        """Make the folder, and a file without tools unless there is one."""
        super().initialize()
        self._file.check_owner()
        if not self._path.exists():
            with self._file.alone():
                if not self._path.exists():
                    self._file.write({})

    @_or_in_store
    def validate(self) -> bool:
        """Tell whether there is a file that can be read as JSON."""
        try:
            self._file.read()
        except (OSError, ValueError):
            return False
        return self._path.is_file()

    def _entries(self) -> Any:
        try:
            return self._file.read()
        except json.JSONDecodeError as error:
            # Programs look for the first words.
            raise OSError(
                f"JSON 文件格式错误: {self._path} is not valid JSON: {error}. Correct the file, or "
                "restore it from a backup."
            ) from error

    def _readable(self) -> Any:
        try:
            return self._entries()
        except RegistryToolsContentError:
            raise
        except OSError:
            return {}


class SQLiteStorage(_FileStorage):
    """An SQLite database with one table, in a file whose name ends in ``.db``.

    RegistryTools reads and writes the same files, also at the same time. What cannot be read or
    written raises an `OSError`.
    """

    _suffix = ".db"

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._database = RegistryToolsDatabase(self._path)
        self._closing = weakref.finalize(self, self._database.close)

    @_or_in_store
    def load_all(self) -> list[ToolMetadata]:
        """Return all tools, the latest saved last; invalid ones are logged and left out."""
        return _valid(self._rows("SELECT * FROM tools"), _metadata_in_row)

    @_or_in_store
    def save(self, tool: ToolMetadata) -> None:
        """Store a tool; it replaces a tool of the same name."""
        self.save_many([tool])

    @_or_in_store
    def save_many(self, tools: Iterable[ToolMetadata]) -> None:
        """Store many tools, all or none, in addition to the stored ones."""
        # Before the transaction, which what gives the tools may read or write in between.
        if tools := list(tools):
            self._create()
            with self._database.writing() as connection:
                insert(connection, map(_entry_of, tools))

    @_or_in_store
    def delete(self, tool_name: str) -> bool:
        """Delete a tool, and tell whether it existed."""
        self._create()
        with self._database.writing() as connection:
            return connection.execute("DELETE FROM tools WHERE name = ?", (tool_name,)).rowcount > 0

    @_or_in_store
    def exists(self, tool_name: str) -> bool:
        """Tell whether there is a tool of this name."""
        with suppress(RegistryToolsError):
            return bool(self._rows("SELECT 1 FROM tools WHERE name = ?", tool_name))
        return False

    @_or_in_store
    def load_by_temperature(
        self, temperature: ToolTemperature, limit: int | None = None
    ) -> list[ToolMetadata]:
        """Return the tools that were used as often as this temperature says, at most ``limit``.

        Raises:
            ValueError: when the limit is negative, or there is no such temperature.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"The limit must be non-negative, or None for all, not {limit}.")
        uses = _USES[ToolTemperature(temperature)]
        query = "SELECT * FROM tools WHERE use_frequency BETWEEN ? AND ? LIMIT ?"
        return _valid(self._rows(query, *uses, limit or -1), _metadata_in_row)

    @_or_in_store
    def count(self) -> int:
        """Return how many tools there are; none if the file cannot be read."""
        with suppress(RegistryToolsError):
            [[found]] = self._rows("SELECT count(*) FROM tools")
            return found
        return 0

    @_or_in_store
    def get(self, tool_name: str) -> ToolMetadata | None:
        """Return a tool, or ``None`` if there is none or the file cannot be read."""
        with suppress(RegistryToolsError):
            for row in self._rows("SELECT * FROM tools WHERE name = ?", tool_name):
                return _metadata_in_row(row)
        return None

    @_or_in_store
    def clear(self) -> None:
        """Delete all tools."""
        self._create()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM tools")

    @_or_in_store
    def initialize(self) -> None:
        """Make the folder, the file and its table, unless they are there."""
        super().initialize()
        self._database.create()

    @_or_in_store
    def validate(self) -> bool:
        """Tell whether there is a file with the table."""
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'tools'"
        try:
            return self._path.is_file() and bool(self._database.rows(query))
        except OSError:
            logger.debug("storage_invalid", exc_info=True)
            return False

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        super().close()
        self._database.close()

    def _create(self) -> None:
        if not self._path.exists():
            self.initialize()

    def _rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        self._create()
        return self._database.rows(query, *values)


class _StoreStorage(ToolStorage):
    """The tools in a store of Pegboard, which the gateway may use at the same time."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.close: Callable[[], object] = weakref.finalize(self, store.close)

    def load_all(self) -> list[ToolMetadata]:
        usage = self._store.usage()
        return [
            ToolMetadata.model_validate(entry_of(it, usage.get(it.tool.name, Usage())))
            for it in self._store.load_all()
        ]

    def save(self, tool: ToolMetadata) -> None:
        self.save_many([tool])

    def save_many(self, tools: Iterable[ToolMetadata]) -> None:
        given = {tool.name: tool for tool in tools}
        self._store.save_many([tool_of(tool) for tool in given.values()])
        self._store.set_usage({name: tool.usage for name, tool in given.items()})

    def delete(self, tool_name: str) -> bool:
        return self.exists(tool_name) and self._store.delete(tool_name)

    def get(self, tool_name: str) -> ToolMetadata | None:
        try:
            found = self._store.load([tool_name]).get(tool_name)
        except InvalidToolError:
            return None  # No tool can have that name.
        usage = self._store.usage([tool_name]).get(tool_name, Usage())
        return None if found is None else ToolMetadata.model_validate(entry_of(found, usage))


def _valid(entries: Iterable[Any], read: Callable[[Any], ToolMetadata]) -> list[ToolMetadata]:
    found: list[ToolMetadata] = []
    for entry in entries:
        try:
            found.append(read(entry))
        except (TypeError, ValueError) as error:
            logger.warning("storage_entry_invalid: A tool was left out: %s", error)
    return found


def _metadata_in_row(row: sqlite3.Row) -> ToolMetadata:
    entry = entry_in_row(row)
    last_used = entry["last_used"]
    # Not every text that pydantic takes for a moment is one here.
    moment = datetime.fromisoformat(last_used) if last_used else None
    return ToolMetadata.model_validate(entry | {"last_used": moment})


def _entry_of(tool: ToolMetadata) -> dict[str, Any]:
    last_used = tool.last_used.isoformat() if tool.last_used else None
    return dict(tool) | {"last_used": last_used, "temperature": tool.temperature.value}
