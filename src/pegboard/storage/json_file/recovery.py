"""What can be kept of a damaged JSON store."""

import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from pegboard.errors import StorageError, StoreDamagedError, StoreVersionError
from pegboard.storage.encoding import KNOWN_FIELDS
from pegboard.storage.json_file.atomic_write import replace_file, set_aside, sync_folder
from pegboard.storage.json_file.changes import Change, Header, Put, Saved, read_frames, read_header
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.entries import EntryError, Raws, read_entry, read_usage
from pegboard.storage.json_file.faults import unavailable
from pegboard.storage.json_file.file_lock import LockedFile
from pegboard.storage.json_file.format import offset_said, read_state, read_tools
from pegboard.storage.json_file.journal import NOTHING
from pegboard.storage.json_file.paths import JsonPaths, paths_of
from pegboard.storage.json_file.pieces import VERSION, state_text, tools_pieces
from pegboard.storage.json_file.places import (
    BrokenJsonError,
    Member,
    items,
    members,
    place_of,
    walk,
    walk_on,
    walk_out,
)
from pegboard.storage.store import Recovered

__all__ = ["recover"]

# Not a tool called `version` or `tools`, which version 0 may have.
_VERSIONED = re.compile(
    r'\s*\{\s*(?:"version"\s*:\s*(?:([0-9]{1,9})\b|[^{\s])|'
    rf'"tools"\s*:\s*\{{\s*(?!"(?:{"|".join(KNOWN_FIELDS)})"\s*:\s*[^{{\s]))'
)
_STATE = ".state"

Lose = Callable[[int, str], None]
"""Says what is lost at an offset."""


def recover(path: Path) -> Recovered:
    """Set a damaged file aside, and write a new one with all that can be read of it.

    What the journal says is added. A store that is not damaged is left as it is.

    Raises:
        StorageError: when there is none.
        StoreVersionError: when it was written by a newer Pegboard.
        StoreUnavailableError: when the folder cannot be written to.
    """
    if path.stem.endswith(_STATE):
        path = path.with_name(f"{path.stem.removesuffix(_STATE)}{path.suffix}")
    paths = paths_of(path)
    if not any(it.exists() for it in paths):
        raise StorageError(f"{path} does not exist, so nothing was changed.", url=str(path))
    journal = LockedFile(paths.journal)
    try:
        with journal.locked(alone=True):
            try:
                return _Recovery(paths).run()
            finally:
                # It may have been made only to be locked. Windows removes no file that is open.
                if not paths.journal.stat().st_size:
                    with suppress(PermissionError):
                        paths.journal.unlink()
    except OSError as error:
        raise unavailable(error, str(paths.tools)) from error
    finally:
        journal.forget()


