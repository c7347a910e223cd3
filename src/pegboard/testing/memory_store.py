"""An in-memory store: a fake for tests, and the shortest example of a `Store`."""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import msgspec

from pegboard.errors import StorageError
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
from pegboard.storage.buckets import BUCKETS, fill
from pegboard.storage.encoding import (
    check_key,
    check_tenant,
    encode_named_value,
    read_row,
    row_of,
)
from pegboard.storage.leases import LEASES, lease
from pegboard.storage.store import check_revision
from pegboard.storage.usage_counts import checked_usage, checked_uses, sum_of_usage
from pegboard.storage.watchers import Watchers

__all__ = ["Memory", "MemoryStore", "MemoryValues"]

_UNUSED = Usage()


class Memory:
    """The data that several in-memory stores share, for all tenants."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tenants: dict[str, _TenantData] = {}

    def open(self, tenant: str = DEFAULT_TENANT) -> "MemoryStore":
        """Open the store of one tenant."""
        with self._lock:
            data = self._tenants.setdefault(check_tenant(tenant), _TenantData())
        return MemoryStore(data, tenant)


class _TenantData:
    """The tools, usage and values of one tenant."""

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

    def namespace(self, name: str) -> dict[str, tuple[bytes, int]]:
        return self.values.setdefault(name, {})

    def put(self, name: str, texts: Mapping[str, bytes]) -> int:
        revision = self.next_revision()
        self.namespace(name).update({key: (text, revision) for key, text in texts.items()})
        self.changes.append(StoreChange(namespaces=frozenset({name})))
        return revision


class MemoryStore:
    """One tenant's view of a `Memory`, which opens it."""

    url = "memory:"

    def __init__(self, data: _TenantData, tenant: str) -> None:
        self.tenant: str = tenant
        self._data = data
        self._closed = False
        self._seen = 0
        self._watchers = Watchers(self._poll, interval=0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used first, then the oldest."""
        with self.locked() as data:
            return sorted(data.tools.values(), key=lambda it: -_uses(data.usage, it.tool.name))

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools with these names."""
        wanted = [check_name(name) for name in names]
        with self.locked() as data:
            return {name: data.tools[name] for name in wanted if name in data.tools}

    def save(self, tool: Tool | StoredTool, *, expected: Revision = ANY) -> int:
        """Save a tool and return its revision."""
        [revision] = self.save_many([tool], expected=expected).values()
        return revision

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Save many tools, all or none, and return their revisions by name."""
        # Everything is read, checked and copied before anything is written.
        entries = dict(_entry(tool) for tool in tools)
        with self.locked() as data:
            for name in entries:
                there = data.tools.get(name)
                self.compare(name, there and there.revision, expected)
            for name, (tool, extras) in entries.items():
                there = data.tools.get(name)
                kept = extras if extras is not None else there.extras if there else freeze({})
                data.tools[name] = StoredTool(tool=tool, revision=data.next_revision(), extras=kept)
            data.changes.append(StoreChange(tools=frozenset(entries)))
            revisions = {name: data.tools[name].revision for name in entries}
        if on_progress is not None:
            on_progress(len(entries), len(entries))
        return revisions

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Delete a tool and its usage, and tell whether the tool existed."""
        check_name(name)
        with self.locked() as data:
            there = data.tools.get(name)
            self.compare(name, there and there.revision, expected)
            data.usage.pop(name, None)
            data.changes.append(StoreChange(tools=frozenset({name})))
            return data.tools.pop(name, None) is not None

    def add_usage(self, uses: Mapping[str, Use]) -> None:
        """Add to the usage counts of these tools."""
        given = checked_uses(uses)
        with self.locked() as data:
            for name, more in given.items():
                data.usage[name] = sum_of_usage(data.usage.get(name, Usage()), more)

    def set_usage(self, usage: Mapping[str, Usage]) -> None:
        """Replace the usage counts of these tools."""
        given = checked_usage(usage)
        with self.locked() as data:
            data.usage.update(given)

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the usage counts of these tools, or of every tool that was ever used."""
        wanted = None if names is None else {check_name(name) for name in names}
        with self.locked() as data:
            return {
                name: it
                for name, it in data.usage.items()
                if it != _UNUSED and (wanted is None or name in wanted)
            }

    def namespace(self, name: str) -> "MemoryValues":
        """Return the values of one namespace."""
        return MemoryValues(self, check_key("namespace", name))

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces that hold values, in order."""
        with self.locked() as data:
            return sorted(name for name, values in data.values.items() if values)

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Call a watcher with every change, in a thread of the store; call the result to stop."""
        with self.locked():
            return self._watchers.add(watcher, before_first=self._start_polling)

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context manager that gives True to one holder at a time."""
        return lease(self.namespace(LEASES), check_key("job", job))

    def fill_buckets(self, amounts: Mapping[str, float], *, most: float) -> dict[str, float]:
        """Add to leaky buckets, and return the level of each."""
        return fill(self.namespace(BUCKETS), amounts, most=most)

    def check(self) -> None:
        """Read all data of the tenant."""
        self.load_all()

    def close(self) -> None:
        """Stop watching; the data stays in the `Memory`."""
        self._closed = True
        self._watchers.close()

    @contextmanager
    def locked(self) -> Generator[_TenantData]:
        """Give the data to one reader or writer at a time."""
        with self._data.lock:
            if self._closed:
                raise StorageError("The in-memory store is closed. Open another.", url=self.url)
            yield self._data

    def compare(self, key: str, found: int | None, expected: Revision) -> None:
        """Compare the stored revision with the expected one."""
        check_revision(key, url=self.url, expected=expected, found=found)

    def _start_polling(self) -> None:
        self._seen = len(self._data.changes)

    def _poll(self) -> StoreChange | None:
        with self._data.lock:
            new, self._seen = self._data.changes[self._seen :], len(self._data.changes)
        if not new:
            return None
        return StoreChange(
            tools=frozenset[str]().union(*(it.tools for it in new)),
            namespaces=frozenset[str]().union(*(it.namespaces for it in new)),
        )


class MemoryValues:
    """The values of one namespace."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self._store = store
        self._name = name

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` if it does not exist."""
        check_key("key", key)
        with self._store.locked() as data:
            found = data.namespace(self._name).get(key)
            return found and _stored(found)

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON text, or ``None`` if it does not exist."""
        check_key("key", key)
        with self._store.locked() as data:
            found = data.namespace(self._name).get(key)
            return found and found[0]

    def items(self) -> Mapping[str, StoredValue]:
        """Return all values, in the order of their keys."""
        with self._store.locked() as data:
            return {key: _stored(it) for key, it in sorted(data.namespace(self._name).items())}

    def keys(self) -> list[str]:
        """Return the keys in order."""
        with self._store.locked() as data:
            return sorted(data.namespace(self._name))

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Save a value and return its revision."""
        text = encode_named_value(key, value)
        with self._store.locked() as data:
            found = data.namespace(self._name).get(key)
            self._store.compare(key, found and found[1], expected)
            return data.put(self._name, {key: text})

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Save many values, all or none."""
        texts = {key: encode_named_value(key, value) for key, value in values.items()}
        with self._store.locked() as data:
            data.put(self._name, texts)

    def delete(self, keys: Iterable[str]) -> int:
        """Delete values, and return how many existed."""
        wanted = {check_key("key", key) for key in keys}
        with self._store.locked() as data:
            values = data.namespace(self._name)
            data.changes.append(StoreChange(namespaces=frozenset({self._name})))
            return sum(values.pop(key, None) is not None for key in wanted)


def _entry(tool: object) -> tuple[str, tuple[Tool, Mapping[str, Any] | None]]:
    """Return the name of a tool, a copy of it, and its extras if it has any."""
    name, body, extras = row_of(tool)
    copy = read_row(body, 0, extras)
    return name, (copy.tool, None if extras is None else copy.extras)


def _stored(kept: tuple[bytes, int]) -> StoredValue:
    return StoredValue(value=msgspec.json.decode(kept[0]), revision=kept[1])


def _uses(usage: Mapping[str, Usage], name: str) -> int:
    return usage[name].use_frequency if name in usage else 0
