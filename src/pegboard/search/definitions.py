"""Definitions: a catalogue of tools that are only searched, and need not be callable."""

import threading
from collections.abc import Iterable, Mapping

from pegboard.model import Tool

__all__ = ["Definitions"]


class Definitions:
    """Tools by name, as a `SearchEngine` follows them; their schemas may be of any kind."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._lock = threading.Lock()
        self._news: dict[str, Tool | None] = {}
        self.revision: int = 0
        """That of the last change."""
        self.add(tools)

    def add(self, tools: Iterable[Tool]) -> None:
        """Put tools on the board, in place of those that have their names."""
        self._note({tool.name: tool for tool in tools})

    def remove(self, names: Iterable[str]) -> None:
        """Take tools off the board."""
        self._note(dict.fromkeys(names))

    def take(self) -> tuple[int, Mapping[str, Tool | None]]:
        """Return the revision, and what came or went since the last time."""
        with self._lock:
            news, self._news = self._news, {}
            return self.revision, news

    def _note(self, news: Mapping[str, Tool | None]) -> None:
        with self._lock:
            self._news.update(news)
            self.revision += 1
