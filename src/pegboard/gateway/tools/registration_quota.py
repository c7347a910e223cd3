"""RegisteredTools: how many definitions each key of a tenant registered, and when it is enough."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import anyio
import msgspec

from pegboard.errors import LimitReachedError
from pegboard.model import CatalogChange, Tool
from pegboard.policies.fair_share import FairShare, LimitUse
from pegboard.registry import Registry
from pegboard.storage import KeyValues

__all__ = ["RegisteredTools"]

NAMESPACE = "registered_tools"
"""Where the store says who registered each definition."""


class RegisteredTools:
    """Counts the definitions of one tenant, in number and in bytes, by the keys that own them.

    What is stored already is counted, and never removed: only new definitions are refused. It
    follows the store, so that it also counts what other processes register, about a second later.
    All its methods but `use` block, and one thread at a time may use them: hold `turn`.

    Args:
        registry: has the definitions.
        most: how many definitions the tenant may have.
        most_bytes: how many bytes they may have as JSON.
    """

    def __init__(self, registry: Registry, *, most: int, most_bytes: int) -> None:
        self.turn: anyio.Lock = anyio.Lock()
        """Held while a definition is added or removed: it keeps all but one thread for others."""
        self._registry = registry
        self._count = FairShare("registered tools", most, setting="gateway.registered_tools")
        self._bytes = FairShare("registered bytes", most_bytes, setting="gateway.registered_bytes")
        self._held: dict[str, tuple[str, int]] = {}
        """Owner and size of each definition, by name."""
        self._lock = threading.Lock()
        self._changed: set[str] | None = None
        """Tools that changed since they were counted; ``None`` before they are counted."""
        self.close: Callable[[], None] = lambda: None

    def use(self) -> list[LimitUse]:
        """Return how much is used up; nothing before the first registration."""
        return [] if self._changed is None else [self._count.use(), self._bytes.use()]

    def add(self, tool: Tool, owner: str, register: Callable[[], None]) -> None:
        """Register a definition of a key, and note whose it is.

        Raises:
            LimitReachedError: when the tenant or the key has too many, or too large ones.
        """
        self._catch_up()
        name, size = tool.name, len(msgspec.json.encode(tool))
        if name in self._held:
            # Refused, or stored behind a tool that the caller may not see.
            register()
            return
        for share, amount in ((self._count, 1), (self._bytes, size)):
            if not share.admits((owner,), amount):
                raise _too_much(share, tool=name)
        owners = self._owners()
        is_running = self._registry.runs(name)
        if owners is not None:
            # First: a record without a definition counts nothing, but not the other way round.
            owners.put(name, {"by": owner, "bytes": size})
        try:
            register()
        except BaseException:
            if owners is not None:
                owners.delete([name])
            raise
        self._hold(name, owner, size)
        if is_running:
            # It is stored behind that tool, so that no change tells of it.
            self._follow([name])

    def remove(self, name: str, unregister: Callable[[], object]) -> object:
        """Remove a definition, and forget whose it was; return what ``unregister`` returns."""
        result = unregister()
        owners = self._owners() if result else None
        if owners is not None:
            owners.delete([name])
        if self._changed is not None:
            self._follow([name])
        return result

    def _catch_up(self) -> None:
        """Count what changed since the last time; everything at first."""
        if self._changed is None:
            self._changed = set()
            self.close = self._registry.subscribe(self._take_in)
            owners = self._owners()
            records: dict[str, object] = {}
            if owners is not None:
                records = {name: it.value for name, it in owners.items().items()}
            for name in {*records, *self._registry}:
                self._recount(name, records.get(name))
            return
        with self._lock:
            names, self._changed = self._changed, set()
        owners = self._owners()
        for name in names:
            found = None if owners is None else owners.get(name)
            self._recount(name, None if found is None else found.value)

    def _recount(self, name: str, record: object) -> None:
        # Without a store, there is no record.
        before, _ = self._held.get(name, ("", 0))
        self._let_go(name)
        tool = self._registry.get_many([name]).get(name)
        if tool is None:
            return
        owner, size = _in_record(record)
        owner = owner or before
        if self._registry.runs(name):
            # A definition may be stored behind a tool that runs; only its record tells.
            if size:
                self._hold(name, owner, size)
        else:
            self._hold(name, owner, len(msgspec.json.encode(tool)))

    def _hold(self, name: str, owner: str, size: int) -> None:
        self._let_go(name)
        self._held[name] = owner, size
        self._count.add((owner,))
        self._bytes.add((owner,), size)

    def _let_go(self, name: str) -> None:
        held = self._held.pop(name, None)
        if held is not None:
            owner, size = held
            self._count.remove((owner,))
            self._bytes.remove((owner,), size)

    def _take_in(self, change: CatalogChange) -> None:
        tools = (*change.added, *change.changed, *change.removed)
        self._follow(tool.name for tool in tools)

    def _follow(self, names: Iterable[str]) -> None:
        with self._lock:
            if self._changed is not None:
                self._changed.update(names)

    def _owners(self) -> KeyValues | None:
        storage = self._registry.storage
        return None if storage is None else storage.namespace(NAMESPACE)


def _in_record(record: object) -> tuple[str, int]:
    if not isinstance(record, Mapping):
        return "", 0
    said = cast("Mapping[str, Any]", record)
    owner, size = said.get("by"), said.get("bytes")
    return owner if isinstance(owner, str) else "", size if isinstance(size, int) else 0


def _too_much(share: FairShare, *, tool: str) -> LimitReachedError:
    setting = share.setting
    words = (
        f"{tool!r} is not registered: this tenant has {share.used} of {share.limit} {share.name} "
        f"(`{setting}`), and one key may have two thirds of them. Unregister some first."
    )
    return LimitReachedError(words, setting=setting, tool=tool)
