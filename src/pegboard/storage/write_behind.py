"""Write-behind: a background thread flushes what was collected in memory, also at exit."""

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
    """Calls a method every two seconds while there is something to write, and when closed.

    The method must keep what it could not write, and raise. Its object is held weakly: an owner
    that no other object holds is let go of.
    """

    def __init__(self, flush: Callable[[], None], *, owner: str) -> None:
        self._flush = weakref.WeakMethod(flush)
        self._closing = threading.Event()
        self._lock = GuardedLock(owner, threading.Lock())
        self._thread: threading.Thread | None = None
        _open.add(self)

    def wake(self) -> None:
        """See to it that what was just collected will be written.

        Raises:
            ForkedProcessError: in a forked child, where it never will be.
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
        """Write the rest and stop; what cannot be written is lost, and the log says so."""
        if self._lock.in_child:
            # What was collected before the fork is the parent's to write.
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
                logger.exception("flush_failed: what was not written yet is lost")


def _run(reference: "weakref.WeakMethod[Callable[[], None]]", closing: threading.Event) -> None:
    troubled = False
    while not closing.wait(SECONDS):
        flush = reference()
        if flush is None:
            return
        try:
            flush()
            troubled = False
        except Exception:
            # Once, not every two seconds: a store that is away may come back.
            if not troubled:
                logger.exception("flush_failed: it will be tried again")
            troubled = True
        del flush


def _close_at_end_of_child() -> None:
    # A child that `multiprocessing` forked ends without what is registered with `atexit`.
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        util = import_module("multiprocessing.util")
        util.Finalize(None, _close_all, exitpriority=10)


_open: "weakref.WeakSet[WriteBehind]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for it in list(_open):
        it.close()
