"""Keeping: everything a registry does with its storage, from opening to closing it."""

import weakref
from collections.abc import Callable
from pathlib import Path

from pegboard.model import Tool
from pegboard.registry.candidate import Candidate
from pegboard.registry.catalog import Catalog
from pegboard.registry.entry import Entry
from pegboard.registry.kept import KeptTools
from pegboard.registry.usage_counter import UsageCounter
from pegboard.storage import Store, open_store
from pegboard.storage.encoding import encode_tool

__all__ = ["Keeping"]


class Keeping:
    """The tools that a store keeps, and the counting of their use."""

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
        self.tools: KeptTools = KeptTools(self.store, catalog, entry_of)
        self.counter: UsageCounter = UsageCounter(self.store)
        # Also for registries that nobody closes: when they are forgotten, or the program ends.
        self._let_go = weakref.finalize(self, _let_go, self.counter, self.store if owned else None)
        catalog.keeper = self.tools
        try:
            self.tools.open()
        except BaseException:
            catalog.keeper = None
            self._let_go()
            raise
        self._catalog = catalog
        self.stop_counting: Callable[[], object] = lambda: None
        """To be called when nothing more is to be counted."""

    def check(self, candidate: Candidate) -> None:
        """See that a definition can be stored.

        Raises:
            InvalidToolError: when it cannot.
        """
        if candidate.is_definition:
            encode_tool(candidate.tool)

    def close(self) -> None:
        """Write down what is left, and let go of what was opened here."""
        self.stop_counting()
        self.tools.close()
        self._catalog.keeper = None
        self._let_go()


def _let_go(counter: UsageCounter, owned: Store | None) -> None:
    counter.close()
    if owned is not None:
        owned.close()
