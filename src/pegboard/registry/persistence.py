"""Persistence: store the definitions and usage of a registry, and follow changes of the store."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pegboard.errors import RevisionConflictError, StorageError
from pegboard.model import Temperature, Tool
from pegboard.registry.candidate import Candidate
from pegboard.registry.catalog import Catalog, Entry
from pegboard.registry.usage_counter import UsageCounter
from pegboard.storage import ANY, Store, StoreChange, StoredTool, open_store
from pegboard.storage.encoding import encode_tool

__all__ = ["Persistence", "PersistentTools"]

PRELOADED = 100
"""So many hot tools are decoded before the first caller asks for them."""


class PersistentTools:
    """Keeps a catalogue and a store equal: a change is stored first, and shown only then.

    Only definitions are stored. Functions and tools of servers come with the process; a stored
    definition of the same name is hidden behind them.

    Args:
        store: the store.
        catalog: the catalogue.
        entry_of: makes an entry of a stored definition.
    """

    def __init__(self, store: Store, catalog: Catalog, entry_of: Callable[[Tool], Entry]) -> None:
        self._store = store
        self._catalog = catalog
        self._entry_of = entry_of
        self._revisions: dict[str, int] = {}
        """The revision of each stored definition, by name."""
        self._hidden: dict[str, Tool] = {}
        """Stored definitions that are hidden behind another tool of their name."""
        self._stop: Callable[[], None] = lambda: None

    def open(self) -> None:
        """Show what is stored, store what is shown, and follow the store from now on.

        Raises:
            StorageError: when the store cannot be read or written.
        """
        # Watched before it is read: a change in between is announced, and read again.
        self._watch()
        try:
            with self._catalog.writing:
                self._adopt()
                self.refresh()
            self._read_hot_ones()
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Stop following the store, and take its definitions off the board."""
        self._stop()
        with self._catalog.writing, self._catalog.lock:
            shown = self._catalog.entries
            kept = [name for name in self._revisions if name in shown and shown[name].is_definition]
            self._catalog.put({}, without=kept)

    def needs_store(self, entries: Mapping[str, Entry], leaving: Iterable[str]) -> bool:
        """Tell whether a change of the board also changes the store."""
        return any(it.is_definition for it in entries.values()) or bool(self._stored(leaving))

    def save(self, entries: Mapping[str, Entry], leaving: Iterable[str], *, override: bool) -> bool:
        """Store what is about to change on the board. Hold the lock of the writers.

        It returns False when another process changed the store first; the board shows that now.

        Raises:
            StorageError: when it cannot be stored; then the board must stay as it is.
        """
        tools = [entry.tool for entry in entries.values() if entry.is_definition]
        # A stored definition may have been hidden behind what leaves now.
        hidden = [it.name for it in tools if it.name in self._hidden and it.name in leaving]
        replaced = [*self._stored(leaving), *hidden]
        new = [it for it in tools if it.name not in replaced]
        revisions: dict[str, int] = {}
        gone = [name for name in replaced if name not in entries]
        try:
            if new:
                revisions |= self._store.save_many(new, expected=ANY if override else None)
            if len(new) < len(tools):
                again = [it for it in tools if it.name in replaced]
                revisions |= self._store.save_many(again)
            for name in gone:
                self._store.delete(name, expected=self._revisions[name])
        except StorageError as error:
            # A part of it may be stored; the board shows that part.
            with suppress(StorageError):
                self.refresh(frozenset(replaced).union(it.name for it in tools))
            if isinstance(error, RevisionConflictError):
                return False
            raise
        # Only now: what is known must differ from what is there until the board shows it.
        self._revisions |= revisions
        for name in gone:
            del self._revisions[name]
        return True

    def uncovered(self, entries: Mapping[str, Entry], leaving: Iterable[str]) -> dict[str, Entry]:
        """Return the definitions that appear again when these leave. Hold the catalogue's lock."""
        for name, entry in entries.items():
            if entry.is_definition:
                self._hidden.pop(name, None)
            elif self._stored([name]):
                self._hidden[name] = self._catalog.entries[name].tool
        names = [name for name in leaving if name in self._hidden and name not in entries]
        return {name: self._entry_of(self._hidden.pop(name)) for name in names}

    def refresh(self, names: frozenset[str] | None = None) -> None:
        """Show these tools, or all, as they are in the store now. Hold the lock of the writers."""
        if names is None:
            found = {it.tool.name: it for it in self._store.load_all()}
            names = frozenset(self._revisions).union(found)
        else:
            found = self._store.load(names)
        with self._catalog.lock:
            shown = self._catalog.entries
            entries = dict(self._changed_entries(found))
            gone = [name for name in names if name in self._revisions and name not in found]
            for name in gone:
                del self._revisions[name]
                self._hidden.pop(name, None)
            leaving = [name for name in gone if name in shown and shown[name].is_definition]
            if entries or leaving:
                self._catalog.put(entries, without=leaving)

    def _changed_entries(self, found: Mapping[str, StoredTool]) -> Iterable[tuple[str, Entry]]:
        for name, it in found.items():
            there = self._catalog.entries.get(name)
            if there is not None and not there.is_definition:
                self._revisions[name] = it.revision
                self._hidden[name] = it.tool
            elif there is None or self._revisions.get(name) != it.revision:
                self._revisions[name] = it.revision
                # Its groups and policies belong to this program.
                same = there is not None and there.tool == it.tool
                if there is None or not same:
                    yield name, there.of(it.tool) if there else self._entry_of(it.tool)

    def _stored(self, names: Iterable[str]) -> list[str]:
        shown = self._catalog.entries
        return [
            name
            for name in names
            if name in self._revisions and name in shown and shown[name].is_definition
        ]

    def _adopt(self) -> None:
        """Store the definitions that were on the board before; what is stored already stays."""
        there = {name: it for name, it in self._catalog.entries.items() if it.is_definition}
        while there:
            for name in self._store.load(there):
                del there[name]
            with suppress(RevisionConflictError):
                if there:
                    self._store.save_many([it.tool for it in there.values()], expected=None)
                return

    def _read_hot_ones(self) -> None:
        usage = self._store.usage()
        # The most used come first.
        for name, entry in list(self._catalog.entries.items())[:PRELOADED]:
            if name in usage and usage[name].temperature() is Temperature.HOT:
                _ = entry.tool.input_schema

    def _watch(self) -> None:
        reference = weakref.WeakMethod(self._catch_up)

        def tell(change: StoreChange) -> None:
            catch_up = reference()
            if catch_up is not None:
                catch_up(change)

        self._stop = self._store.watch(tell)

    def _catch_up(self, change: StoreChange) -> None:
        with self._catalog.writing:
            if change.everything:
                self.refresh()
            elif change.tools:
                self.refresh(change.tools)
        self._catalog.deliver()


