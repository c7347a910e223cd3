"""When a journal is folded: after some quiet, in a thread that is there once it is needed."""

import threading
from collections.abc import Callable
from time import monotonic

__all__ = ["FoldingThread"]

QUIET = 1.0
"""Seconds without a write after which the journal is folded into the files."""
LONGEST_QUIET = 30.0
"""The same for files that take long to write."""
SHARE = 20
"""How much longer than a fold takes it is quiet before the next one."""


class FoldingThread:
    """Folds when nobody has written for a while, or when the journal has grown.

    Args:
        fold: folds the journal, and tells whether there is more to fold.
        overdue: tells whether the journal is so long that nobody waits for quiet.
    """

    def __init__(self, fold: Callable[[], bool], *, overdue: Callable[[], bool]) -> None:
        self._fold = fold
        self._overdue = overdue
        self._quiet = 0.0
        self.start_anew()

    def start_anew(self) -> None:
        """Be as at the beginning: a forked child has no such thread."""
        self._called = threading.Event()
        self._thread: threading.Thread | None = None
        self._idle = True
        self._last_write = 0.0
        self._stopping = False

    def wake(self) -> None:
        """Say that something was written; one at a time.

        Raises:
            RuntimeError: when there can be no more threads.
        """
        self._last_write = monotonic()
        if self._stopping:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="pegboard-store-fold", daemon=True)
            thread.start()
            self._thread = thread
        # Not for every write: to wake a thread takes longer than to write.
        if self._idle or self._overdue():
            self._idle = False
            self._called.set()

    def stop(self) -> None:
        """Fold no more, and wait until the last fold is over."""
        self._stopping = True
        thread, self._thread = self._thread, None
        self._called.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        called = self._called
        while self._wait_until_quiet(called):
            # Before the fold: what is written meanwhile calls again.
            self._idle = True
            began = monotonic()
            more = self._fold()
            self._quiet = min(SHARE * (monotonic() - began), LONGEST_QUIET)
            if more:
                # What was written meanwhile has its time, too.
                self._last_write = monotonic()
                self._idle = False
                called.set()

    def _wait_until_quiet(self, called: threading.Event) -> bool:
        called.wait()
        called.clear()
        quiet = max(QUIET, self._quiet)
        while not self._stopping and not self._overdue():
            rest = self._last_write + quiet - monotonic()
            if rest <= 0:
                break
            called.wait(rest)
            called.clear()
        return not self._stopping
