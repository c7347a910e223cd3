"""CallFiles: the calls of the last days in files, written in the background, read newest first."""

import logging
import os
import secrets
import threading
from collections import Counter, deque
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from time import time

import msgspec

from pegboard.config.atomic_write import make_folder
from pegboard.model.call import CallRecord
from pegboard.model.fork_guard import GuardedLock
from pegboard.observe.call_entry import CallEntry, CallFilter, entry_of
from pegboard.observe.call_totals import CallTotals
from pegboard.observe.json_lines import append_lines, open_file_to_append
from pegboard.storage.write_behind import WriteBehind

__all__ = ["CallFiles", "all_calls", "find_calls"]

logger: logging.Logger = logging.getLogger("pegboard.observe")

MOST_PENDING = 20_000
"""The most calls that wait to be written; the oldest are lost, and their number is logged."""
MOST_UNWRITTEN = 64_000_000
"""The most bytes of calls that wait for a full disk; a recorded result may have 100,000 bytes."""
MOST_REFUSALS = 100
"""The most refusals of one caller between two writes that are kept one by one.

Otherwise a caller that is refused could push all other calls out of the files.
"""
ENDING = ".jsonl"
_decode = msgspec.json.Decoder(CallEntry).decode
_encoder = msgspec.json.Encoder()


class CallFiles:
    """An observer that keeps calls; it writes every two seconds, and delays no call.

    A crash loses the calls of the last two seconds. Each process writes files of its own, so that
    several may share a folder.

    Args:
        folder: the folder; only its owner can read it.
        days: how long a call is kept.
        size: how many bytes all files may have; the oldest go first.
    """

    def __init__(self, folder: Path, *, days: float = 7, size: int = 200_000_000) -> None:
        self._folder = folder
        self._seconds = days * 24 * 3600
        self._size = size
        self._pending: deque[tuple[float, CallRecord]] = deque(maxlen=MOST_PENDING)
        self._seen = 0
        self._taken = 0
        self._unwritten = b""
        self._lost = 0
        self._is_failing = False
        self._numbers = count()
        self._source = secrets.token_hex(2)
        self._file: Path | None = None
        self._file_ends = 0.0
        self._file_size = 0
        self._since_pruned = size
        self._writing = GuardedLock("calls", threading.Lock())
        self._flushing = WriteBehind(self.flush, owner="calls")

    def __call__(self, record: CallRecord, /) -> None:
        """Keep a call."""
        self._seen += 1
        self._pending.append((time(), record))
        self._flushing.wake()

    def find(self, wanted: CallFilter) -> list[CallEntry]:
        """Return the calls that a filter chooses, the newest first.

        Raises:
            OSError: when the files cannot be read.
        """
        self.flush()
        return find_calls(self._folder, wanted)

    def flush(self) -> None:
        """Write the pending calls; what cannot be written now is written later."""
        with self._writing:
            lines = self._taken_lines()
            if not lines:
                return
            try:
                self._write(lines)
            except OSError as error:
                self._keep_for_later(lines, error)
                return
            self._unwritten = b""
            if self._is_failing or self._lost:
                words = "calls_kept_again: calls are kept again; %d were lost"
                logger.warning(words, self._lost, extra={"lost": self._lost})
                self._is_failing, self._lost = False, 0
            self._since_pruned += len(lines)
            if self._since_pruned > self._size // 100:
                self._prune()

    def close(self) -> None:
        """Write the pending calls, and stop."""
        self._flushing.close()

    def _taken_lines(self) -> bytes:
        refusals = Counter[tuple[object, object]]()
        flood: dict[tuple[object, ...], tuple[float, CallRecord, int]] = {}
        entries: list[CallEntry] = []
        taken = 0
        while self._pending:
            ended, record = self._pending.popleft()
            taken += 1
            if record.outcome == "refused":
                caller = record.meta.get("tenant"), record.meta.get("subject")
                refusals[caller] += 1
                if refusals[caller] > MOST_REFUSALS:
                    kind = (*caller, record.error_code, record.server)
                    times = flood[kind][2] if kind in flood else 0
                    flood[kind] = ended, record, times + 1
                    continue
            entries.append(entry_of(record, id=self._id(ended)))
        for ended, record, times in flood.values():
            one = msgspec.structs.replace(record, tool="", arguments=None, result=None)
            entries.append(entry_of(one, id=self._id(ended), count=times))
        self._taken += taken
        # What the queue dropped was counted when it came.
        dropped = self._seen - self._taken - len(self._pending)
        if dropped > 0:
            self._lost += dropped
            self._taken += dropped
        return self._unwritten + _encoder.encode_lines(entries)

    def _id(self, ended: float) -> str:
        return f"{int(ended * 1_000_000):014x}{self._source}{next(self._numbers) & 0xFFF:03x}"

    def _write(self, lines: bytes) -> None:
        now = time()
        is_full = self._file_size + len(lines) > self._size // 50
        if self._file is None or is_full or now > self._file_ends:
            make_folder(self._folder)
            # Not later than its first call, so that a reader knows what it need not open.
            first = _decode(lines.partition(b"\n")[0]).id[:14]
            self._file = self._folder / f"{first}-{self._source}{ENDING}"
            self._file_ends = now + self._seconds / 7
            self._file_size = 0
        handle = open_file_to_append(self._file)
        try:
            append_lines(handle, lines)
        finally:
            os.close(handle)
        self._file_size += len(lines)

    def _keep_for_later(self, lines: bytes, error: OSError) -> None:
        if not self._is_failing:
            reason = error.strerror or str(error)
            words = "calls_not_kept: %s: %s; it will be tried again"
            logger.warning(words, self._folder, reason, extra={"reason": reason})
        self._is_failing = True
        # Bounded: a disk that is full for hours must not fill the memory as well.
        waiting = lines.splitlines(keepends=True)
        room, kept = MOST_UNWRITTEN, list[bytes]()
        for line in reversed(waiting[-MOST_PENDING:]):
            room -= len(line)
            if room < 0:
                break
            kept.append(line)
        self._lost += len(waiting) - len(kept)
        self._unwritten = b"".join(reversed(kept))

    def _prune(self) -> None:
        """Remove the oldest files, and add their calls to the totals of their days before."""
        self._since_pruned = 0
        files = _files(self._folder)
        oldest = time() - self._seconds
        total = sum(size for _, _, size in files)
        old: list[Path] = []
        for path, written, size in files:
            if path == self._file or not (written < oldest or total > self._size):
                continue
            old.append(path)
            total -= size
        try:
            if old:
                CallTotals(self._folder).add_and_remove(old, _entries_in)
        except OSError as error:
            # Another process prunes at this moment, or the disk is full.
            logger.debug("calls_not_pruned: %s", error, extra={"reason": str(error)})


