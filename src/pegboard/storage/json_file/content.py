"""In-memory content of a JSON store, how a change alters it, and the feed of what changed."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pegboard.storage.json_file.journal import Change, Counted, Forgotten, Put, Removed, Saved
from pegboard.storage.store import StoreChange

__all__ = ["ChangeFeed", "JsonContent", "revision_of"]

if TYPE_CHECKING:
    from pegboard.model import Tool, Usage


class JsonContent:
    """Tools, usage and values as compact JSON texts, in the order of the file."""

    def __init__(self) -> None:
        self.tenant: str | None = None
        """Whose it is, according to the files; ``None`` is the default tenant."""
        self.tools: dict[str, bytes] = {}
        """Entries without their usage."""
        self.decoded: dict[str, Tool] = {}
        """Tools without unknown fields, decoded with the file, until a reader takes them."""
        self.uses: dict[str, Usage] = {}
        self.values: dict[str, dict[str, bytes]] = {}
        self.tools_around: dict[str, Any] = {}
        """The fields at the top of the file with the tools; ``tools`` only for its position."""
        self.state_around: dict[str, Any] = {}
        self.tools_version = 1
        """Of the file as it is now."""
        self.tools_changed: bool = False
        """Whether the file with the tools has to be written."""
        self.state_changed: bool = False

    def revision(self, name: str) -> int | None:
        """Return the revision of a tool, ``None`` when there is none."""
        text = self.tools.get(name)
        return None if text is None else revision_of(text)

    def value_revision(self, namespace: str, key: str) -> int | None:
        """Return the revision of a value, ``None`` when there is none."""
        text = self.values.get(namespace, {}).get(key)
        return None if text is None else revision_of(text)

    def apply(self, change: Change) -> None:
        """Do what a change says, whatever was there before."""
        match change:
            case Saved():
                self._save(change.name, bytes(change.text))
            case Removed():
                self.tools.pop(change.name, None)
                self.decoded.pop(change.name, None)
                self.tools_changed = True
                self.state_changed |= change.name in self.uses
            case Counted():
                if change.after is None:
                    self.uses.pop(change.name, None)
                else:
                    self.uses[change.name] = change.after
                self.tools_changed |= change.name in self.tools
                # The file with the state may have another count of the same tool.
                self.state_changed = True
            case Put():
                room = self.values.setdefault(change.namespace, {})
                text = bytes(change.text)
                self.state_changed |= room.get(change.key) != text
                room[change.key] = text
            case Forgotten():
                room = self.values.get(change.namespace, {})
                room.pop(change.key, None)
                if not room:
                    self.values.pop(change.namespace, None)
                self.state_changed = True

    def found(self, change: Change) -> "int | Usage | None":
        """Return what is there where a change had found its ``before``."""
        match change:
            case Saved() | Removed():
                return self.revision(change.name)
            case Counted():
                return self.uses.get(change.name)
            case Put() | Forgotten():
                return self.value_revision(change.namespace, change.key)

    def merge(self, changes: Iterable[Change]) -> None:
        """Apply changes where they find what they found when they were made.

        The changes of one thing follow each other, so a file that holds some or all of them is
        brought to the end of the row, and a thing that a person has edited is left as it is.
        """
        order = tuple(self.tools)
        for change in changes:
            if self.found(change) == change.before:
                self.apply(change)
        # A tool that was removed and came back keeps its position, or a row of changes that the
        # file holds already would still shuffle it.
        self.tools = {name: self.tools[name] for name in order if name in self.tools} | self.tools

    def _save(self, name: str, text: bytes) -> None:
        before = self.tools.get(name)
        if before == text:
            return
        self.tools[name] = text
        self.decoded.pop(name, None)
        self.tools_changed = True
        # The usage of a new tool moves from the state into its entry.
        self.state_changed |= before is None and name in self.uses


class ChangeFeed:
    """Names of tools and namespaces that changed, collected while a watcher wants to know."""

    def __init__(self) -> None:
        self.wanted = False
        self._tools: set[str] = set()
        self._namespaces: set[str] = set()

    def note(self, changes: Iterable[Change]) -> None:
        """Take what changes say."""
        for change in changes if self.wanted else ():
            match change:
                case Saved() | Removed():
                    self._tools.add(change.name)
                case Put() | Forgotten():
                    self._namespaces.add(change.namespace)
                case Counted():
                    pass

    def compare(self, old: JsonContent, new: JsonContent) -> None:
        """Take what is not the same in both."""
        if self.wanted:
            self._tools |= _differences(old.tools, new.tools)
            self._namespaces |= _differences(old.values, new.values)

    def take(self) -> StoreChange | None:
        """Return what changed since this was last asked, ``None`` for nothing."""
        tools, self._tools = self._tools, set()
        namespaces, self._namespaces = self._namespaces, set()
        if not tools and not namespaces:
            return None
        return StoreChange(tools=frozenset(tools), namespaces=frozenset(namespaces))


def revision_of(text: bytes) -> int:
    """Return a number that is another for every text, the same in every process."""
    return int.from_bytes(blake2b(text, digest_size=8).digest()) >> 1


def _differences(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    names = before.keys() | after.keys()
    return {name for name in names if before.get(name) != after.get(name)}
