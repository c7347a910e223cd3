"""The Store protocol: persistent tools, usage and key-value namespaces of one tenant."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self, final

import msgspec

from pegboard.errors import RevisionConflictError
from pegboard.model import Tool, Usage
from pegboard.model.json_values import FrozenDict

__all__ = [
    "ANY",
    "KeyValues",
    "OnProgress",
    "Recovered",
    "Revision",
    "Store",
    "StoreChange",
    "StoredTool",
    "StoredValue",
    "Use",
    "check_revision",
]


@final
class Anything(Enum):
    """The type of `ANY`."""

    ANY = "any"


ANY: Final = Anything.ANY
"""Write regardless of the stored revision."""

Revision = int | None | Literal[Anything.ANY]
"""What a write expects to find: this revision, nothing (``None``), or `ANY`."""

OnProgress = Callable[[int, int], object]
"""Called with the number of tools written so far, and the number of all tools to write."""

_NO_EXTRAS: Mapping[str, Any] = FrozenDict()


def check_revision(key: str, *, url: str, expected: Revision, found: int | None) -> None:
    """Refuse a write when another program was faster: the stored revision is not the expected one.

    Raises:
        RevisionConflictError: when they differ, unless any revision is expected.
    """
    if expected is not ANY and expected != found:
        raise RevisionConflictError(key, url=url, expected=expected, found=found)


class StoredTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool definition as it is stored."""

    tool: Tool
    revision: int = 0
    """Changes with every change of the definition; pass it as ``expected``."""
    extras: Mapping[str, Any] = _NO_EXTRAS
    """Fields of the entry that Pegboard does not know; kept for the program that wrote them."""


class StoredValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a namespace as it is stored."""

    value: Any
    revision: int


class Use(msgspec.Struct, frozen=True):
    """How often a tool was called since the last report, and when it was last called."""

    count: int
    last_used: datetime


class StoreChange(msgspec.Struct, frozen=True, kw_only=True):
    """What may have changed; a watcher reads it again to see the current state."""

    tools: frozenset[str] = frozenset()
    """Names of the tools that any process, including this one, saved or deleted."""
    namespaces: frozenset[str] = frozenset()
    """Namespaces in which a value was put or deleted."""
    everything: bool = False
    """True when the changes are not known in detail; read everything again."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a recovery rescued, and where the damaged file is now."""

    kept: tuple[str, ...]
    """Names of the tools in the new file."""
    lost: tuple[str, ...]
    """Sentences about the data that could not be read."""
    saved_as: Path | None
    """The damaged file under its new name; ``None`` when the file was not damaged, and so not
    changed."""


class KeyValues(Protocol):
    """The JSON values of one namespace, by key."""

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` if it does not exist."""
        ...

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON text, for a caller that decodes only a part of it."""
        ...

    def items(self) -> Mapping[str, StoredValue]:
        """Return all values, in the order of their keys."""
        ...

    def keys(self) -> list[str]:
        """Return the keys in order, without reading the values."""
        ...

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Save a value and return its revision; the value is durable on return.

        Raises:
            RevisionConflictError: when the stored revision is not the expected one.
        """
        ...

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Save many values, all or none."""
        ...

    def delete(self, keys: Iterable[str]) -> int:
        """Delete values, and return how many existed."""
        ...


class Store(Protocol):
    """The tools, usage and values of one tenant; safe for many threads and processes.

    All methods block: in a program with an event loop, call them in a thread. Data is durable when
    the method that wrote it returns. A method that raises `StorageError` or one of its subclasses
    has written nothing.
    """

    @property
    def url(self) -> str:
        """The URL of the store, without a password."""
        ...

    @property
    def tenant(self) -> str:
        """The tenant whose data this is; the data of other tenants cannot be reached from here."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used first, then in the order of the store."""
        ...

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools with these names; names without a tool are left out."""
        ...

    def save(self, tool: Tool | StoredTool, *, expected: Revision = ANY) -> int:
        """Save a tool and return its revision.

        A `StoredTool` replaces the stored extras too; a plain `Tool` leaves them as they are.

        Raises:
            InvalidToolError: when the definition cannot be stored exactly.
            RevisionConflictError: when the stored revision is not the expected one.
        """
        ...

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Save many tools, all or none, and return their revisions by name.

        Raises:
            InvalidToolError: when a definition cannot be stored exactly.
            RevisionConflictError: when a stored revision is not the expected one.
        """
        ...

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Delete a tool and its usage, and tell whether the tool existed.

        Raises:
            RevisionConflictError: when the stored revision is not the expected one.
        """
        ...

    def add_usage(self, uses: Mapping[str, Use]) -> None:
        """Add to the usage counts of these tools, which need not be stored here."""
        ...

    def set_usage(self, usage: Mapping[str, Usage]) -> None:
        """Replace the usage counts of these tools."""
        ...

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the usage counts of these tools, or of every tool that was ever used."""
        ...

    def namespace(self, name: str) -> KeyValues:
        """Return the values of one namespace."""
        ...

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces that hold values, in order."""
        ...

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Call a watcher with every change, in a thread of the store; call the result to stop.

        The watcher learns of a change by any process within a second. Its exceptions are logged.
        """
        ...

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context manager that gives True to one process at a time: it does the job."""
        ...

    def fill_buckets(self, amounts: Mapping[str, float], *, most: float) -> dict[str, float]:
        """Add to leaky buckets, and return the level of each; a bucket drains by one a second.

        The store's clock counts, so processes with different clocks agree. A bucket that was never
        filled is empty. No level exceeds ``most``: what is more is lost.
        """
        ...

    def check(self) -> None:
        """Read all data of the tenant.

        Raises:
            StoreDamagedError: when something cannot be read.
        """
        ...

    def close(self) -> None:
        """Release files, connections and threads; may be called more than once."""
        ...