def find_calls(folder: Path, wanted: CallFilter) -> list[CallEntry]:
    """Return the calls in a folder that a filter chooses, the newest first.

    Raises:
        OSError: when the files cannot be read.
    """
    found = (it for it in _newest_first(folder, wanted) if wanted.matches(it))
    return list(islice(found, 1 if wanted.id else wanted.limit))


def all_calls(folder: Path, folded: frozenset[str] = frozenset()) -> Iterator[CallEntry]:
    """Yield the calls of all files but the named ones."""
    for path, _, _ in _files(folder):
        if path.name not in folded:
            yield from _entries_in(path)


def _newest_first(folder: Path, wanted: CallFilter) -> Iterator[CallEntry]:
    since = "" if wanted.since is None else f"{int(wanted.since.timestamp() * 1_000_000):014x}"
    oldest = max(since, wanted.after)
    waiting = [
        (f"{int((written + 1) * 1_000_000):014x}", path)
        for path, written, _ in sorted(_files(folder), key=lambda it: it[1])
        if not wanted.before or path.name < wanted.before
    ]
    opened: list[tuple[CallEntry, Iterator[CallEntry]]] = []
    while waiting or opened:
        # Files of several processes overlap: each that may have the next call is looked at.
        while waiting and (not opened or waiting[-1][0] >= opened[-1][0].id):
            calls = _backwards(waiting.pop()[1], wanted)
            first = next(calls, None)
            if first is not None:
                opened.append((first, calls))
                opened.sort(key=lambda it: it[0].id)
        if not opened:
            return
        call, calls = opened.pop()
        if call.id <= oldest:
            return
        yield call
        following = next(calls, None)
        if following is not None:
            opened.append((following, calls))
            opened.sort(key=lambda it: it[0].id)


def _backwards(path: Path, wanted: CallFilter) -> Iterator[CallEntry]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    needle = wanted.id.encode()
    for line in reversed(lines):
        if needle in line and (found := _entry_in(line)) is not None:
            yield found


def _entries_in(path: Path) -> Iterator[CallEntry]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        if (found := _entry_in(line)) is not None:
            yield found


def _entry_in(line: bytes) -> CallEntry | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Its writer died in the middle of it, or is a newer Pegboard.
        return None


def _files(folder: Path) -> list[tuple[Path, float, int]]:
    """Return the files, the oldest first, with the time of the last write and the size."""
    try:
        names = sorted(it for it in os.listdir(folder) if it.endswith(ENDING))  # noqa: PTH208 - names
    except FileNotFoundError:
        return []
    found: list[tuple[Path, float, int]] = []
    for name in names:
        path = folder / name
        try:
            seen = path.stat()
        except FileNotFoundError:
            continue
        found.append((path, seen.st_mtime, seen.st_size))
    return found
