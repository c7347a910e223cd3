"""Catalog: the table of registered tools, its entries, and its subscribers and change buffers."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from typing import Never, Protocol, TypeVar, cast
from weakref import WeakSet

from pegboard.errors import (
    InvalidArgumentsError,
    InvalidToolError,
    PegboardError,
    ToolDisabledError,
    Violation,
)
from pegboard.model import ArgumentSchema, CatalogChange, Step, Tool, ToolCall
from pegboard.model.fork_guard import GuardedLock
from pegboard.policies import PolicyOptions, Target, Telemetry, needs_loop, wrap_step
from pegboard.registry.candidate import Candidate, stored_candidate
from pegboard.registry.groups import ToolGroups

__all__ = [
    "Catalog",
    "CatalogStore",
    "ChangeBuffer",
    "Entry",
    "Subscriber",
    "TakenNames",
    "printable_name",
    "refusal",
    "without_one",
]

logger: logging.Logger = logging.getLogger("pegboard.registry")

_NO_TOOL = Target(Tool(name="unknown"), ArgumentSchema({}, tool="unknown"))

T = TypeVar("T")

Subscriber = Callable[[CatalogChange], object]
"""Receives each change after it has taken effect; what it raises is logged."""


class Entry:
    """A tool on the board, with its policies and groups.

    Most tools are never called, so it stays small: its step is made on the first call.
    """

    __slots__ = (
        "_candidate",
        "_policies",
        "groups",
        "inline",
        "made",
        "may_wait",
        "permitted",
        "schema",
        "tool",
    )

    def __init__(
        self, tool: Tool, candidate: Candidate, policies: PolicyOptions, groups: tuple[str, ...]
    ) -> None:
        self.tool: Tool = tool
        self.groups: tuple[str, ...] = groups
        self.may_wait: bool = needs_loop(policies)
        """True when a policy can make a call wait, or start the tool more or less than once."""
        self.inline: bool = not candidate.implementation.asynchronous and not self.may_wait
        """True when a blocking caller can run the tool in its own thread, without an event loop."""
        access = policies.get("access")
        self.permitted: bool = access is None or access.permits(tool)
        """False when an access list hides the tool."""
        self._candidate = candidate
        self._policies = policies
        self.made: Step | None = None
        """The tool with its policies around it, once `step` has made it."""
        self.schema: ArgumentSchema | None = None
        """What its calls are checked with; ``None`` before `step`, and if nothing is checked."""

    @property
    def is_definition(self) -> bool:
        """True when the tool has no implementation."""
        return self._candidate.is_definition

    def problem(self, arguments: object, *, off: Collection[str]) -> PegboardError | None:
        """Return the error that refuses a call at once; ``off`` are the disabled groups."""
        if not self.permitted:
            # Its steps refuse the call, before the caller could learn anything else of the tool.
            return None
        name = self.tool.name
        if off:
            groups = [it for it in self.groups if it in off]
            if groups:
                return ToolDisabledError(name, groups=groups)
        if not isinstance(arguments, dict):
            kind = type(arguments).__name__
            words = f"the arguments must be an object (a dict), not {kind!r}"
            return InvalidArgumentsError(name, [Violation("", words)])
        return None

    def step(self) -> Step:
        """Return the tool with its policies around it."""
        if self.made is None:
            candidate = self._candidate
            target = Target(self.tool, candidate.arguments())
            if self._policies.get("validation") is not None and not target.schema.trivial:
                self.schema = target.schema
            self.made = wrap_step(candidate.implementation.step, target, self._policies)
        return self.made

    def of(self, tool: Tool) -> "Entry":
        """Return an entry of another definition, with the policies and groups of this entry."""
        return Entry(tool, stored_candidate(tool), self._policies, self.groups)

    @property
    def telemetry(self) -> Telemetry | None:
        """The telemetry of its calls."""
        return self._policies.get("telemetry")


class ChangeBuffer:
    """Collects changes for a reader that takes them later, such as the search index.

    Every tool that is visible at the beginning counts as new.
    """

    def __init__(
        self,
        lock: GuardedLock,
        revision: int,
        visible: Iterable[Tool],
        documents: Mapping[str, Tool],
    ) -> None:
        # The lock of the catalogue: with a second one, a finalizer that unregisters could deadlock.
        self._lock = lock
        self.revision: int = revision
        """Grows with every change."""
        self._changes: dict[str, Tool | None] = {
            **documents,
            **{tool.name: tool for tool in visible},
        }

    def note(self, change: CatalogChange) -> None:
        """Note a change. Hold the lock of the catalogue."""
        for tool in change.removed:
            self._changes[tool.name] = None
        for tool in (*change.added, *change.changed):
            self._changes[tool.name] = tool
        self.revision += 1

    def note_documents(self, changes: Mapping[str, Tool | None]) -> None:
        """Note changed documents. Hold the lock of the catalogue."""
        self._changes.update(changes)
        self.revision += 1

    def take(self) -> tuple[int, dict[str, Tool | None]]:
        """Return the revision, and each added or changed tool by name; ``None`` if it is gone."""
        with self._lock:
            changes, self._changes = self._changes, {}
            return self.revision, changes


class CatalogStore(Protocol):
    """Stores the definitions of a catalogue; see `PersistentTools`."""

    def needs_store(self, entries: Mapping[str, Entry], leaving: Iterable[str]) -> bool:
        """Tell whether a change also changes the store."""
        ...

    def save(self, entries: Mapping[str, Entry], leaving: Iterable[str], *, override: bool) -> bool:
        """Store a change; False when the change has to be settled anew."""
        ...

    def uncovered(self, entries: Mapping[str, Entry], leaving: Iterable[str]) -> dict[str, Entry]:
        """Return the stored definitions that become visible again when these tools leave."""
        ...


class Catalog:
    """The tools of a registry by name.

    Readers never lock: they look into a dict that changes in single atomic operations.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.groups: ToolGroups = ToolGroups()
        self.documents: Mapping[str, Tool] = {}
        """What searches may find beside the tools; see `show_documents`."""
        self.reserved: frozenset[str] = frozenset()
        """Names of tools that are being stored, and will be on the board afterwards."""
        self.store: CatalogStore | None = None
        self._revision = 0
        self._subscribers: tuple[Subscriber, ...] = ()
        self._buffers: WeakSet[ChangeBuffer] = WeakSet()
        self._undelivered: deque[CatalogChange] = deque()
        # Re-entrant, because the garbage collector may run a finalizer that unregisters something.
        self.lock: GuardedLock = GuardedLock("registry")
        """Held for a moment by each thread that changes the table."""
        self.writing: GuardedLock = GuardedLock("registry")
        """Held, perhaps for long, by a thread that writes to the store; taken before `lock`."""
        self._delivering = threading.Lock()

    def visible(self) -> list[Tool]:
        """Return the visible tools, in the order of registration."""
        groups = self.groups
        # A list first: the table may change while it is being looked through.
        entries = list(self.entries.values())
        if not groups.off:
            return [it.tool for it in entries if it.permitted]
        return [it.tool for it in entries if self.shows(it)]

    def shows(self, entry: Entry) -> bool:
        """Tell whether an entry is visible: permitted, and in no group that is off."""
        return entry.permitted and not self.groups.hides(entry.groups)

    def awaited(self, name: str) -> Entry | None:
        """Return the entry of a name; wait for it if another thread is just storing one."""
        entry = self.entries.get(name)
        if entry is None:
            with self.writing:
                entry = self.entries.get(name)
        return entry

    def change(
        self,
        settle: Callable[[], tuple[Mapping[str, Entry], T]],
        *,
        leaving: Iterable[str],
        stored: bool,
        override: bool,
    ) -> T:
        """Settle a change, store what is to be stored, show it, and tell the subscribers.

        Only a change of what is stored waits for the store, and for other threads that write to it.

        Args:
            settle: returns the new entries, judged by what is on the board now, and what to return.
                It is called again when another process has changed the store first.
            leaving: the names of the tools to remove.
            stored: True when the change certainly changes the store.
            override: whether it may replace what another process has stored.
        """
        while True:
            with self.writing if stored else nullcontext():
                with self.lock:
                    entries, result = settle()
                    store = self.store
                    if store is None or not store.needs_store(entries, leaving):
                        self._show(entries, leaving)
                        break
                    if stored:
                        self.reserved |= entries.keys()
                if stored and self._save_and_show(store, entries, leaving, override):
                    break
                stored = True
        self.deliver()
        return result

    def _save_and_show(
        self,
        store: CatalogStore,
        entries: Mapping[str, Entry],
        leaving: Iterable[str],
        override: bool,  # noqa: FBT001 - passed on
    ) -> bool:
        saved = False
        try:
            saved = store.save(entries, leaving, override=override)
        finally:
            with self.lock:
                self.reserved -= entries.keys()
                if saved:
                    self._show(entries, leaving)
        return saved

    def _show(self, entries: Mapping[str, Entry], leaving: Iterable[str]) -> None:
        if self.store is not None:
            entries = {**entries, **self.store.uncovered(entries, leaving)}
        self.put(entries, without=leaving)

    def put(self, entries: Mapping[str, Entry], *, without: Iterable[str] = ()) -> None:
        """Add, replace and remove entries in one step. Hold the lock, then `deliver` without it."""
        gone = [name for name in without if name not in entries]
        before = [old for it in (*entries, *gone) if (old := self.entries.get(it)) is not None]
        for name in gone:
            self.entries.pop(name, None)
        self.entries.update(entries)
        self._announce(before, self.groups.off, entries.values(), self.groups.off)

    def switch(self, group: str, *, on: bool) -> None:
        """Show or hide the tools of a group. Hold the lock, then `deliver` without it."""
        before = self.groups.switch(group, on=on)
        concerned = [entry for entry in self.entries.values() if group in entry.groups]
        self._announce(concerned, before, concerned, self.groups.off)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell a subscriber about every later change; call the result to stop that."""
        if not callable(subscriber):
            raise TypeError(
                f"A subscriber is a callable that takes a CatalogChange, not {subscriber!r}."
            )
        with self.lock:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self.lock:
                self._subscribers = without_one(self._subscribers, subscriber)

        return unsubscribe

    def follow(self) -> ChangeBuffer:
        """Return a buffer of all visible tools that collects every change while it lives."""
        with self.lock:
            buffer = ChangeBuffer(self.lock, self._revision, self.visible(), self.documents)
            self._buffers.add(buffer)
        return buffer

    def show_documents(self, documents: Mapping[str, Tool]) -> None:
        """Let searches find these documents, instead of those of before, but nothing else.

        They have the form of tools, and names that no tool has.
        """
        with self.lock:
            before = self.documents
            changes: dict[str, Tool | None] = dict.fromkeys(before.keys() - documents.keys())
            changes |= {name: it for name, it in documents.items() if before.get(name) is not it}
            changes = {name: it for name, it in changes.items() if name not in self.entries}
            self.documents = dict(documents)
            for buffer in list(self._buffers) if changes else ():
                buffer.note_documents(changes)

    def deliver(self) -> None:
        """Tell the subscribers what changed. Do not hold the lock: a subscriber may do anything."""
        # One thread at a time delivers the changes of all threads, in order. A change that a
        # subscriber makes is delivered after the change it is being told about.
        while self._undelivered and self._delivering.acquire(blocking=False):
            try:
                while self._undelivered:
                    change = self._undelivered.popleft()
                    for subscriber in self._subscribers:
                        _tell(subscriber, change)
            finally:
                self._delivering.release()

    def _announce(
        self,
        old: Iterable[Entry],
        off_before: frozenset[str],
        new: Iterable[Entry],
        off_after: frozenset[str],
    ) -> None:
        before = {it.tool.name: it.tool for it in old if _shown(it, off_before)}
        after = {it.tool.name: it.tool for it in new if _shown(it, off_after)}
        change = CatalogChange(
            revision=self._revision + 1,
            added=tuple(tool for name, tool in after.items() if name not in before),
            changed=tuple(
                tool for name, tool in after.items() if name in before and tool is not before[name]
            ),
            removed=tuple(tool for name, tool in before.items() if name not in after),
        )
        if change.added or change.changed or change.removed:
            self._revision = change.revision
            self._undelivered.append(change)
            for buffer in list(self._buffers):
                buffer.note(change)


class TakenNames:
    """The names that no other tool can have now."""

    def __init__(self, catalog: Catalog, leaving: frozenset[str]) -> None:
        self._catalog = catalog
        self._leaving = leaving

    def __contains__(self, name: str) -> bool:
        catalog = self._catalog
        if name in catalog.reserved:
            return True
        return name in catalog.entries and name not in self._leaving


def refusal(error: PegboardError, telemetry: Telemetry | None) -> Step:
    """Return a step that raises an error, observed like every other call."""

    async def refuse(_: ToolCall) -> Never:
        raise error

    if telemetry is None:
        return refuse
    return telemetry.wrap(refuse, _NO_TOOL)


def printable_name(name: object) -> str:
    """Return a name that can be recorded, whatever name the caller gave."""
    try:
        return Tool(name=cast("str", name)).name
    except InvalidToolError:
        return "(not a valid name)"


def without_one(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    """Return the items without the first that is the given one."""
    for index, other in enumerate(items):
        if other is item:
            return (*items[:index], *items[index + 1 :])
    return items


def _shown(entry: Entry, groups_off: frozenset[str]) -> bool:
    return entry.permitted and groups_off.isdisjoint(entry.groups)


def _tell(subscriber: Subscriber, change: CatalogChange) -> None:
    try:
        subscriber(change)
    except Exception:
        logger.exception("subscriber_failed", extra={"revision": change.revision})
