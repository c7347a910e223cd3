"""What a JSON store holds, in memory, and what its changes make of it."""

from collections.abc import Iterable
from hashlib import blake2b

from pegboard.model import Tool, Usage
from pegboard.storage.json_file.changes import Change, Counted, Forgotten, Put, Removed, Saved
from pegboard.storage.json_file.entries import Entry, Raws, extras_of

__all__ = ["JsonContent", "revision_of"]


class JsonContent:
    """Tools, usage and values as compact JSON texts, in the order of the file."""

    def __init__(self) -> None:
        self.tenant: str | None = None
        """Whose it is, according to the files; ``None`` is the default tenant."""
        self.tools: dict[str, bytes] = {}
        """Entries without their usage."""
        self.extras: dict[str, bytes] = {}
        """The unknown fields of the entries that have any, as an object, as far as looked for."""
        self.uses: dict[str, Usage] = {}
        self.values: dict[str, dict[str, bytes]] = {}
        self.state_uses: set[str] = set()
        """Whose usage the file with the state says; it need not be what counts."""
        self.tools_around: Raws = {}
        """What stands at the top of the file with the tools; ``tools`` only for its place."""
        self.state_around: Raws = {}
        self.tools_version = 1
        """Of the file as it is now."""
        self.tools_changed: bool = False
        """Whether it differs from the file."""
        self.state_changed: bool = False
        self.decoded: dict[str, Tool] = {}
        """Definitions that were read with the file, until somebody takes them."""
        self._revisions: dict[str, int] = {}
        self._unread: set[str] = set()
        """Whose text has not been searched for unknown fields yet."""

    def add(self, name: str, entry: Entry) -> None:
        """Take an entry from the file."""
        self.tools[name] = entry.text
        self.decoded[name] = entry.tool
        if entry.extras is not None:
            self.extras[name] = entry.extras
        if entry.usage is not None:
            self.uses[name] = entry.usage

    def snapshot(self) -> "JsonContent":
        """Return what is there now; it stays so when this changes."""
        copy = JsonContent()
        copy.tenant = self.tenant
        copy.tools = self.tools.copy()
        copy.uses = self.uses.copy()
        copy.values = {name: room.copy() for name, room in self.values.items()}
        copy.tools_around = self.tools_around
        copy.state_around = self.state_around
        return copy

    def revision(self, name: str) -> int | None:
        """Return the revision of a tool, ``None`` when there is none."""
        found = self._revisions.get(name)
        if found is None:
            text = self.tools.get(name)
            if text is None:
                return None
            found = self._revisions[name] = revision_of(text)
        return found

    def extras_of(self, name: str) -> bytes | None:
        """Return the unknown fields of a tool as an object, ``None`` when there are none."""
        if name in self._unread:
            self._unread.remove(name)
            found = extras_of(self.tools[name])
            if found is not None:
                self.extras[name] = found
        return self.extras.get(name)

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
                self._remove(change.name)
            case Counted():
                self._count(change.name, change.after)
            case Put():
                room = self.values.setdefault(change.namespace, {})
                text = bytes(change.text)
                self.state_changed = self.state_changed or room.get(change.key) != text
                room[change.key] = text
            case Forgotten():
                room = self.values.get(change.namespace, {})
                room.pop(change.key, None)
                if not room:
                    self.values.pop(change.namespace, None)
                self.state_changed = True

    def fits(self, change: Change) -> bool:
        """Tell whether what is there is what a change found when it was made."""
        match change:
            case Saved() | Removed():
                found = self.revision(change.name)
            case Counted():
                found = self.uses.get(change.name)
            case Put() | Forgotten():
                found = self.value_revision(change.namespace, change.key)
        return found == change.before

    def merge(self, changes: Iterable[Change]) -> None:
        """Do what changes say where they find what they found when they were made.

        The changes of one thing follow each other, so a file that holds some or all of them is
        brought to the end of the row, and a thing that somebody else changed is left to them.
        """
        order = tuple(self.tools)
        for change in changes:
            if self.fits(change):
                self.apply(change)
        # What was removed and came back has its place, or a row of changes that the file holds
        # already would still shuffle it.
        self.tools = {name: self.tools[name] for name in order if name in self.tools} | self.tools

    def _save(self, name: str, text: bytes) -> None:
        before = self.tools.get(name)
        if before == text:
            return
        if before is None:
            if name in self.uses:
                self.state_changed = True
        else:
            self._forget(name)
        self.tools_changed = True
        self.tools[name] = text
        self._unread.add(name)

    def _remove(self, name: str) -> None:
        if self.tools.pop(name, None) is not None:
            self._forget(name)
        self.tools_changed = True
        if name in self.uses or name in self.state_uses:
            self.state_changed = True

    def _forget(self, name: str) -> None:
        """Forget what was found out about a text that is not there any more."""
        self.decoded.pop(name, None)
        self.extras.pop(name, None)
        self._revisions.pop(name, None)
        self._unread.discard(name)

    def _count(self, name: str, usage: Usage | None) -> None:
        if usage is None:
            self.uses.pop(name, None)
        else:
            self.uses[name] = usage
        if name in self.tools:
            self.tools_changed = True
        if name not in self.tools or name in self.state_uses:
            self.state_changed = True


def revision_of(text: bytes) -> int:
    """Return a number that is another for every text, the same in every process."""
    return int.from_bytes(blake2b(text, digest_size=8).digest()) >> 1