class Persistence:
    """The stored tools of a registry, and the counter of their usage."""

    def __init__(
        self, storage: str | Path | Store, catalog: Catalog, entry_of: Callable[[Tool], Entry]
    ) -> None:
        owned = isinstance(storage, str | Path)
        if not owned and not isinstance(getattr(storage, "tenant", None), str):
            raise TypeError(
                "`storage` is a URL, a path, or a store that is open, not "
                f"{type(storage).__name__!r}."
            )
        self.store: Store = open_store(storage) if owned else storage
        self.tools: PersistentTools = PersistentTools(self.store, catalog, entry_of)
        self.counter: UsageCounter = UsageCounter(self.store)
        # Also for a registry that is never closed: when it is collected, or the program ends.
        self._let_go = weakref.finalize(self, _let_go, self.counter, self.store if owned else None)
        catalog.store = self.tools
        try:
            self.tools.open()
        except BaseException:
            catalog.store = None
            self._let_go()
            raise
        self._catalog = catalog
        self.stop_counting: Callable[[], object] = lambda: None
        """Stops counting."""

    def check(self, candidate: Candidate) -> None:
        """Check that a definition can be stored.

        Raises:
            InvalidToolError: when it cannot.
        """
        if candidate.is_definition:
            encode_tool(candidate.tool)

    def close(self) -> None:
        """Write the remaining usage, and close the store if it was opened here."""
        self.stop_counting()
        self.tools.close()
        self._catalog.store = None
        self._let_go()


def _let_go(counter: UsageCounter, owned: Store | None) -> None:
    counter.close()
    if owned is not None:
        owned.close()
