"""Watchers of a store: one thread polls for changes, and calls each watcher with them."""

import logging
import threading
from collections.abc import Callable

from pegboard.errors import StorageError
from pegboard.model.fork_guard import GuardedLock
from pegboard.storage.store import StoreChange

__all__ = ["Watchers"]

logger: logging.Logger = logging.getLogger("pegboard.storage")

Watcher = Callable[[StoreChange], object]

PAUSE = 1.0
"""Seconds after a look or a watcher failed."""


class _Told:
    """A watcher, and the changes that it has not taken yet."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.owed: StoreChange | None = None
        self.troubled = False


class Watchers:
    """Tells watchers what a look at the store finds.

    Args:
        look: returns what changed since the last look, or ``None``. Called in one thread only; what
            it raises is logged once, and looked over the next time.
        interval: seconds between two looks; 0 when ``look`` itself waits (then it must return soon
            after ``stopping`` is set).
    """

    def __init__(self, look: Callable[[], StoreChange | None], *, interval: float = 0.25) -> None:
        self.stopping: threading.Event = threading.Event()
        self._look = look
        self._interval = interval
        self._lock = GuardedLock("store", threading.Lock())
        self._told: tuple[_Told, ...] = ()
        self._thread: threading.Thread | None = None

    def add(self, watcher: Watcher, *, before_first: Callable[[], None]) -> Callable[[], None]:
        """Tell a watcher about every later change; call the result to stop.

        ``before_first`` is run before the first look, here and now, so that no change is missed. A
        watcher that raises is told again.
        """
        if not callable(watcher):
            raise TypeError(f"A watcher is a callable that takes a StoreChange, not {watcher!r}.")
        told = _Told(watcher)
        with self._lock:
            before = self._told
            if self._thread is None:
                before_first()
            # Before the thread looks: it tells each change only once.
            self._told = (*before, told)
            if self._thread is None:
                try:
                    self._begin()
                except BaseException:
                    self._told = before
                    raise

        def stop() -> None:
            if self._lock.in_child:
                return
            with self._lock:
                self._told = tuple(it for it in self._told if it is not told)
                thread = None if self._told else self._end()
            _join(thread)

        return stop

    def close(self) -> None:
        """Stop looking, and wait until the last look is over; a forked child does nothing."""
        if self._lock.in_child:
            return
        with self._lock:
            self._told = ()
            thread = self._end()
        _join(thread)

    def _begin(self) -> None:
        stopping = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(stopping,), name="pegboard-store-watch", daemon=True
        )
        self.stopping = stopping
        thread.start()
        self._thread = thread

    def _end(self) -> threading.Thread | None:
        thread, self._thread = self._thread, None
        self.stopping.set()
        return thread

    def _run(self, stopping: threading.Event) -> None:
        troubled = False
        while not stopping.wait(self._interval):
            try:
                change = self._look()
                troubled = False
            except Exception as error:
                # Once, not four times a second; a damaged or vanished store may come back.
                if not troubled:
                    # Our own sentences say it all.
                    trace = not isinstance(error, StorageError)
                    logger.log(logging.ERROR, "store_watch_failed: %s", error, exc_info=trace)
                troubled = True
                stopping.wait(PAUSE)
                continue
            taken = [_tell(told, change) for told in self._told]
            if not all(taken):
                stopping.wait(PAUSE)


def _tell(told: _Told, change: StoreChange | None) -> bool:
    change = _together(told.owed, change)
    if change is None:
        return True
    try:
        told.watcher(change)
    except Exception:
        # The watcher is told again of what it could not take now.
        if not told.troubled:
            logger.exception("store_watcher_failed")
        told.owed, told.troubled = change, True
        return False
    told.owed, told.troubled = None, False
    return True


def _together(one: StoreChange | None, other: StoreChange | None) -> StoreChange | None:
    if one is None or other is None:
        return one or other
    return StoreChange(
        tools=one.tools | other.tools,
        namespaces=one.namespaces | other.namespaces,
        everything=one.everything or other.everything,
    )


def _join(thread: threading.Thread | None) -> None:
    if thread is not None and thread is not threading.current_thread():
        thread.join(timeout=10)
