"""The files of a JSON store on the disk, and how far memory has followed them."""

import logging
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from pegboard.errors import StorageError, StoreUnavailableError, StoreVersionError
from pegboard.storage.json_file.atomic_write import NewFile, set_aside, signature, sync_folder
from pegboard.storage.json_file.changes import (
    JOURNAL_VERSION,
    Change,
    Forgotten,
    Header,
    Position,
    Put,
    Removed,
    Saved,
    Signature,
    Signatures,
    encode_frame,
    encode_header,
    new_header,
    read_header,
)
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.file_lock import write_all
from pegboard.storage.json_file.fold import Fold
from pegboard.storage.json_file.format import check_tenant, damaged, load_content
from pegboard.storage.json_file.journal import read_at, read_journal, restarted
from pegboard.storage.json_file.paths import JsonPaths
from pegboard.storage.json_file.pieces import VERSION
from pegboard.storage.store import StoreChange

__all__ = ["FileGoneError", "JsonDisk"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

SMALL = 1_000_000
"""Bytes that a journal may always have."""

# The start of a header, its generation included: enough to know one journal from another.
_MARK = 57


class FileGoneError(StoreUnavailableError):
    """The file with the tools was there, and is not any more."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is gone. Put it back, or begin anew with what its journal says: "
            f"`python -m pegboard.storage recover {shlex.quote(path)}`.",
            url=path,
        )


# What was written and the size of the file, without its times; not every system has it.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class JsonDisk:
    """What the files hold, as far as they have been read. Whoever calls has locked the journal.

    A journal continues the files that its header names. When they are others, somebody edited them
    by hand, or died between replacing them and emptying the journal; both are dealt with alike.
    """

    def __init__(self, paths: JsonPaths, tenant: str | None) -> None:
        self.paths = paths
        self._tenant = tenant
        self._tools_path = str(paths.tools)
        self._state_path = str(paths.state)
        self._journal_path = str(paths.journal)
        self.content: JsonContent | None = None
        """``None`` when it has to be read anew."""
        self.watched = False
        self._news: tuple[set[str], set[str]] = (set(), set())
        self._missed = False
        self._mark = b""
        self._generation = ""
        self._offset = 0
        self._records = 0
        """Where the header ends."""
        self.limit: int = SMALL
        """How long a journal may be for files of this size."""
        self._files: Signatures = (None, None)
        self._journal: Signature = None
        """Of the journal when it was last read; not known when we have written to it since."""
        self._continued = True
        self._refused: Signatures | None = None

    @property
    def journal_size(self) -> int:
        """How long the journal is, its header not counted."""
        return self._offset - self._records

    def changed(self) -> bool:
        """Tell, at a glance and without a lock, whether there is something new on the disk."""
        if self.content is None or self._signatures() != self._files:
            return True
        return self._journal is None or _signature_of(self._journal_path) != self._journal

    def catch_up(self, handle: int | None, *, writing: bool) -> JsonContent:
        """Follow what others did; without a handle there is no lock, and no journal to write.

        Raises:
            StorageError: when the files cannot be used; not to readers who had read them before.
        """
        files = self._signatures()
        content = self.content
        found = None if handle is None else os.fstat(handle)
        self._journal = None if writing or found is None else signature(found)
        if content is not None and files == self._refused and not writing:
            return content
        if content is not None and files == self._files and self._is_ours(handle):
            if found is None or found.st_size > self._offset:
                added = self._read(handle, self._offset)
                self._follow(content, added, handle if writing else None)
            return content
        data = self._read(handle, 0)
        header, start = self._header(data)
        if files[0] is None and (self._files if header is None else header.files)[0] is not None:
            raise FileGoneError(self._tools_path)
        at = None if content is None else self._adopted(content, header, start, files)
        if content is not None and at is not None and at <= len(data):
            self._place(data, header, start, files)
            self._offset = at
            self._continued = True
            self._follow(content, data[at:], handle if writing else None)
            return content
        try:
            fresh = self._loaded(header, data, files)
        except StorageError:
            if content is None or writing:
                raise
            if files != self._refused:
                logger.exception("store_file_refused", extra={"path": str(self.paths.tools)})
            self._refused = files
            return content
        if writing and handle is not None:
            self._cut_off(handle, data[self._offset :])
        return fresh

    def append(self, handle: int, changes: Sequence[Change]) -> None:
        """Write changes that the content has already; they are durable on return.

        Raises:
            OSError: when that is not possible; then nothing was written, and the content is
                forgotten.
        """
        frame = encode_frame(changes)
        start = self._offset
        begin = None if start else new_header(self._files, None, self._tenant)
        line = b"" if begin is None else encode_header(begin)
        try:
            write_all(handle, line + frame)
            _sync(handle)
            if begin is not None:
                sync_folder(self.paths.folder)
        except BaseException:
            self.forget()
            with suppress(OSError):
                os.ftruncate(handle, start)
            raise
        if begin is not None:
            self._place(line, begin, len(line), self._files)
        self._offset += len(frame)
        self._journal = None
        self._note(changes)

    def ready(self, handle: int) -> bool:
        """See that the journal continues the files as they are, so that it can be written to."""
        if not self._continued:
            self.fold(handle)
        return self._continued

    def fold(self, handle: int) -> None:
        """Replace the files by what is in memory, and empty the journal.

        Raises:
            OSError: when that is not possible; then the journal still says everything.
        """
        fold = self.begin_fold()
        if fold is not None:
            try:
                fold.write()
                self.finish_fold(handle, fold)
            finally:
                fold.discard()

    def begin_fold(self) -> Fold | None:
        """Return what is in memory, to be written to the files; ``None`` when that cannot be.

        It can be written while nobody has the lock.

        Raises:
            OSError: when there can be no new files.
        """
        content = self.content
        if content is None or self._signatures() != self._files:
            # Somebody is editing them: next time.
            return None
        return Fold(self.paths, content, self._position())

    def finish_fold(self, handle: int, fold: Fold) -> None:
        """Put the files in place that a fold has written, and leave in the journal what came since.

        Nothing is done when somebody else has folded or edited them meanwhile.

        Raises:
            OSError: when that is not possible; then the journal still says everything.
        """
        content, began, now = self.content, fold.began, self._position()
        if content is None or (began.generation, began.files) != (now.generation, now.files):
            return
        rest = self._read(handle, began.offset)
        if self._signatures() != self._files:
            return
        # Should this fail, or we die: a journal that continues other files is merged into them.
        fold.put_in_place(self._files)
        header = new_header(fold.signatures(self._files), began, self._tenant)
        line = encode_header(header)
        if rest:
            self._replace_journal([line, rest])
        else:
            line = restarted(handle, line)
        if fold.tools is not None:
            content.tools_version = VERSION
        content.tools_changed = content.state_changed = bool(rest)
        self._place(line, header if line else None, len(line), header.files)
        self._offset += len(rest)
        self._continued = True
        self._journal = None

    def remove_journal(self, handle: int) -> None:
        """Take the journal away unless it says something that the files do not."""
        if os.fstat(handle).st_size == self._offset and not self.journal_size:
            self.paths.journal.unlink(missing_ok=True)

    def take_news(self) -> StoreChange | None:
        """Return what changed since this was last asked, ``None`` for nothing."""
        (tools, namespaces), missed = self._news, self._missed
        self._news, self._missed = (set(), set()), False
        if not tools and not namespaces and not missed:
            return None
        return StoreChange(
            tools=frozenset(tools), namespaces=frozenset(namespaces), everything=missed
        )

    def forget(self) -> None:
        """Read everything anew when it is next wanted."""
        self.content = None
        self._missed = self.watched

    def read_anew(self, handle: int | None) -> None:
        """Read everything there is, and keep nothing of it.

        Raises:
            StorageError: when something cannot be read.
        """
        JsonDisk(self.paths, self._tenant).catch_up(handle, writing=False)

    def _replace_journal(self, lines: Sequence[bytes]) -> None:
        new = NewFile(self.paths.journal)
        try:
            new.write(lines)
            new.put_in_place()
            # It is still locked: nobody may write to it before it is sure to be found again.
            sync_folder(self.paths.folder)
        finally:
            new.discard()

    def _position(self) -> Position:
        return Position(self._generation, self._offset, self._files)

    def _is_ours(self, handle: int | None) -> bool:
        return self._read(handle, 0, _MARK) == self._mark

    def _adopted(
        self, content: JsonContent, header: Header | None, start: int, files: Signatures
    ) -> int | None:
        """Where we are in another journal, if it goes on from where we were; it is ours then."""
        same = files == self._files and not content.tools_changed and not content.state_changed
        if same and (header is None or header.files == files):
            return start
        if header is None or header.files != files or header.follows is None:
            return None
        before, ours = header.follows, self._position()
        ahead = ours.offset - before.offset
        if (before.generation, before.files) != (ours.generation, ours.files) or ahead < 0:
            return None
        if files[0] != self._files[0]:
            content.tools_version = VERSION
        content.tools_changed = content.state_changed = ahead > 0
        return start + ahead

    def _loaded(self, header: Header | None, data: bytes, files: Signatures) -> JsonContent:
        fresh = load_content(self.paths, self._tenant)
        start = read_header(data)[1]
        changes, end = read_journal(data, start, self.paths)
        continued = header is not None and header.files == files
        if continued:
            for change in changes:
                fresh.apply(change)
        else:
            fresh.merge(changes)
        self._place(data, header, start, files)
        self._continued = continued or not data
        self._offset = end
        if self.content is not None:
            self._compare(self.content, fresh)
            # They are for those who read everything, when it is opened.
            fresh.decoded.clear()
        self.content, self._refused = fresh, None
        return fresh

    def _place(self, data: bytes, header: Header | None, end: int, files: Signatures) -> None:
        self._mark = data[:_MARK]
        self._generation = "" if header is None else header.generation
        self._records = self._offset = end
        self._files = files
        self.limit = SMALL if files[0] is None else max(SMALL, files[0][2] // 2)

    def _follow(self, content: JsonContent, added: bytes, handle: int | None) -> None:
        changes, end = read_journal(added, 0, self.paths)
        for change in changes:
            content.apply(change)
        self._offset += end
        self._note(changes)
        if handle is not None:
            self._cut_off(handle, added[end:])

    def _cut_off(self, handle: int, torn: bytes) -> None:
        if not torn:
            return
        if torn.endswith(b"\n"):
            # Whoever died did not get so far: this was whole once, and perhaps acknowledged.
            kept = set_aside(self.paths.journal, torn)
            logger.error("store_journal_damaged", extra={"path": str(kept)})
        os.ftruncate(handle, self._offset)

    def _note(self, changes: Sequence[Change]) -> None:
        if not self.watched:
            return
        tools, namespaces = self._news
        for change in changes:
            match change:
                case Saved() | Removed():
                    tools.add(change.name)
                case Put() | Forgotten():
                    namespaces.add(change.namespace)
                case _:
                    pass

    def _compare(self, old: JsonContent, new: JsonContent) -> None:
        if not self.watched:
            return
        for news, before, after in (
            (self._news[0], old.tools, new.tools),
            (self._news[1], old.values, new.values),
        ):
            names = before.keys() | after.keys()
            news.update(name for name in names if before.get(name) != after.get(name))

    def _signatures(self) -> Signatures:
        return _signature_of(self._tools_path), _signature_of(self._state_path)

    def _header(self, data: bytes) -> tuple[Header | None, int]:
        try:
            header, end = read_header(data)
        except msgspec.MsgspecError:
            problem = "The journal does not begin as it should."
            raise damaged(self.paths.journal, problem, "", 0) from None
        if header is not None:
            if header.version > JOURNAL_VERSION:
                raise StoreVersionError(
                    url=self._journal_path, found=header.version, known=JOURNAL_VERSION
                )
            check_tenant(header.tenant, self._tenant, self.paths.journal)
        return header, end

    def _read(self, handle: int | None, start: int, size: int = -1) -> bytes:
        if handle is None:
            try:
                data = self.paths.journal.read_bytes()
            except FileNotFoundError:
                return b""
            return data[start:] if size < 0 else data[start : start + size]
        if size < 0:
            size = os.fstat(handle).st_size - start
        return read_at(handle, start, size) if size > 0 else b""


def _signature_of(path: str) -> Signature:
    try:
        return signature(os.stat(path))  # noqa: PTH116 - faster
    except FileNotFoundError:
        return None
