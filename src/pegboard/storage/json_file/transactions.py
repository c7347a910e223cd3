"""Transactions of a JSON store: threads and processes read and write in turn, durably."""

import atexit
import errno
import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic, sleep
from typing import TypeVar
from weakref import WeakSet

from pegboard.config.atomic_write import make_folder
from pegboard.errors import StorageError, StoreDamagedError
from pegboard.model.fork_guard import ForkGuard
from pegboard.storage.file_lock import LockedFile
from pegboard.storage.json_file.compaction import CompactionThread
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.disk import JsonDisk
from pegboard.storage.json_file.journal import Change
from pegboard.storage.json_file.paths import READ_ONLY, FileGoneError, JsonPaths, unavailable
from pegboard.storage.store import StoreChange

__all__ = ["JsonTransactions"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

PATIENCE = 0.5
"""Seconds for which a file may be away or broken while an editor saves it."""

T = TypeVar("T")

Plan = Callable[[JsonContent], tuple[Sequence[Change], T]]
"""Says what to change in what is there, and what to return; raises to change nothing."""


class JsonTransactions:
    """Reads and writes the files of one tenant, or raises a `StorageError` and changes nothing."""

    def __init__(self, paths: JsonPaths, tenant: str | None) -> None:
        self._paths = paths
        self._tenant = tenant
        self._url = str(paths.tools)
        self._disk = JsonDisk(paths, tenant)
        self._journal = LockedFile(paths.journal)
        self._lock = threading.RLock()
        self._is_inside = False
        """Whether the thread with the lock is at work; only a signal handler sees it true."""
        self._compaction = CompactionThread(self.compact)
        self._is_closed = self._is_ending = self._has_warned = False
        self._guard = ForkGuard("store")
        _open.add(self)
        try:
            with self._alone():
                make_folder(paths.folder)
                with self._reading() as handle:
                    self._catch_up(handle, writing=False)
                    if handle is not None:
                        _remove_leftovers(paths)
        except BaseException:
            self.close()
            raise

    def read(self, reading: Callable[[JsonContent], T]) -> T:
        """Return what is read from the content as it is now."""
        with self._alone():
            return reading(self._current())

    def write(self, plan: Plan[T]) -> T:
        """Change what a plan says, durably, and return its answer; raise what the plan raises."""
        with self._alone(), self._journal.locked(alone=True) as handle:
            content = self._writable(handle)
            changes, answer = plan(content)
            if changes:
                self._disk.append(handle, content, changes)
                self._wake()
        if self._is_ending:
            self._leave()
        return answer

    def look(self) -> StoreChange | None:
        """Return what changed since the last look, ``None`` for nothing."""
        with self._alone(even_if_closed=True):
            if not self._is_closed:
                self._current()
            return self._disk.feed.take()

    def start_looking(self) -> None:
        """Notice changes from now on."""
        with self._alone():
            self._current()
            self._disk.feed.wanted = True
            self._disk.feed.take()

    def check(self) -> None:
        """Read everything from the disk."""
        with self._alone(), self._reading() as handle:
            JsonDisk(self._paths, self._tenant).catch_up(handle, writing=False)

    def compact(self) -> None:
        """Compact the journal; on failure, which is logged, the journal still says everything."""
        try:
            with self._alone(), self._journal.locked(alone=True) as handle:
                self._catch_up(handle, writing=True)
                if self._disk.journal_size:
                    self._disk.compact(handle)
            self._has_warned = False
        except StorageError as error:
            self._warn(error)

    def close(self) -> None:
        """Compact and remove the journal, and close everything."""
        _open.discard(self)
        self.end()
        if not self._guard.in_child:
            with self._alone(even_if_closed=True):
                self._is_closed = True
                self._journal.close()

    def end(self) -> None:
        """Leave the files whole, as the program ends; from now on each write does."""
        # A forked child leaves the files and the lock to its parent.
        if not self._guard.in_child and not self._is_closed:
            self._is_ending = True
            self._compaction.stop()
            self._leave()

    def _leave(self) -> None:
        with suppress(OSError, StorageError):
            if self._paths.journal.exists():
                if self._disk.content is not None:
                    self.compact()
                with self._alone(), self._journal.locked(alone=True) as handle:
                    self._disk.remove_journal(handle)

    def _wake(self) -> None:
        try:
            self._compaction.wake()
        except RuntimeError as error:
            # There can be no more threads: the change is in the journal all the same.
            self._warn(error)

    def _writable(self, handle: int) -> JsonContent:
        for _ in range(10):
            content = self._catch_up(handle, writing=True)
            if self._disk.is_continued and not self._disk.is_overdue:
                return content
            try:
                self._disk.compact(handle)
            except OSError:
                if not self._disk.is_continued:
                    raise
                return content
        raise OSError(errno.EBUSY, "It is being edited all the time")

    def _current(self) -> JsonContent:
        content = self._disk.content
        # A reader of what has not changed needs no lock, so it is in no writer's way.
        if content is None or not self._disk.is_current(self._journal.handle):
            with self._reading() as handle:
                content = self._catch_up(handle, writing=False)
        return content

    def _catch_up(self, handle: int | None, *, writing: bool) -> JsonContent:
        """Read what is new; wait a moment for a person whose editor is saving the file."""
        end = None
        while True:
            try:
                return self._disk.catch_up(handle, writing=writing)
            except StorageError as error:
                is_gone = isinstance(error, FileGoneError)
                is_edited = isinstance(error, StoreDamagedError) and self._disk.content is not None
                end = end or monotonic() + PATIENCE
                if not (is_gone or is_edited) or monotonic() > end:
                    raise
                sleep(0.01)

    def _warn(self, error: Exception) -> None:
        # Nothing is lost: the journal says it all. Once is enough.
        if not self._has_warned:
            text = "store_fold_failed: %s: %s What is new stays in the journal beside it."
            where = {"path": self._url, "error": str(error)}
            logger.warning(text, self._url, error, extra=where)
        self._has_warned = True

    @contextmanager
    def _alone(self, *, even_if_closed: bool = False) -> Generator[None]:
        # Before the lock, which another thread of the parent may have held at the fork.
        self._guard.check()
        with self._lock:
            if self._is_inside:
                raise StorageError(
                    f"{self._url} is in use by this very thread: do this after what was "
                    "interrupted, not in a signal handler.",
                    url=self._url,
                )
            if self._is_closed and not even_if_closed:
                raise StorageError(f"{self._url} is closed: open it again.", url=self._url)
            try:
                self._is_inside = True
                yield
            except StorageError:
                raise
            except OSError as error:
                raise unavailable(error, self._url) from error
            finally:
                self._is_inside = False

    @contextmanager
    def _reading(self) -> Generator[int | None]:
        with ExitStack() as stack:
            try:
                handle = stack.enter_context(self._journal.locked(alone=False))
            except OSError as error:
                if error.errno not in READ_ONLY:
                    raise
                # Where this process may not lock, it does not write either.
                handle = None
            yield handle


def _remove_leftovers(paths: JsonPaths) -> None:
    # Of dead processes, however young: a living one would have the lock.
    starts = (f".{paths.tools.name}.", f".{paths.state.name}.")
    for found in paths.folder.iterdir():
        if found.name.startswith(starts) and found.suffix == ".tmp":
            with suppress(OSError):
                found.unlink()


_open: "WeakSet[JsonTransactions]" = WeakSet()


@atexit.register
def _end_all() -> None:
    for transactions in list(_open):
        try:
            transactions.end()
        except Exception:
            logger.exception("store_end_failed")
