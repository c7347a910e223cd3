"""Write-behind: a background thread flushes buffered data to a store, also at exit."""

import atexit
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from importlib import import_module

from pegboard.model.fork_guard import GuardedLock

__all__ = ["WriteBehind"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

SECONDS = 2.0


class WriteBehind:
    """Calls ``flush`` every two seconds after it was woken, and once more when closed.

    ``flush`` is a method that raises when it cannot write, and keeps the data for the next time.
    Its object is referenced weakly, so this does not keep the object alive.
    """

    def __init__(self, flush: Callable[[], None], *, owner: str) -> None:
        self._flush = weakref.WeakMethod(flush)
        self._closing = threading.Event()
        self._lock = GuardedLock(owner, threading.Lock())
        self._thread: threading.Thread | None = None
        _open.add(self)

    def wake(self) -> None:
        """Start the thread that will write the data that was just buffered.

        Raises:
            ForkedProcessError: in a forked child, where no thread will write it.
        """
        self._lock.check()
        if self._thread is None and not self._closing.is_set():
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(
                        target=_run,
                        args=(self._flush, self._closing),
                        name="pegboard-flush",
                        daemon=True,
                    )
                    thread.start()
                    self._thread = thread
                    _close_at_end_of_child()

    def close(self) -> None:
        """Write the remaining data and stop; data that cannot be written is lost, and logged."""
        if self._lock.in_child:
            # The parent writes the data that was buffered before the fork.
            return
        _open.discard(self)
        self._closing.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=30)
        flush = self._flush()
        if flush is not None:
            try:
                flush()
            except Exception:
                logger.exception("flush_failed: the data that was not written yet is lost")


def _run(reference: "weakref.WeakMethod[Callable[[], None]]", closing: threading.Event) -> None:
    is_failing = False
    while not closing.wait(SECONDS):
        flush = reference()
        if flush is None:
            return
        try:
            flush()
            is_failing = False
        except Exception:
            # Logged once, not every two seconds: a lost store may come back.
            if not is_failing:
                logger.exception("flush_failed: it will be tried again")
            is_failing = True
        del flush


def _close_at_end_of_child() -> None:
    # A child that `multiprocessing` forked ends without running the `atexit` functions.
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        util = import_module("multiprocessing.util")
        util.Finalize(None, _close_all, exitpriority=10)


_open: "weakref.WeakSet[WriteBehind]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for it in list(_open):
        it.close()
