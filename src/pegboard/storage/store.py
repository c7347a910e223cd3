"""The Store protocol: persistent tools, usage and key-value namespaces of one tenant."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self, final

import msgspec

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
]


@final
class Anything(Enum):
    """The type of `ANY`."""

    ANY = "any"


ANY: Final = Anything.ANY
"""Write whatever is there now."""

Revision = int | None | Literal[Anything.ANY]
"""What must be there for a write to happen: this revision, nothing at all (``None``), or `ANY`."""

OnProgress = Callable[[int, int], object]
"""Is told how many of how many tools have been written so far."""

_NO_EXTRAS: Mapping[str, Any] = FrozenDict()


class StoredTool(msgspec.Struct, frozen=True, kw_only=True):
    """A definition as it is kept."""

    tool: Tool
    revision: int = 0
    """Another number whenever the definition is another; what to pass as ``expected``."""
    extras: Mapping[str, Any] = _NO_EXTRAS
    """Fields of the entry that Pegboard does not know; kept for the program that put them there."""


class StoredValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a namespace as it is kept."""

    value: Any
    revision: int


class Use(msgspec.Struct, frozen=True):
    """How often a tool was called since this was last said, and when last."""

    count: int
    last_used: datetime


class StoreChange(msgspec.Struct, frozen=True, kw_only=True):
    """What may have changed: read it again to see how it is now."""

    tools: frozenset[str] = frozenset()
    """Names of tools that were saved or deleted, by any process, this one included."""
    namespaces: frozenset[str] = frozenset()
    """Namespaces in which a value was put or deleted."""
    everything: bool = False
    """True when it is not known what; then read all again."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a recovery kept, and where the damaged file is now."""

    kept: tuple[str, ...]
    """Names of the tools that are in the new file."""
    lost: tuple[str, ...]
    """Sentences about what could not be read."""
    saved_as: Path | None
    """The damaged file, as it was, under its new name; ``None`` when nothing was damaged, and
    nothing changed."""


class KeyValues(Protocol):
    """JSON values by key, for a room that is not about tools."""

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` when there is none."""
        ...

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON, for a caller that reads only a part; ``None`` without one."""
        ...

    def items(self) -> Mapping[str, StoredValue]:
        """Return everything, in the order of the keys."""
        ...

    def keys(self) -> list[str]:
        """Return the keys alone, in order, without reading the values."""
        ...

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Keep a value and return its revision; durable on return.

        Raises:
            RevisionConflictError: when something else than expected is there.
        """
        ...

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Keep many values, all or none."""
        ...

    def delete(self, keys: Iterable[str]) -> int:
        """Forget values, and return how many there were."""
        ...


class Store(Protocol):
    """Everything of one tenant. Safe to use from many threads, and beside other processes.

    All methods block; call them in a thread where an event loop is running. What a method wrote is
    durable when it returns. Each raises `StorageError` or one of its kinds, and then has written
    nothing.
    """

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        ...

    @property
    def tenant(self) -> str:
        """Whose data it is; there is no way from here to that of another tenant."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used ones first, then in the order of the store."""
        ...

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools of these names; those that there are not are simply missing."""
        ...

    def save(self, tool: Tool | StoredTool, *, expected: Revision = ANY) -> int:
        """Keep a tool and return its revision.

        Of a `StoredTool` the extras are kept too; a plain `Tool` leaves the extras that are there.

        Raises:
            InvalidToolError: when it holds what cannot be kept exactly.
            RevisionConflictError: when something else than expected is there.
        """
        ...

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Keep many tools, all or none, and return their revisions by name.

        Raises:
            InvalidToolError: when one holds what cannot be kept exactly.
            RevisionConflictError: when something else than expected is there.
        """
        ...

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Forget a tool and its usage, and tell whether there was one.

        Raises:
            RevisionConflictError: when something else than expected is there.
        """
        ...

    def add_usage(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools, whether or not they are stored here."""
        ...

    def set_usage(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        ...

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        ...

    def namespace(self, name: str) -> KeyValues:
        """Return the values of one room."""
        ...

    def namespaces(self) -> list[str]:
        """Return the rooms that have values, in order."""
        ...

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Tell a watcher, in a thread of the store, what changed; call the result to stop.

        A change made by any process is told within a second. What the watcher raises is logged.
        """
        ...

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context that is True for one process at a time: the one to do the job."""
        ...

    def check(self) -> None:
        """Read everything there is.

        Raises:
            StoreDamagedError: when something cannot be read.
        """
        ...

    def close(self) -> None:
        """Let go of files, connections and threads; any number of times."""
        ...