class _Recovery:
    """One attempt, by whoever holds the lock."""

    def __init__(self, paths: JsonPaths) -> None:
        self.paths = paths
        self.content = JsonContent()
        self.tenant: str | None = None
        self.lost: list[str] = []
        self.damaged: list[Path] = []

    def run(self) -> Recovered:
        self.read(self.paths.tools, read_tools, self.salvage_tools)
        self.read(self.paths.state, read_state, self.salvage_state)
        for change in self.changes():
            if self.content.fits(change) or self.is_gone(change):
                self.content.apply(change)
        saved_as = self.set_aside()
        if self.damaged:
            self.write()
        return Recovered(kept=tuple(self.content.tools), lost=tuple(self.lost), saved_as=saved_as)

    def read(
        self,
        path: Path,
        whole: Callable[[JsonContent, bytes, Path], None],
        parts: Callable[[str, Lose], None],
    ) -> None:
        if not path.exists():
            return
        data = path.read_bytes()
        try:
            whole(JsonContent(), data, path)
        except StoreDamagedError:
            self.damaged.append(path)
            # What is not UTF-8 becomes what cannot be written again, and so is noticed.
            text = data.decode("utf-8-sig", errors="surrogateescape")
            parts(text, lambda offset, problem: self.lose(path, text, offset, problem))
        else:
            whole(self.content, data, path)
            self.tenant = self.tenant or self.content.tenant

    def salvage_tools(self, text: str, lose: Lose) -> None:
        content = self.content
        for member in self.entries(text, lose):
            try:
                name = member.key or _name_in(member.value)
                entry = read_entry(name, _compact(text, member))
            except ValueError as error:
                problem = error.problem if isinstance(error, EntryError) else f"{error}."
                which = f"The entry {member.key!r}" if member.key else "This entry"
                lose(_place_in(text, member, error), f"{which} is not that of a tool: {problem}")
                continue
            if name in content.tools:
                lose(member.start, f"{name!r} is here a second time; this one is kept.")
            content.extras.pop(name, None)
            content.uses.pop(name, None)
            content.add(name, entry)

    def entries(self, text: str, lose: Lose) -> Iterator[Member]:
        start = len(text) - len(text.lstrip())
        versioned = _versioned(text, start)
        if versioned is not None and int(versioned[1] or 0) > VERSION:
            raise StoreVersionError(
                url=str(self.paths.tools), found=int(versioned[1]), known=VERSION
            )
        indent = "    " if versioned else "  "
        last = start
        try:
            if not text[start:]:
                lose(0, "The file is empty.")
                return
            if text[start] == "[":
                yield from items(text, start)
                return
            for path, member in walk(text, start, 1, into=("tools",) if versioned else ()):
                if not versioned or len(path) == 2:
                    indent = text[text.rfind("\n", 0, member.start) + 1 : member.start]
                    last = member.end
                    yield member
                elif path == ("tools",):
                    yield from items(text, member.value_start)
                else:
                    self.keep_field(self.content.tools_around, text, member, lose)
        except BrokenJsonError as error:
            end = yield from _after(text, error, lose, last, indent)
            if versioned and end is not None:
                self.keep_fields_behind(text, end, lose)

    def keep_fields_behind(self, text: str, end: int, lose: Lose) -> None:
        """Keep the fields behind the tools, the last of which ends at an offset."""
        try:
            for _, member in walk_out(text, end):
                self.keep_field(self.content.tools_around, text, member, lose)
        except BrokenJsonError as error:
            lose(error.offset, error.problem)

    def keep_field(self, around: Raws, text: str, member: Member, lose: Lose) -> None:
        """Keep what stands at the top of a file, whosever it is."""
        key = member.key
        try:
            raw = _readable((key,), text, member)
            if key == "tenant":
                self.tenant = self.tenant or msgspec.json.decode(raw, type=str | None)
        except ValueError as error:
            lose(member.start, f"{key!r} cannot be read: {error}.")
            return
        if key in around:
            lose(member.start, f"{key!r} is here a second time; this one is kept.")
        around[key] = msgspec.Raw(raw)

    def salvage_state(self, text: str, lose: Lose) -> None:
        counted: dict[str, Raws] = {}
        try:
            start = len(text) - len(text.lstrip())
            for path, member in walk(text, start, 2, into=("usage", "values")):
                if len(path) == 1 and path[0] not in ("usage", "values"):
                    self.keep_field(self.content.state_around, text, member, lose)
                    continue
                try:
                    value = _readable(path, text, member)
                except ValueError as error:
                    lose(member.start, f"{'/'.join(path)!r} cannot be read: {error}.")
                    continue
                match path:
                    case ("values", room, key):
                        self.content.values.setdefault(room, {})[key] = value
                    case ("usage", name, field):
                        counted.setdefault(name, {})[field] = msgspec.Raw(value)
                    case _:
                        lose(member.start, f"{'/'.join(path)!r} is not of the right shape.")
        except BrokenJsonError as error:
            lose(error.offset, error.problem)
        self.take_usage(counted, lose)

    def take_usage(self, counted: dict[str, Raws], lose: Lose) -> None:
        for name, fields in counted.items():
            try:
                usage = read_usage(fields)
            except ValueError as error:
                lose(0, f"The usage of {name!r} cannot be read: {error}.")
            else:
                if usage is not None:
                    self.content.uses.setdefault(name, usage)

    def changes(self) -> Iterator[Change]:
        path = self.paths.journal
        lines = path.read_bytes().rstrip(NOTHING).splitlines(keepends=True)
        for number, line in enumerate(lines):
            try:
                [frame] = read_frames(line, 0)
            except msgspec.MsgspecError:
                frame = None
                header = read_header(line)[0] if number == 0 else None
                if header is not None:
                    self.tenant = self.tenant or header.tenant
                    self.note_loss(header)
                    continue
            if frame is not None:
                yield from frame.changes
            elif number < len(lines) - 1:
                # The last one was perhaps never finished, and then nobody was told it is kept.
                self.damaged.append(path)
                self.lost.append(f"{path}:{number + 1}: This line is not what was written.")

    def note_loss(self, header: Header) -> None:
        if header.files[0] is not None and not self.paths.tools.exists():
            self.damaged.append(self.paths.journal)
            self.lost.append(f"{self.paths.tools}: It is gone; only what came after it is kept.")

    def is_gone(self, change: Change) -> bool:
        # What the file had before is perhaps what was lost; the change is the newer one anyway.
        match change:
            case Saved():
                return change.name not in self.content.tools
            case Put():
                return change.key not in self.content.values.get(change.namespace, {})
            case _:
                return False

    def set_aside(self) -> Path | None:
        saved_as = None
        for path in reversed(list(dict.fromkeys(self.damaged))):
            # A copy: until the new file is there, nobody must find none.
            saved_as = set_aside(path, path.read_bytes())
        return saved_as

    def write(self) -> None:
        self.content.tenant = self.tenant
        replace_file(self.paths.tools, tools_pieces(self.content))
        state = state_text(self.content)
        if state is None:
            self.paths.state.unlink(missing_ok=True)
        else:
            replace_file(self.paths.state, [state])
        sync_folder(self.paths.folder)
        os.truncate(self.paths.journal, 0)

    def lose(self, path: Path, text: str, offset: int, problem: str) -> None:
        place = place_of(text, offset)
        self.lost.append(f"{path}:{place.line}:{place.column}: {problem}")


