"""Memory and disk of a JSON store in step: reload edited files, follow and append the journal."""

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from pegboard.config.atomic_write import sync_folder, write_all
from pegboard.errors import StorageError, StoreVersionError
from pegboard.storage.json_file import journal as lines
from pegboard.storage.json_file.compaction import FileEditedError, replace_files
from pegboard.storage.json_file.content import ChangeFeed, JsonContent
from pegboard.storage.json_file.format import VERSION, check_tenant, load_content
from pegboard.storage.json_file.journal import Change, Header
from pegboard.storage.json_file.paths import (
    FileGoneError,
    JsonPaths,
    Signature,
    Signatures,
    set_aside,
    signature_of,
)
from pegboard.storage.json_file.positions import damaged

__all__ = ["JsonDisk"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

SMALL = 1_000_000
"""Bytes that a journal may always have."""
_UNKNOWN: Signature = (0, 0, -1)
"""Of a journal that this process wrote to last: to ask for its time makes the next sync dearer."""
ROOM = 1 << 16
"""Zeros behind the last line: to fill blocks is less work for a disk than to let a file grow."""
_NO_HEADER = "The journal does not begin as it should."
# The start of a header, its generation included: enough to know one journal from another.
_MARK = 57
# What was written, and the size of the file if that is new; not every system has it.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class JsonDisk:
    """What the files hold, as far as they have been read. The caller has locked the journal.

    A journal continues the files that its header names. When they are others, a person has edited
    them, or a process died between replacing them and emptying the journal: both are merged alike.
    """

    def __init__(self, paths: JsonPaths, tenant: str | None) -> None:
        self._paths = paths
        self._tenant = tenant
        self.content: JsonContent | None = None
        """``None`` before it is read."""
        self.feed: ChangeFeed = ChangeFeed()
        self.is_continued: bool = True
        """Whether the journal continues the files as they are, so that it can be written to."""
        self._mark = b""
        self._offset = 0
        self._records = 0
        """Where the header ends."""
        self._room = 0
        """How far there is room for lines, as far as is known."""
        self._files: Signatures = (None, None)
        self._journal: Signature = None
        """Of the journal when it was last read or written."""
        self._refused: Signatures | None = None

    @property
    def journal_size(self) -> int:
        """How long the journal is, its header not counted."""
        return self._offset - self._records

    @property
    def is_overdue(self) -> bool:
        """Whether the journal is too long for files of this size to wait for quiet."""
        tools = self._files[0]
        return self.journal_size > max(SMALL, 0 if tools is None else tools[2] // 2)

    def is_current(self, handle: int | None) -> bool:
        """Tell, without a lock, whether there is nothing new on the disk."""
        return (
            self.content is not None
            and self._paths.signatures() == self._files
            and self._is_same_journal(handle)
            # Lines fill the room without another size, and perhaps in the same tick of the clock.
            and not self._has_more(handle)
        )

    def _is_same_journal(self, handle: int | None) -> bool:
        found = signature_of(self._paths.journal)
        if self._journal != _UNKNOWN:
            return found == self._journal
        own = None if handle is None else os.fstat(handle).st_ino
        if found is None or found[0] != own or self._read(handle, 0, _MARK) != self._mark:
            return False
        self._journal = found
        return True

    def catch_up(self, handle: int | None, *, writing: bool) -> JsonContent:
        """Read what is new; without the handle of a journal there is no lock, and no writing.

        Raises:
            StorageError: when the files cannot be used; not to readers who had read them before.
        """
        files = self._paths.signatures()
        content = self.content
        # A writer learns it when it has written.
        seen = None if writing else signature_of(self._paths.journal)
        if content is not None:
            if files == self._refused and not writing:
                return content
            if files == self._files and self._read(handle, 0, _MARK) == self._mark:
                self._follow(content, handle)
                self._journal = seen
                return content
        data = self._read(handle, 0)
        header, start = self._header(data)
        if files[0] is None and (self._files if header is None else header.files)[0] is not None:
            says = str(self._paths.journal) if len(data) > start else None
            raise FileGoneError(str(self._paths.tools), journal=says)
        try:
            content = self._load(header, data, start, files)
        except StorageError as error:
            if content is None or writing:
                raise
            if files != self._refused:
                where = {"path": str(self._paths.tools)}
                logger.error("store_file_refused: %s", error, extra=where)  # noqa: TRY400 - it says all
            self._refused = files
            return content
        self._journal = seen
        return content

    def append(self, handle: int, content: JsonContent, changes: Sequence[Change]) -> None:
        """Write changes durably, and apply them to the content; after an `OSError`, neither."""
        start = self._offset
        header = b"" if start else lines.encode_header(self._files, self._tenant)
        data = header + lines.encode_frame(changes)
        end = start + len(data)
        if end > self._room:
            self._cut_off(handle)
        try:
            os.lseek(handle, start, os.SEEK_SET)
            write_all(handle, data)
            # Not for the first line: it may well be the only one.
            if end > self._room and self.journal_size:
                self._room = end + ROOM
                # A full disk may still have a place for the line.
                with suppress(OSError):
                    write_all(handle, bytes(ROOM))
            _sync(handle)
            if header:
                sync_folder(self._paths.folder)
        except BaseException:
            self._room = 0
            with suppress(OSError):
                os.ftruncate(handle, start)
            raise
        if header:
            self._begin(header, len(header), self._files)
        self._take(content, changes)
        # At last: a thread that is interrupted before this reads its own line again.
        self._offset = end
        self._journal = _UNKNOWN

    def compact(self, handle: int) -> None:
        """Replace the files by what is in memory, and empty the journal; not during an edit.

        After an `OSError` the journal still says everything.
        """
        content = self.content
        if content is None:
            return
        try:
            files = replace_files(self._paths, content, self._files)
        except FileEditedError:
            return
        self._cut_off(handle)
        # After a crash here the journal continues other files, and is merged into them.
        header = lines.encode_header(files, self._tenant)
        os.ftruncate(handle, 0)
        try:
            os.lseek(handle, 0, os.SEEK_SET)
            write_all(handle, header)
        except OSError:
            # On a full disk there is none: then the next writer begins the journal.
            os.ftruncate(handle, 0)
            header = b""
        if content.tools_changed:
            content.tools_version = VERSION
        content.tools_changed = content.state_changed = False
        self._begin(header, len(header), files)

    def remove_journal(self, handle: int) -> None:
        """Remove the journal unless it says something that the files do not."""
        if not self.journal_size and not self._read(handle, self._offset):
            os.ftruncate(handle, 0)
            self._paths.journal.unlink(missing_ok=True)

    def _load(
        self, header: Header | None, data: bytes, start: int, files: Signatures
    ) -> JsonContent:
        fresh = load_content(self._paths, self._tenant)
        changes, end = lines.read_journal(data, start, self._paths.journal)
        is_continued = header is not None and header.files == files
        if is_continued:
            for change in changes:
                fresh.apply(change)
        else:
            fresh.merge(changes)
        self._begin(data, start, files)
        self.is_continued = is_continued or not data
        self._offset = end
        if self.content is not None:
            self.feed.compare(self.content, fresh)
            # They are for the reader of everything, when the store is opened.
            fresh.decoded.clear()
        self.content, self._refused = fresh, None
        return fresh

    def _begin(self, data: bytes, start: int, files: Signatures) -> None:
        self._mark = data[:_MARK]
        self._records = self._offset = self._room = start
        self._files = files
        self.is_continued = True

    def _follow(self, content: JsonContent, handle: int | None) -> None:
        if self._has_more(handle):
            added = self._read(handle, self._offset)
            changes, end = lines.read_journal(added, 0, self._paths.journal)
            self._take(content, changes)
            self._offset += end

    def _take(self, content: JsonContent, changes: Sequence[Change]) -> None:
        for change in changes:
            content.apply(change)
        self.feed.note(changes)

    def _cut_off(self, handle: int) -> None:
        """Remove what a dead writer left behind the last line, perhaps after some zeros."""
        torn = self._read(handle, self._offset)
        if torn.endswith(b"\n"):
            # A writer that dies leaves no end: this was whole once, and perhaps acknowledged.
            kept = set_aside(self._paths.journal, torn)
            logger.error("store_journal_damaged", extra={"path": str(kept)})
        if torn:
            os.ftruncate(handle, self._offset)
        self._room = os.fstat(handle).st_size

    def _has_more(self, handle: int | None) -> bool:
        return handle is None or bool(self._read(handle, self._offset, 1))

    def _header(self, data: bytes) -> tuple[Header | None, int]:
        path = self._paths.journal
        try:
            header, end = lines.read_header(data)
        except msgspec.MsgspecError:
            raise damaged(path, _NO_HEADER, "", 0) from None
        if header is None and not lines.is_torn_header(data):
            raise damaged(path, _NO_HEADER, "", 0)
        if header is not None:
            known = lines.JOURNAL_VERSION
            if header.version > known:
                raise StoreVersionError(url=str(path), found=header.version, known=known)
            check_tenant(header.tenant, self._tenant, path)
        return header, end

    def _read(self, handle: int | None, start: int, size: int | None = None) -> bytes:
        """Return what the journal says from an offset on, or the first bytes of that."""
        if handle is not None:
            rest = os.fstat(handle).st_size - start if size is None else size
            os.lseek(handle, start, os.SEEK_SET)
            return os.read(handle, max(rest, 0)).rstrip(b"\0")
        try:
            return self._paths.journal.read_bytes()[start:][:size].rstrip(b"\0")
        except FileNotFoundError:
            return b""
