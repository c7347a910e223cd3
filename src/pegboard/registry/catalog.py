"""The table of tools: who is on the board, and who wants to know when that changes."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Protocol, TypeVar
from weakref import WeakSet

from pegboard.model import CatalogChange, Tool
from pegboard.model.fork_guard import GuardedLock
from pegboard.registry.entry import Entry

__all__ = ["Catalog", "ChangeBuffer", "Keeper", "Subscriber", "Taken", "without_one"]


class ChangeBuffer:
    """Takes note of changes at next to no cost, for somebody who looks when it suits them.

    Everything that is visible at the beginning counts as new.
    """

    def __init__(self, lock: GuardedLock, revision: int, visible: Iterable[Tool]) -> None:
        # The catalogue's own: with a second one, a finalizer that unregisters could lock up.
        self._lock = lock
        self.revision: int = revision
        """That of the last change."""
        self._news: dict[str, Tool | None] = {tool.name: tool for tool in visible}

    def note(self, change: CatalogChange) -> None:
        """Note a change. Hold the lock of the catalogue."""
        for tool in change.removed:
            self._news[tool.name] = None
        for tool in (*change.added, *change.changed):
            self._news[tool.name] = tool
        self.revision = change.revision

    def take(self) -> tuple[int, dict[str, Tool | None]]:
        """Return the revision, and each tool that is new or different; ``None`` if it went."""
        with self._lock:
            news, self._news = self._news, {}
            return self.revision, news


T = TypeVar("T")

logger: logging.Logger = logging.getLogger("pegboard.registry")


class Keeper(Protocol):
    """Stores the definitions of a catalogue; see `PersistentTools`."""

    def needs_store(self, entries: Mapping[str, Entry], leaving: Iterable[str]) -> bool:
        """Tell whether a change is one of the store, too."""
        ...

    def keep(self, entries: Mapping[str, Entry], leaving: Iterable[str], *, override: bool) -> bool:
        """Store a change; False when it has to be settled anew."""
        ...

    def uncovered(self, entries: Mapping[str, Entry], leaving: Iterable[str]) -> dict[str, Entry]:
        """Return what comes to light again when these go."""
        ...


Subscriber = Callable[[CatalogChange], object]
"""Receives each change after it has taken effect; what it raises is logged and goes no further."""


class Catalog:
    """Readers never lock: they look into a dict that changes in single atomic operations."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.groups_off: frozenset[str] = frozenset()
        self.reserved: frozenset[str] = frozenset()
        """Names of tools that are being stored, and will be on the board when they are."""
        self.keeper: Keeper | None = None
        self._revision = 0
        self._subscribers: tuple[Subscriber, ...] = ()
        self._following: WeakSet[ChangeBuffer] = WeakSet()
        self._undelivered: deque[CatalogChange] = deque()
        # Re-entrant, because the garbage collector may run a finalizer that unregisters something.
        self.lock: GuardedLock = GuardedLock("registry")
        """Held for a moment by each thread that changes the table."""
        self.writing: GuardedLock = GuardedLock("registry")
        """Held, perhaps for long, by a thread that writes to the store; never with the other."""
        self._delivering = threading.Lock()

    def visible(self) -> list[Tool]:
        """Return the tools that may be seen, in the order of registration."""
        off = self.groups_off
        # A list first: the table may change while it is being looked through.
        entries = list(self.entries.values())
        return [
            it.tool for it in entries if it.permitted and (not off or off.isdisjoint(it.groups))
        ]

    def awaited(self, name: str) -> Entry | None:
        """Return the entry of a name; wait for it if somebody is just storing one."""
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
        """Settle what changes, have the store keep what it is to keep, show it, and tell of it.

        Only what is stored waits for the store, and for others who write to it.

        Args:
            settle: says what is to be on the board, by what is there now, and what to answer;
                called again when somebody else was faster.
            leaving: what goes.
            stored: True when some of it is certainly stored.
            override: whether it may replace what another process has stored.
        """
        while True:
            with self.writing if stored else nullcontext():
                with self.lock:
                    entries, answer = settle()
                    keeper = self.keeper
                    if keeper is None or not keeper.needs_store(entries, leaving):
                        self._show(entries, leaving)
                        break
                    if stored:
                        self.reserved |= entries.keys()
                if stored and self._keep_and_show(keeper, entries, leaving, override):
                    break
                stored = True
        self.deliver()
        return answer

    def _keep_and_show(
        self,
        keeper: Keeper,
        entries: Mapping[str, Entry],
        leaving: Iterable[str],
        override: bool,  # noqa: FBT001 - passed on
    ) -> bool:
        kept = False
        try:
            kept = keeper.keep(entries, leaving, override=override)
        finally:
            with self.lock:
                self.reserved -= entries.keys()
                if kept:
                    self._show(entries, leaving)
        return kept

    def _show(self, entries: Mapping[str, Entry], leaving: Iterable[str]) -> None:
        if self.keeper is not None:
            entries = {**entries, **self.keeper.uncovered(entries, leaving)}
        self.put(entries, without=leaving)

    def put(self, entries: Mapping[str, Entry], *, without: Iterable[str] = ()) -> None:
        """Add, replace and remove entries in one step. Hold the lock, then `deliver` without it."""
        gone = [name for name in without if name not in entries]
        before = [old for it in (*entries, *gone) if (old := self.entries.get(it)) is not None]
        for name in gone:
            self.entries.pop(name, None)
        self.entries.update(entries)
        self._announce(before, self.groups_off, entries.values(), self.groups_off)

    def switch(self, group: str, *, on: bool) -> None:
        """Show or hide the tools of a group. Hold the lock, then `deliver` without it."""
        before = self.groups_off
        self.groups_off = before - {group} if on else before | {group}
        concerned = [entry for entry in self.entries.values() if group in entry.groups]
        self._announce(concerned, before, concerned, self.groups_off)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell a subscriber about every later change; call what is returned to stop that."""
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
        """Return what takes note of all that is visible now and of every change; while it lives."""
        with self.lock:
            following = ChangeBuffer(self.lock, self._revision, self.visible())
            self._following.add(following)
        return following

    def deliver(self) -> None:
        """Tell the subscribers what changed. Never with the lock held: they may do anything."""
        # One thread at a time delivers, everybody's changes and in order. A subscriber may itself
        # change the catalogue: that is delivered after the change it is being told about.
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
            for following in list(self._following):
                following.note(change)


class Taken:
    """The names that nobody else can have now."""

    def __init__(self, catalog: Catalog, leaving: frozenset[str]) -> None:
        self._catalog = catalog
        self._leaving = leaving

    def __contains__(self, name: str) -> bool:
        catalog = self._catalog
        if name in catalog.reserved:
            return True
        return name in catalog.entries and name not in self._leaving


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
