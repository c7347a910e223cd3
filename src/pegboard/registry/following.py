"""Following: what changed on a board since somebody last looked, however often it did."""

import threading
from collections.abc import Iterable

from pegboard.model import CatalogChange, Tool

__all__ = ["Following"]


class Following:
    """Takes note of changes at next to no cost, for somebody who looks when it suits them.

    Everything that is visible at the beginning counts as new.
    """

    def __init__(self, lock: threading.RLock, revision: int, visible: Iterable[Tool]) -> None:
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

    def after_fork(self, lock: threading.RLock) -> None:
        """Use the new lock of the catalogue."""
        self._lock = lock

    def take(self) -> tuple[int, dict[str, Tool | None]]:
        """Return the revision, and each tool that is new or different; ``None`` if it went."""
        with self._lock:
            news, self._news = self._news, {}
            return self.revision, news
