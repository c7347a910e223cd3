"""What changed in a JSON store since somebody last asked."""

from collections.abc import Sequence

from pegboard.storage.json_file.changes import Change, Forgotten, Put, Removed, Saved
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.store import StoreChange

__all__ = ["News"]


class News:
    """Names of tools and rooms, collected for as long as somebody wants to know."""

    def __init__(self) -> None:
        self.wanted = False
        self._tools: set[str] = set()
        self._namespaces: set[str] = set()
        self._missed = False

    def note(self, changes: Sequence[Change]) -> None:
        """Take what changes say."""
        if not self.wanted:
            return
        for change in changes:
            match change:
                case Saved() | Removed():
                    self._tools.add(change.name)
                case Put() | Forgotten():
                    self._namespaces.add(change.namespace)
                case _:
                    pass

    def compare(self, old: JsonContent, new: JsonContent) -> None:
        """Take what is not the same in both."""
        if not self.wanted:
            return
        for news, before, after in (
            (self._tools, old.tools, new.tools),
            (self._namespaces, old.values, new.values),
        ):
            names = before.keys() | after.keys()
            news.update(name for name in names if before.get(name) != after.get(name))

    def miss(self) -> None:
        """From here on nobody knows what changed: everything may have."""
        self._missed = self.wanted

    def take(self) -> StoreChange | None:
        """Return what changed since this was last asked, ``None`` for nothing."""
        tools, namespaces, missed = self._tools, self._namespaces, self._missed
        self._tools, self._namespaces, self._missed = set(), set(), False
        if not tools and not namespaces and not missed:
            return None
        return StoreChange(
            tools=frozenset(tools), namespaces=frozenset(namespaces), everything=missed
        )
