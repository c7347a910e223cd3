"""A store in memory: for tests, and the shortest example of a `Store`."""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import msgspec

from pegboard.errors import RevisionConflictError, StorageError
from pegboard.model import Tool, Usage, freeze
from pegboard.model.tool_names import check_name
from pegboard.storage import (
    ANY,
    DEFAULT_TENANT,
    OnProgress,
    Revision,
    StoreChange,
    StoredTool,
    StoredValue,
    Use,
)
from pegboard.storage.encoding import (
    check_key,
    check_tenant,
    encode_named_value,
)
from pegboard.storage.leases import LEASES, lease
from pegboard.storage.tool_rows import read_row, row_of
from pegboard.storage.usage_counts import checked_usage, checked_uses, sum_of_usage
from pegboard.storage.watchers import Watchers

__all__ = ["Memory", "MemoryStore", "MemoryValues"]

_UNUSED = Usage()


class Memory:
    """What several stores share; forgotten with the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shelves: dict[str, _Shelf] = {}

    def open(self, tenant: str = DEFAULT_TENANT) -> "MemoryStore":
        """Return a store of one tenant."""
        with self._lock:
            shelf = self._shelves.setdefault(check_tenant(tenant), _Shelf())
        return MemoryStore(shelf, tenant)


class _Shelf:
    """Everything of one tenant."""

    def __init__(self) -> None:
        self.lock: threading.Lock = threading.Lock()
        self.revision: int = 0
        self.tools: dict[str, StoredTool] = {}
        self.usage: dict[str, Usage] = {}
        self.values: dict[str, dict[str, tuple[bytes, int]]] = {}
        self.changes: list[StoreChange] = []

    def next_revision(self) -> int:
        self.revision += 1
        return self.revision

    def room(self, name: str) -> dict[str, tuple[bytes, int]]:
        return self.values.setdefault(name, {})

    def put(self, name: str, texts: Mapping[str, bytes]) -> int:
        revision = self.next_revision()
        self.room(name).update({key: (text, revision) for key, text in texts.items()})
        self.changes.append(StoreChange(namespaces=frozenset({name})))
        return revision


class MemoryStore:
    """One tenant's view of a `Memory`, which opens it."""

    url = "memory:"

    def __init__(self, shelf: _Shelf, tenant: str) -> None:
        self.tenant: str = tenant
        self._shelf = shelf
        self._closed = False
        self._seen = 0
        self._watchers = Watchers(self._look, interval=0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used ones first, then the oldest."""
        with self.shelf() as shelf:
            return sorted(shelf.tools.values(), key=lambda it: -_uses(shelf.usage, it.tool.name))

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools of these names."""
        wanted = [check_name(name) for name in names]
        with self.shelf() as shelf:
            return {name: shelf.tools[name] for name in wanted if name in shelf.tools}

    def save(self, tool: Tool | StoredTool, *, expected: Revision = ANY) -> int:
        """Keep a tool and return its revision."""
        [revision] = self.save_many([tool], expected=expected).values()
        return revision

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Keep many tools, all or none, and return their revisions by name."""
        # Everything is read, checked and copied before anything is written.
        entries = dict(_entry(tool) for tool in tools)
        with self.shelf() as shelf:
            for name in entries:
                there = shelf.tools.get(name)
                self.compare(name, there and there.revision, expected)
            for name, (tool, extras) in entries.items():
                there = shelf.tools.get(name)
                kept = extras if extras is not None else there.extras if there else freeze({})
                shelf.tools[name] = StoredTool(
                    tool=tool, revision=shelf.next_revision(), extras=kept
                )
            shelf.changes.append(StoreChange(tools=frozenset(entries)))
            revisions = {name: shelf.tools[name].revision for name in entries}
        if on_progress is not None:
            on_progress(len(entries), len(entries))
        return revisions

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Forget a tool and its usage, and tell whether there was one."""
        check_name(name)
        with self.shelf() as shelf:
            there = shelf.tools.get(name)
            self.compare(name, there and there.revision, expected)
            shelf.usage.pop(name, None)
            shelf.changes.append(StoreChange(tools=frozenset({name})))
            return shelf.tools.pop(name, None) is not None

    def add_usage(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools."""
        given = checked_uses(uses)
        with self.shelf() as shelf:
            for name, more in given.items():
                shelf.usage[name] = sum_of_usage(shelf.usage.get(name, Usage()), more)

    def set_usage(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        given = checked_usage(usage)
        with self.shelf() as shelf:
            shelf.usage.update(given)

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        wanted = None if names is None else {check_name(name) for name in names}
        with self.shelf() as shelf:
            return {
                name: it
                for name, it in shelf.usage.items()
                if it != _UNUSED and (wanted is None or name in wanted)
            }

    def namespace(self, name: str) -> "MemoryValues":
        """Return the values of one room."""
        return MemoryValues(self, check_key("namespace", name))

    def namespaces(self) -> list[str]:
        """Return the rooms that have values, in order."""
        with self.shelf() as shelf:
            return sorted(name for name, values in shelf.values.items() if values)

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Tell a watcher, in a thread of the store, what changed; call the result to stop."""
        with self.shelf():
            return self._watchers.add(watcher, before_first=self._start_looking)

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context that is True for one holder at a time."""
        return lease(self.namespace(LEASES), check_key("job", job))

    def check(self) -> None:
        """Read everything there is."""
        self.load_all()

    def close(self) -> None:
        """Stop watching; what is kept stays."""
        self._closed = True
        self._watchers.close()

    @contextmanager
    def shelf(self) -> Generator[_Shelf]:
        """Give what is kept, for one reader or writer at a time."""
        with self._shelf.lock:
            if self._closed:
                raise StorageError("The store in memory is closed: open another.", url=self.url)
            yield self._shelf

    def compare(self, key: str, found: int | None, expected: Revision) -> None:
        """Refuse to write where something else than expected is."""
        if expected is not ANY and expected != found:
            raise RevisionConflictError(key, url=self.url, expected=expected, found=found)

    def _start_looking(self) -> None:
        self._seen = len(self._shelf.changes)

    def _look(self) -> StoreChange | None:
        with self._shelf.lock:
            new, self._seen = self._shelf.changes[self._seen :], len(self._shelf.changes)
        if not new:
            return None
        return StoreChange(
            tools=frozenset[str]().union(*(it.tools for it in new)),
            namespaces=frozenset[str]().union(*(it.namespaces for it in new)),
        )


class MemoryValues:
    """The values of one room."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self._store = store
        self._name = name

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` when there is none."""
        check_key("key", key)
        with self._store.shelf() as shelf:
            found = shelf.room(self._name).get(key)
            return found and _stored(found)

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON, or ``None`` when there is none."""
        check_key("key", key)
        with self._store.shelf() as shelf:
            found = shelf.room(self._name).get(key)
            return found and found[0]

    def items(self) -> Mapping[str, StoredValue]:
        """Return everything, in the order of the keys."""
        with self._store.shelf() as shelf:
            return {key: _stored(it) for key, it in sorted(shelf.room(self._name).items())}

    def keys(self) -> list[str]:
        """Return the keys alone, in order."""
        with self._store.shelf() as shelf:
            return sorted(shelf.room(self._name))

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Keep a value and return its revision."""
        text = encode_named_value(key, value)
        with self._store.shelf() as shelf:
            found = shelf.room(self._name).get(key)
            self._store.compare(key, found and found[1], expected)
            return shelf.put(self._name, {key: text})

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Keep many values, all or none."""
        texts = {key: encode_named_value(key, value) for key, value in values.items()}
        with self._store.shelf() as shelf:
            shelf.put(self._name, texts)

    def delete(self, keys: Iterable[str]) -> int:
        """Forget values, and return how many there were."""
        wanted = {check_key("key", key) for key in keys}
        with self._store.shelf() as shelf:
            room = shelf.room(self._name)
            shelf.changes.append(StoreChange(namespaces=frozenset({self._name})))
            return sum(room.pop(key, None) is not None for key in wanted)


def _entry(tool: object) -> tuple[str, tuple[Tool, Mapping[str, Any] | None]]:
    """Return a copy of a tool, and its extras unless it has none to say, under its name."""
    name, body, extras = row_of(tool)
    copy = read_row(body, 0, extras)
    return name, (copy.tool, None if extras is None else copy.extras)


def _stored(kept: tuple[bytes, int]) -> StoredValue:
    return StoredValue(value=msgspec.json.decode(kept[0]), revision=kept[1])


def _uses(usage: Mapping[str, Usage], name: str) -> int:
    return usage[name].use_frequency if name in usage else 0
