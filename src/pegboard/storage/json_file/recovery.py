"""Recovery of a damaged JSON store: keep every entry that can still be read, report the rest."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from pegboard.errors import InvalidToolError, StorageError, StoreDamagedError, StoreVersionError
from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import KNOWN_FIELDS
from pegboard.storage.file_lock import LockedFile
from pegboard.storage.json_file import format as file_format
from pegboard.storage.json_file import journal, positions
from pegboard.storage.json_file.compaction import replace_files
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.format import FileReader, Raws, ShapeError
from pegboard.storage.json_file.paths import JsonPaths, paths_of, set_aside, unavailable
from pegboard.storage.json_file.positions import BrokenJsonError, MemberSpan, walk
from pegboard.storage.store import Recovered

__all__ = ["recover"]

# Not a tool called `version` or `tools`, which version 0 may have.
_VERSIONED = re.compile(
    r'\s*\{\s*(?:"version"\s*:\s*(?:([0-9]{1,9})\b|[^{\s])|'
    rf'"tools"\s*:\s*\{{\s*(?!"(?:{"|".join(KNOWN_FIELDS)})"\s*:\s*[^{{\s]))'
)
_STATE = ".state"


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
    lock = LockedFile(paths.journal)
    try:
        with lock.locked(alone=True):
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
        lock.close()


class _Recovery:
    """One attempt, by the holder of the lock."""

    def __init__(self, paths: JsonPaths) -> None:
        self.paths = paths
        self.content = JsonContent()
        self.tenant: str | None = None
        self.lost: list[str] = []
        self.damaged: dict[Path, None] = {}
        self.path = paths.tools
        """The damaged file that is being read."""
        self.text = ""

    def run(self) -> Recovered:
        self.read(self.paths.tools, file_format.read_tools, self.salvage_tools)
        self.read(self.paths.state, file_format.read_state, self.salvage_state)
        for change in self.changes():
            found = self.content.found(change)
            # What the file had before is perhaps lost; the change is the newer one anyway.
            is_lost = found is None and isinstance(change, journal.Saved | journal.Put)
            if is_lost or found == change.before:
                self.content.apply(change)
        saved_as = None
        for path in reversed(self.damaged):
            # A copy: until the new file is there, no process must find none.
            saved_as = set_aside(path, path.read_bytes())
        if self.damaged:
            self.content.tenant = self.tenant
            self.content.tools_version = file_format.VERSION
            self.content.tools_changed = self.content.state_changed = True
            replace_files(self.paths, self.content, self.paths.signatures())
            os.truncate(self.paths.journal, 0)
        return Recovered(kept=tuple(self.content.tools), lost=tuple(self.lost), saved_as=saved_as)

    def read(self, path: Path, whole: FileReader, parts: Callable[[], None]) -> None:
        if not path.exists():
            return
        try:
            whole(JsonContent(), path)
        except StoreDamagedError:
            self.path = path
            self.damaged[path] = None
            # What is not UTF-8 becomes what cannot be written again, and so is noticed.
            self.text = path.read_text("utf-8-sig", errors="surrogateescape")
            parts()
        else:
            whole(self.content, path)
            self.tenant = self.tenant or self.content.tenant

    def salvage_tools(self) -> None:
        content = self.content
        # RegistryTools writes files without a version, with local times.
        local = _versioned(self.text, positions.start_of(self.text)) is None
        for member in self.entries():
            try:
                name = member.key or _name_in(member.value)
                text, _, usage = file_format.read_entry(name, self.compact(member), local=local)
            except ValueError as error:
                problem = error.problem if isinstance(error, ShapeError) else f"{error}."
                which = f"The entry {member.key!r}" if member.key else "This entry"
                self.lose(
                    self.offset_in(member, error), f"{which} is not that of a tool: {problem}"
                )
                continue
            if name in content.tools:
                self.lose(member.start, f"{name!r} is here a second time; this one is kept.")
            content.tools[name] = text
            content.uses.pop(name, None)
            if usage is not None:
                content.uses[name] = usage

    def entries(self) -> Iterator[MemberSpan]:
        text = self.text
        start = last = positions.start_of(text)
        if not text[start:]:
            self.lose(0, "The file is empty.")
            return
        versioned = _versioned(text, start)
        found, known = int(versioned[1] or 0) if versioned else 0, file_format.VERSION
        if found > known:
            raise StoreVersionError(url=str(self.path), found=found, known=known)
        depth = 1 if versioned else 0
        indent = "  " * (depth + 1)
        try:
            for path, member in walk(text, start, depth, into=("tools",)):
                if len(path) > depth:
                    indent = text[text.rfind("\n", 0, member.start) + 1 : member.start]
                    last = member.end
                    yield member
                else:
                    self.keep_field(self.content.tools_around, member)
        except BrokenJsonError as error:
            yield from self.entries_behind(error, last, indent, depth)

    def entries_behind(
        self, error: BrokenJsonError, last: int, indent: str, depth: int
    ) -> Iterator[MemberSpan]:
        """Go on behind what is broken, with the next line that looks like the start of an entry."""
        text, where = self.text, ""
        entry = re.compile(
            rf'^{re.escape(indent)}(?="((?:[^"\\\n]|\\.)*)"\s*:\s*\{{)', re.MULTILINE
        )
        while not indent.strip():
            for inside in entry.finditer(text, last, error.offset):
                where = f"In {inside[1]!r}: "
            following = entry.search(text, max(text.rfind("\n", 0, error.offset) + 1, last))
            if following is None:
                break
            self.lose(error.offset, where + error.problem)
            last, where = following.end(), ""
            try:
                for member in positions.walk_on(text, last):
                    last = member.end
                    yield member
                for member in positions.walk_behind(text, last) if depth else ():
                    self.keep_field(self.content.tools_around, member)
            except BrokenJsonError as another:
                error = another
            else:
                return
        self.lose(error.offset, where + error.problem)

    def salvage_state(self) -> None:
        counted: dict[str, Raws] = {}
        try:
            walked = walk(self.text, positions.start_of(self.text), 2, into=("usage", "values"))
            for path, member in walked:
                if len(path) == 1 and path[0] not in ("usage", "values"):
                    self.keep_field(self.content.state_around, member)
                    continue
                try:
                    value = self.compact(member, *path)
                except ValueError as error:
                    self.lose(member.start, f"{'/'.join(path)!r} cannot be read: {error}.")
                    continue
                match path:
                    case ("values", namespace, key):
                        self.content.values.setdefault(namespace, {})[key] = value
                    case ("usage", name, field):
                        counted.setdefault(name, {})[field] = msgspec.Raw(value)
                    case _:
                        self.lose(member.start, f"{'/'.join(path)!r} is not of the right shape.")
        except BrokenJsonError as error:
            self.lose(error.offset, error.problem)
        self.keep_usage(counted)

    def keep_usage(self, counted: dict[str, Raws]) -> None:
        for name, fields in counted.items():
            try:
                usage = file_format.read_usage(fields)
            except ValueError as error:
                self.lose(0, f"The usage of {name!r} cannot be read: {error}.")
            else:
                if usage is not None:
                    self.content.uses.setdefault(name, usage)

    def keep_field(self, around: Raws, member: MemberSpan) -> None:
        """Keep a field at the top of a file."""
        key = member.key
        try:
            raw = self.compact(member, key)
            if key == "tenant":
                self.tenant = self.tenant or msgspec.json.decode(raw, type=str | None)
        except ValueError as error:
            self.lose(member.start, f"{key!r} cannot be read: {error}.")
            return
        if key in around:
            self.lose(member.start, f"{key!r} is here a second time; this one is kept.")
        around[key] = msgspec.Raw(raw)

    def changes(self) -> Iterator[journal.Change]:
        path, tools = self.paths.journal, self.paths.tools
        lines = path.read_bytes().rstrip(b"\0").splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            header = changes = None
            try:
                [(changes, _)] = journal.read_frames(line, 0)
            except msgspec.MsgspecError:
                header = journal.read_header(line)[0] if number == 1 else None
            if changes is not None:
                yield from changes
            elif header is not None:
                self.tenant = self.tenant or header.tenant
                if header.files[0] is not None and not tools.exists():
                    self.damaged[path] = None
                    self.lost.append(f"{tools}: It is gone; only what came after it is kept.")
            elif number < len(lines) or (number == 1 and not journal.is_torn_header(line)):
                # The last one was perhaps never finished, and so never acknowledged.
                self.damaged[path] = None
                self.lost.append(f"{path}:{number}: This line is not what was written.")

    def lose(self, offset: int, problem: str) -> None:
        line, column = positions.position_of(self.text, offset)
        self.lost.append(f"{self.path}:{line}:{column}: {problem}")

    def compact(self, member: MemberSpan, *path: str) -> bytes:
        # Each key that leads there, too, must be such that it can be written again.
        "".join(path).encode()
        value = self.text[member.value_start : member.end]
        return msgspec.json.format(value.encode(), indent=-1)

    def offset_in(self, member: MemberSpan, error: ValueError) -> int:
        """Return where in an entry its mistake is, as a reader of the file is told."""
        if isinstance(error, ShapeError):
            return positions.offset_of(self.text, error.steps, member)
        value = self.text[member.value_start : member.end].encode(errors="surrogateescape")
        return member.value_start + file_format.offset_said(error, value)


def _versioned(text: str, start: int) -> re.Match[str] | None:
    """Return what says that a file has more than entries, and the number of its version."""
    found = _VERSIONED.match(text)
    if found is None:
        with suppress(BrokenJsonError):
            for _, member in walk(text, start):
                # It need not come first.
                if member.key == "version":
                    return _VERSIONED.match("{" + text[member.start : member.end])
    return found


def _name_in(value: Any) -> str:
    try:
        return check_name(value["name"])
    except (LookupError, TypeError, InvalidToolError):
        raise ShapeError("It has no name.") from None
