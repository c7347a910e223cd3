"""The files of a JSON store in use: by threads, by other processes, and when nobody does."""

import atexit
import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic, sleep
from typing import Any, Generic, TypeVar, cast
from weakref import WeakSet

from pegboard.errors import StorageError, StoreDamagedError
from pegboard.model.forks import start_anew_in_children
from pegboard.storage.json_file.atomic_write import make_folder, tidy_up
from pegboard.storage.json_file.changes import Change
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.disk import FileGoneError, JsonDisk
from pegboard.storage.json_file.faults import READ_ONLY, unavailable
from pegboard.storage.json_file.file_lock import LockedFile
from pegboard.storage.json_file.paths import JsonPaths
from pegboard.storage.store import StoreChange

__all__ = ["JsonFiles"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

QUIET = 1.0
"""Seconds without a write after which the journal is folded into the files."""
LONGEST_QUIET = 30.0
"""The same for files that take long to write."""
SHARE = 20
"""How much longer than a fold takes it is quiet before the next one."""
PATIENCE = 0.5
"""Seconds for which a file may be away or broken while somebody saves it with an editor."""

T = TypeVar("T")

Plan = Callable[[JsonContent], tuple[Sequence[Change], T]]
"""Says what to change in what is there, and what to answer; raises to change nothing."""


class _Request(Generic[T]):
    def __init__(self, plan: Plan[T]) -> None:
        self.plan = plan
        self.done = False
        self.answer: T | None = None
        self.error: Exception | None = None


class JsonFiles:
    """Reads and writes the files of one tenant.

    Raises:
        StorageError: when they cannot be used; then none is made or changed.
    """

    def __init__(self, paths: JsonPaths, tenant: str | None) -> None:
        self._paths = paths
        self._tenant = tenant
        self._url = str(paths.tools)
        self._disk = JsonDisk(paths, tenant)
        self._journal = LockedFile(paths.journal)
        self._lock = threading.RLock()
        self._waiting: deque[_Request[Any]] = deque()
        self._closed = False
        self._called = threading.Event()
        self._folding: threading.Thread | None = None
        self._idle = True
        self._last_write = 0.0
        self._quiet = 0.0
        self._ending = False
        self._troubled = False
        _open.add(self)
        start_anew_in_children(self)
        try:
            with self._translated():
                make_folder(paths.folder)
            with self._lock, self._reading() as handle:
                self._catch_up(handle, writing=False)
                if handle is not None:
                    self._tidy()
        except BaseException:
            self.close()
            raise

    def read(self, reading: Callable[[JsonContent], T]) -> T:
        """Return what is read from the content as it is now.

        Raises:
            StorageError: when it cannot be read.
        """
        with self._free_lock():
            self._check_open()
            return reading(self._current())

    def write(self, plan: Plan[T]) -> T:
        """Change what a plan says, durably, and return its answer.

        Threads that wait for each other share one write.

        Raises:
            StorageError: when it cannot be written; and whatever the plan raises.
        """
        lock = self._free_lock()
        request = _Request(plan)
        self._waiting.append(request)
        with lock:
            if not request.done:
                # Ours in any case: somebody may have taken it from there, and been interrupted.
                batch: list[_Request[Any]] = [request]
                while self._waiting:
                    other = self._waiting.popleft()
                    if other is not request:
                        batch.append(other)
                self._commit(batch)
        if request.error is not None:
            raise request.error
        if self._ending:
            self._leave()
        return cast("T", request.answer)

    def look(self) -> StoreChange | None:
        """Return what changed since the last look, ``None`` for nothing."""
        with self._free_lock():
            if not self._closed:
                self._current()
            return self._disk.take_news()

    def start_looking(self) -> None:
        """Notice changes from now on."""
        with self._free_lock():
            self._check_open()
            self._current()
            self._disk.watched = True
            self._disk.take_news()

    def check(self) -> None:
        """Read everything from the disk.

        Raises:
            StorageError: when something cannot be read.
        """
        with self._free_lock():
            self._check_open()
            with self._reading() as handle:
                self._disk.read_anew(handle)

    def close(self) -> None:
        """Fold the journal, remove it, and let go of everything."""
        _open.discard(self)
        with self._free_lock():
            self._closed = True
        self._stop_folding()
        self._leave()
        with self._lock:
            self._journal.forget()

    def end(self) -> None:
        """Leave the files whole, as the program ends; from now on each write does."""
        with self._free_lock():
            if self._disk.content is None:
                # A forked child that has nothing to do with it.
                return
            self._ending = True
        self._stop_folding()
        self._leave()

    def after_fork(self) -> None:
        """Share neither the lock nor the thread of the parent, nor what was half done in it."""
        self._lock = threading.RLock()
        self._called = threading.Event()
        self._waiting.clear()
        self._folding = None
        self._idle = True
        self._disk = JsonDisk(self._paths, self._tenant)
        self._journal.forget()

    def _commit(self, batch: Sequence[_Request[Any]]) -> None:
        try:
            self._check_open()
            handle = self._journal.take(alone=True)
            try:
                self._perform(handle, batch)
            finally:
                self._journal.release()
        except BaseException as error:
            ours = self._ours(error)
            for request in batch:
                request.error = request.error or ours
            if not isinstance(error, Exception):
                self._disk.forget()
                raise
        finally:
            for request in batch:
                request.done = True

    def _perform(self, handle: int, batch: Sequence[_Request[Any]]) -> None:
        content = self._up_to_date(handle)
        changes: list[Change] = []
        try:
            for request in batch:
                try:
                    planned, request.answer = request.plan(content)
                except Exception as error:  # noqa: BLE001 - it is raised by who asked
                    request.error = error
                    continue
                for change in planned:
                    content.apply(change)
                changes += planned
        except BaseException:
            self._disk.forget()
            raise
        if changes:
            self._disk.append(handle, changes)
            self._wake()

    def _up_to_date(self, handle: int) -> JsonContent:
        for _ in range(10):
            content = self._catch_up(handle, writing=True)
            if self._disk.journal_size > 4 * self._disk.limit:
                with suppress(OSError):
                    self._disk.fold(handle)
            if self._disk.ready(handle):
                return content
        raise OSError(errno.EBUSY, "It is being edited all the time")

    def _current(self) -> JsonContent:
        """What there is to be read. Who only reads what has not changed is in nobody's way."""
        content = self._disk.content
        if content is None or self._disk.changed():
            with self._reading() as handle:
                content = self._catch_up(handle, writing=False)
        return content

    def _catch_up(self, handle: int | None, *, writing: bool) -> JsonContent:
        """Follow what others did; one who just saves the file with an editor is waited for."""
        end = monotonic() + PATIENCE
        while True:
            try:
                content = self._disk.catch_up(handle, writing=writing)
            except StorageError as error:
                gone = isinstance(error, FileGoneError)
                edited = isinstance(error, StoreDamagedError) and self._disk.content is not None
                if not (gone or edited) or monotonic() > end:
                    raise
                sleep(0.01)
            else:
                return content

    def _wake(self) -> None:
        self._last_write = monotonic()
        if self._ending:
            return
        if self._folding is None:
            thread = threading.Thread(
                target=self._fold_when_quiet, name="pegboard-store-fold", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                # There can be no more threads: what is written is in the journal all the same.
                self._warn(error)
                return
            self._folding = thread
        # Not for every write: to wake a thread takes longer than to write.
        if self._idle or self._disk.journal_size > self._disk.limit:
            self._idle = False
            self._called.set()

    def _fold_when_quiet(self) -> None:
        while self._wait_until_quiet(self._called):
            done = self._fold()
            with self._lock:
                self._idle = not done or not self._disk.journal_size
                if not self._idle:
                    # What was written meanwhile has its time, too.
                    self._last_write = monotonic()
                    self._called.set()

    def _wait_until_quiet(self, called: threading.Event) -> bool:
        called.wait()
        called.clear()
        quiet = max(QUIET, self._quiet)
        while not self._stopped() and self._disk.journal_size <= self._disk.limit:
            rest = self._last_write + quiet - monotonic()
            if rest <= 0:
                break
            called.wait(rest)
            called.clear()
        return not self._stopped()

    def _stopped(self) -> bool:
        return self._closed or self._ending

    def _stop_folding(self) -> None:
        with self._lock:
            folding, self._folding = self._folding, None
            self._called.set()
        if folding is not None:
            folding.join()

    def _fold(self) -> bool:
        """Fold the journal, and tell whether that was possible; others write meanwhile."""
        fold = None
        began = monotonic()
        try:
            with self._lock, self._journal.locked(alone=True) as handle:
                self._catch_up(handle, writing=True)
                if self._disk.journal_size:
                    fold = self._disk.begin_fold()
            if fold is not None:
                fold.write()
                with self._lock, self._journal.locked(alone=True) as handle:
                    self._catch_up(handle, writing=True)
                    self._disk.finish_fold(handle, fold)
            self._troubled = False
            self._quiet = min(SHARE * (monotonic() - began), LONGEST_QUIET)
        except (OSError, StorageError) as error:
            self._warn(error)
            return False
        finally:
            if fold is not None:
                fold.discard()
        return True

    def _warn(self, error: Exception) -> None:
        # Nothing is lost: the journal says it all. Once is enough.
        if not self._troubled:
            logger.warning(
                "store_fold_failed: %s: %s What is new stays in the journal beside it.",
                *(self._url, error),
                extra={"path": self._url, "error": str(error)},
            )
        self._troubled = True

    def _leave(self) -> None:
        with suppress(OSError):
            if self._paths.journal.exists():
                if self._disk.content is not None:
                    self._fold()
                with self._lock, self._journal.locked(alone=True) as handle:
                    self._disk.remove_journal(handle)

    def _tidy(self) -> None:
        for path in (self._paths.tools, self._paths.state):
            tidy_up(path)

    def _free_lock(self) -> threading.RLock:
        # Not a lock of our own making: an interrupt would find it taken and not yet held.
        if cast("Any", self._lock)._is_owned():
            raise StorageError(
                f"{self._url} is in use by this very thread: do this after what was interrupted, "
                "not in a signal handler.",
                url=self._url,
            )
        return self._lock

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"{self._url} is closed: open it again.", url=self._url)

    @contextmanager
    def _reading(self) -> Generator[int | None]:
        with ExitStack() as stack, self._translated():
            try:
                handle = stack.enter_context(self._journal.locked(alone=False))
            except OSError as error:
                if error.errno not in READ_ONLY:
                    raise
                # Where no lock can be had nobody writes either.
                handle = None
            yield handle

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            raise self._ours(error) from error

    def _ours(self, error: BaseException) -> Exception:
        if not isinstance(error, Exception):
            return StorageError(
                "Another thread was interrupted while it wrote this with what it wrote itself: "
                "see whether it was kept, and write it again if not.",
                url=self._url,
            )
        if not isinstance(error, OSError) or isinstance(error, StorageError):
            return error
        ours = unavailable(error, self._url)
        ours.__cause__ = error
        return ours


_open: "WeakSet[JsonFiles]" = WeakSet()


@atexit.register
def _end_all() -> None:
    for files in list(_open):
        try:
            files.end()
        except Exception:
            logger.exception("store_end_failed")