def _versioned(text: str, start: int) -> re.Match[str] | None:
    """Return what says that a file has more than entries, and the number of its version."""
    found = _VERSIONED.match(text)
    if found is None:
        with suppress(BrokenJsonError):
            for member in members(text, start):
                # It need not come first.
                if member.key == "version":
                    return _VERSIONED.match("{" + text[member.start : member.end])
    return found


def _after(
    text: str, error: BrokenJsonError, lose: Lose, last: int, indent: str
) -> Generator[Member, None, int | None]:
    """Go on behind what is broken, with the next line that looks like the start of an entry.

    Returns where the last one ends, if all behind it can be read.
    """
    if indent.strip():
        lose(error.offset, error.problem)
        return None
    start = re.compile(rf'^{re.escape(indent)}(?="((?:[^"\\\n]|\\.)*)"\s*:\s*\{{)', re.MULTILINE)
    while True:
        inside = [it[1] for it in start.finditer(text, last, error.offset)]
        lose(error.offset, f"In {inside[-1]!r}: {error.problem}" if inside else error.problem)
        following = start.search(text, max(text.rfind("\n", 0, error.offset) + 1, last))
        if following is None:
            return None
        last = following.end()
        try:
            for _, member in walk_on(text, last):
                last = member.end
                yield member
        except BrokenJsonError as another:
            error = another
        else:
            return last


def _place_in(text: str, member: Member, error: ValueError) -> int:
    """Where in an entry its mistake is, as one who only reads the file is told."""
    if isinstance(error, EntryError):
        fields = members(text, member.value_start) if error.field is not None else ()
        return max((it.start for it in fields if it.key == error.field), default=member.start)
    value = text[member.value_start : member.end].encode(errors="surrogateescape")
    return member.value_start + offset_said(error, value)


def _readable(path: tuple[str, ...], text: str, member: Member) -> bytes:
    """Return the value of a member.

    Raises:
        ValueError: when it, or a key that leads to it, cannot be written again.
    """
    "".join(path).encode()
    return _compact(text, member)


def _compact(text: str, member: Member) -> bytes:
    return msgspec.json.format(text[member.value_start : member.end].encode(), indent=-1)


def _name_in(value: object) -> str:
    name = cast("dict[str, object]", value).get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        raise EntryError("It has no name.")
    return name
