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
from pegboard.model.fork_guard import ForkGuard
from pegboard.storage.json_file.atomic_write import make_folder, tidy_up
from pegboard.storage.json_file.changes import Change
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.disk import JsonDisk
from pegboard.storage.json_file.faults import READ_ONLY, FileGoneError, unavailable
from pegboard.storage.json_file.file_lock import Held, LockedFile
from pegboard.storage.json_file.folding import FoldingThread
from pegboard.storage.json_file.paths import JsonPaths
from pegboard.storage.store import StoreChange

__all__ = ["JsonFiles"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

PATIENCE = 0.5
"""Seconds for which a file may be away or broken while somebody saves it with an editor."""

T = TypeVar("T")

Plan = Callable[[JsonContent], tuple[Sequence[Change], T]]
"""Says what to change in what is there, and what to answer; raises to change nothing."""


class _Request(Generic[T]):
    __slots__ = ("answer", "done", "error", "only_tools", "plan")

    def __init__(self, plan: Plan[T], *, only_tools: bool) -> None:
        self.plan = plan
        self.only_tools = only_tools
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
        self._inside = False
        """Whether whoever has the lock is at work: it is the same thread if it can ask."""
        self._waiting: deque[_Request[Any]] = deque()
        self._folding = FoldingThread(self._fold, overdue=self._is_overdue)
        self._closed = False
        self._ending = False
        self._troubled = False
        self._guard = ForkGuard("store")
        _open.add(self)
        try:
            with self._translated():
                make_folder(paths.folder)
            with self._alone(), self._reading() as journal:
                self._catch_up(journal, writing=False)
                if journal is not None:
                    self._tidy()
        except BaseException:
            self.close()
            raise

    def read(self, reading: Callable[[JsonContent], T]) -> T:
        """Return what is read from the content as it is now.

        Raises:
            StorageError: when it cannot be read.
        """
        with self._alone():
            self._check_open()
            return reading(self._current())

    def write(self, plan: Plan[T], *, only_tools: bool = False) -> T:
        """Change what a plan says, durably, and return its answer.

        Threads that wait for each other share one write. A plan for tools alone, which neither
        reads nor changes anything else, is cheaper.

        Raises:
            StorageError: when it cannot be written; and whatever the plan raises.
        """
        self._guard.check()
        request = _Request(plan, only_tools=only_tools)
        self._waiting.append(request)
        with self._lock:
            if self._inside:
                self._waiting.remove(request)
                raise self._in_use()
            try:
                self._inside = True
                if not request.done:
                    self._commit(self._batch(request))
            finally:
                self._inside = False
        if request.error is not None:
            raise request.error
        if self._ending:
            self._leave()
        return cast("T", request.answer)

    def look(self) -> StoreChange | None:
        """Return what changed since the last look, ``None`` for nothing."""
        with self._alone():
            if not self._closed:
                self._current()
            return self._disk.news.take()

    def start_looking(self) -> None:
        """Notice changes from now on."""
        with self._alone():
            self._check_open()
            self._current()
            self._disk.news.wanted = True
            self._disk.news.take()

    def check(self) -> None:
        """Read everything from the disk.

        Raises:
            StorageError: when something cannot be read.
        """
        with self._alone():
            self._check_open()
            with self._reading() as journal:
                self._disk.read_anew(journal)

    def close(self) -> None:
        """Fold the journal, remove it, and let go of everything; a forked child does nothing."""
        if self._guard.in_child:
            return
        _open.discard(self)
        with self._alone():
            self._closed = True
        self._folding.stop()
        self._leave()
        with self._alone():
            self._journal.forget()

    def end(self) -> None:
        """Leave the files whole, as the program ends; from now on each write does."""
        if self._guard.in_child:
            return
        with self._alone():
            self._ending = True
        self._folding.stop()
        self._leave()

    def _batch(self, request: _Request[Any]) -> list[_Request[Any]]:
        # Ours in any case: somebody may have taken it from there, and been interrupted.
        batch = [request]
        while self._waiting:
            other = self._waiting.popleft()
            if other is not request:
                batch.append(other)
        return batch

    def _commit(self, batch: Sequence[_Request[Any]]) -> None:
        try:
            self._check_open()
            try:
                self._perform(batch)
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

    def _perform(self, batch: Sequence[_Request[Any]]) -> None:
        only_tools = all(request.only_tools for request in batch)
        handle = self._journal.take_again()
        content = None
        if handle is not None:
            content = self._disk.current(handle, only_tools=only_tools)
        if handle is None or content is None:
            journal = self._journal.take(alone=True)
            handle, content = journal.handle, self._up_to_date(journal)
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

    def _up_to_date(self, journal: Held) -> JsonContent:
        for _ in range(10):
            content = self._catch_up(journal, writing=True)
            if self._disk.is_too_long:
                with suppress(OSError):
                    self._disk.fold(journal)
            if self._disk.ready(journal):
                return content
        raise OSError(errno.EBUSY, "It is being edited all the time")

    def _current(self) -> JsonContent:
        """What there is to be read. Who only reads what has not changed is in nobody's way."""
        content = self._disk.content
        if content is None or self._disk.changed(self._journal.handle):
            with self._reading() as journal:
                content = self._catch_up(journal, writing=False)
        return content

    def _catch_up(self, journal: Held | None, *, writing: bool) -> JsonContent:
        """Follow what others did; one who just saves the file with an editor is waited for."""
        end = None
        while True:
            try:
                return self._disk.catch_up(journal, writing=writing)
            except StorageError as error:
                gone = isinstance(error, FileGoneError)
                edited = isinstance(error, StoreDamagedError) and self._disk.content is not None
                end = end or monotonic() + PATIENCE
                if not (gone or edited) or monotonic() > end:
                    raise
                sleep(0.01)

    def _wake(self) -> None:
        try:
            self._folding.wake()
        except RuntimeError as error:
            # There can be no more threads: what is written is in the journal all the same.
            self._warn(error)

    def _is_overdue(self) -> bool:
        return self._disk.journal_size > self._disk.limit

    def _fold(self) -> bool:
        """Fold the journal, and tell whether there is more to fold; others write meanwhile."""
        fold = None
        try:
            with self._alone(), self._journal.locked(alone=True) as journal:
                self._catch_up(journal, writing=True)
                if self._disk.journal_size:
                    fold = self._disk.begin_fold()
            if fold is not None:
                fold.write()
                with self._alone(), self._journal.locked(alone=True) as journal:
                    self._catch_up(journal, writing=True)
                    self._disk.finish_fold(journal, fold)
            self._troubled = False
        except (OSError, StorageError) as error:
            self._warn(error)
            return False
        finally:
            if fold is not None:
                fold.discard()
        return self._disk.journal_size > 0

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
                with self._alone(), self._journal.locked(alone=True) as journal:
                    self._disk.remove_journal(journal)

    def _tidy(self) -> None:
        for path in (self._paths.tools, self._paths.state):
            tidy_up(path)

    @contextmanager
    def _alone(self) -> Generator[None]:
        self._guard.check()
        with self._lock:
            if self._inside:
                raise self._in_use()
            try:
                self._inside = True
                yield
            finally:
                self._inside = False

    def _in_use(self) -> StorageError:
        return StorageError(
            f"{self._url} is in use by this very thread: do this after what was interrupted, "
            "not in a signal handler.",
            url=self._url,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"{self._url} is closed: open it again.", url=self._url)

    @contextmanager
    def _reading(self) -> Generator[Held | None]:
        with ExitStack() as stack, self._translated():
            try:
                journal = stack.enter_context(self._journal.locked(alone=False))
            except OSError as error:
                if error.errno not in READ_ONLY:
                    raise
                # Where no lock can be had nobody writes either.
                journal = None
            yield journal

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
