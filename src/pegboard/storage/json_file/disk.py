"""The files of a JSON store on the disk, and how far memory has followed them."""

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from pegboard.errors import StorageError, StoreVersionError
from pegboard.storage.json_file.atomic_write import NewFile, set_aside, signature, sync_folder
from pegboard.storage.json_file.changes import (
    JOURNAL_VERSION,
    Change,
    Header,
    Position,
    Signature,
    Signatures,
    encode_frame,
    encode_header,
    new_header,
    read_header,
)
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.faults import FileGoneError
from pegboard.storage.json_file.file_lock import Held
from pegboard.storage.json_file.fold import Fold
from pegboard.storage.json_file.format import check_tenant, damaged, load_content
from pegboard.storage.json_file.journal import (
    NOTHING,
    keep_room,
    read_at,
    read_journal,
    restarted,
    write_at,
)
from pegboard.storage.json_file.news import News
from pegboard.storage.json_file.paths import JsonPaths
from pegboard.storage.json_file.pieces import VERSION

__all__ = ["JsonDisk"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

SMALL = 1_000_000
"""Bytes that a journal may always have."""

# The start of a header, its generation included: enough to know one journal from another.
_MARK = 57


# What was written, and the size of the file if that is new; not every system has it.
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
        self.news: News = News()
        self._mark = b""
        self._generation = ""
        self._offset = 0
        self._records = 0
        """Where the header ends."""
        self._room = 0
        """How far there is room for lines, as far as we know."""
        self.limit: int = SMALL
        """How long a journal may be for files of this size."""
        self._files: Signatures = (None, None)
        self._journal: Signature = None
        """Of the journal when it was last read; not known when we have written to it since."""
        self._torn = False
        """Whether a dead writer left something behind the offset, perhaps after some zeros."""
        self._continued = True
        self._refused: Signatures | None = None

    @property
    def journal_size(self) -> int:
        """How long the journal is, its header not counted."""
        return self._offset - self._records

    @property
    def is_too_long(self) -> bool:
        """Whether the journal has to be folded before anybody writes to it."""
        return self._offset - self._records > 4 * self.limit

    def changed(self, handle: int | None) -> bool:
        """Tell, at a glance and without a lock, whether there is something new on the disk."""
        if self.content is None or self._signatures() != self._files:
            return True
        if handle is None or self._journal is None:
            return True
        # Lines fill its room without another size, and perhaps in the same tick of the clock.
        return self._has_more(handle) or _signature_of(self._journal_path) != self._journal

    def current(self, handle: int, *, only_tools: bool) -> JsonContent | None:
        """Return the content, for writing, if it is known to be that of the disk: at little cost.

        Whether the journal still has its name need not be known: whoever takes that away says so
        in it before. To ask would cost more than it seems, since a file system that is asked for
        the time of a file notes the time of its next change anew.

        Who writes only tools need not know whether somebody edits the file with the state.
        """
        tools, state = self._files
        if not self._offset or self._torn or not self._continued or self.is_too_long:
            return None
        # Where there is no such file yet, there is perhaps not even the folder any more.
        if tools is None or _signature_of(self._tools_path) != tools:
            return None
        if not only_tools and _signature_of(self._state_path) != state:
            return None
        if read_at(handle, 0, _MARK) != self._mark or self._has_more(handle):
            return None
        self._journal = None
        return self.content

    def catch_up(self, journal: Held | None, *, writing: bool) -> JsonContent:
        """Follow what others did; without a journal there is no lock, and none to write to.

        Raises:
            StorageError: when the files cannot be used; not to readers who had read them before.
        """
        files = self._signatures()
        content = self.content
        self._journal = None if writing or journal is None else signature(journal.found)
        if content is not None and files == self._refused and not writing:
            return content
        if content is not None and files == self._files and self._is_ours(journal):
            if journal is None or self._torn or self._has_more(journal.handle):
                added = self._read(journal, self._offset)
                self._follow(content, added, journal if writing else None)
            return content
        data = self._read(journal, 0)
        header, start = self._header(data)
        if files[0] is None and (self._files if header is None else header.files)[0] is not None:
            said = self._journal_path if len(data) > start else None
            raise FileGoneError(self._tools_path, journal=said)
        at = None if content is None else self._adopted(content, header, start, files)
        if content is not None and at is not None and at <= len(data):
            self._place(data, header, start, files)
            self._offset = at
            self._continued = True
            self._follow(content, data[at:], journal if writing else None)
            return content
        try:
            fresh = self._loaded(header, data, files)
        except StorageError as error:
            if content is None or writing:
                raise
            if files != self._refused:
                where = {"path": self._tools_path}
                logger.error("store_file_refused: %s", error, extra=where)  # noqa: TRY400 - it says all
            self._refused = files
            return content
        if writing and journal is not None:
            self._cut_off(journal, data[self._offset :])
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
        end = start + len(line) + len(frame)
        try:
            write_at(handle, start, line + frame)
            # Not for the first one: it may well be the only one.
            if end > self._room and self.journal_size:
                self._room = keep_room(handle, end)
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
        self._offset = end
        self._journal = None
        self.news.note(changes)

    def ready(self, journal: Held) -> bool:
        """See that the journal continues the files as they are, so that it can be written to."""
        if not self._continued:
            self.fold(journal)
        return self._continued

    def fold(self, journal: Held) -> None:
        """Replace the files by what is in memory, and empty the journal.

        Raises:
            OSError: when that is not possible; then the journal still says everything.
        """
        fold = self.begin_fold()
        if fold is not None:
            try:
                fold.write()
                self.finish_fold(journal, fold)
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

    def finish_fold(self, journal: Held, fold: Fold) -> None:
        """Put the files in place that a fold has written, and leave in the journal what came since.

        Nothing is done when somebody else has folded or edited them meanwhile.

        Raises:
            OSError: when that is not possible; then the journal still says everything.
        """
        content, began, now = self.content, fold.began, self._position()
        if content is None or (began.generation, began.files) != (now.generation, now.files):
            return
        rest = self._read(journal, began.offset)
        if self._signatures() != self._files:
            return
        # Should this fail, or we die: a journal that continues other files is merged into them.
        fold.put_in_place(self._files)
        header = new_header(fold.signatures(self._files), began, self._tenant)
        line = encode_header(header)
        if rest:
            # To whoever has it open, and would go on with it when it has no name any more.
            write_at(journal.handle, self._offset, encode_frame([]))
            self._replace_journal([line, rest])
        else:
            line = restarted(journal.handle, line)
        if fold.tools is not None:
            content.tools_version = VERSION
        content.tools_changed = content.state_changed = bool(rest)
        self._place(line, header if line else None, len(line), header.files)
        self._offset += len(rest)
        self._continued = True
        self._journal = None

    def remove_journal(self, journal: Held) -> None:
        """Take the journal away unless it says something that the files do not."""
        if not self.journal_size and not self._read(journal, self._offset):
            # Whoever has it open sees that it is not the one they know.
            os.ftruncate(journal.handle, 0)
            self.paths.journal.unlink(missing_ok=True)

    def forget(self) -> None:
        """Read everything anew when it is next wanted."""
        self.content = None
        self.news.miss()

    def read_anew(self, journal: Held | None) -> None:
        """Read everything there is, and keep nothing of it.

        Raises:
            StorageError: when something cannot be read.
        """
        JsonDisk(self.paths, self._tenant).catch_up(journal, writing=False)

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

    def _is_ours(self, journal: Held | None) -> bool:
        return self._read(journal, 0, _MARK) == self._mark

    def _has_more(self, handle: int) -> bool:
        return read_at(handle, self._offset, 1) not in (b"", NOTHING)

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
        self._torn = end < len(data)
        if self.content is not None:
            self.news.compare(self.content, fresh)
            # They are for those who read everything, when it is opened.
            fresh.decoded.clear()
        self.content, self._refused = fresh, None
        return fresh

    def _place(self, data: bytes, header: Header | None, end: int, files: Signatures) -> None:
        self._mark = data[:_MARK]
        self._generation = "" if header is None else header.generation
        self._records = self._offset = self._room = end
        self._files = files
        self.limit = SMALL if files[0] is None else max(SMALL, files[0][2] // 2)

    def _follow(self, content: JsonContent, added: bytes, journal: Held | None) -> None:
        changes, end = read_journal(added, 0, self.paths)
        for change in changes:
            content.apply(change)
        self._offset += end
        self.news.note(changes)
        if journal is not None:
            self._cut_off(journal, added[end:])

    def _cut_off(self, journal: Held, torn: bytes) -> None:
        self._torn = False
        self._room = journal.found.st_size
        if not torn:
            return
        if torn.endswith(b"\n"):
            # Whoever died did not get so far: this was whole once, and perhaps acknowledged.
            kept = set_aside(self.paths.journal, torn)
            logger.error("store_journal_damaged", extra={"path": str(kept)})
        os.ftruncate(journal.handle, self._offset)
        self._room = self._offset

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

    def _read(self, journal: Held | None, start: int, size: int | None = None) -> bytes:
        """Return what the journal says from an offset on, or the first bytes of that."""
        if journal is None:
            try:
                data = self.paths.journal.read_bytes()
            except FileNotFoundError:
                return b""
            return data[start:][:size].rstrip(NOTHING)
        if size is not None:
            return read_at(journal.handle, start, size)
        rest = os.fstat(journal.handle).st_size - start
        return read_at(journal.handle, start, rest).rstrip(NOTHING) if rest > 0 else b""


def _signature_of(path: str) -> Signature:
    try:
        found = os.stat(path)  # noqa: PTH116 - faster
    except FileNotFoundError:
        return None
    return signature(found)
