"""Watchers of a store: one thread polls for changes and calls each watcher with them."""

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
"""Seconds to wait after a poll or a watcher failed."""


class _Subscriber:
    """A watcher, and the change that it has not accepted yet."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.pending: StoreChange | None = None
        self.is_failing = False


class Watchers:
    """Calls watchers with the changes that polling the store finds.

    Args:
        poll: returns what changed since the last poll, or ``None``. Called in one thread only. Its
            first exception is logged, and polling goes on.
        interval: seconds between two polls; 0 when ``poll`` itself waits (then it must return soon
            after ``stopping`` is set).
    """

    def __init__(self, poll: Callable[[], StoreChange | None], *, interval: float = 0.25) -> None:
        self.stopping: threading.Event = threading.Event()
        self._poll = poll
        self._interval = interval
        self._lock = GuardedLock("store", threading.Lock())
        self._told: tuple[_Subscriber, ...] = ()
        self._thread: threading.Thread | None = None

    def add(self, watcher: Watcher, *, before_first: Callable[[], None]) -> Callable[[], None]:
        """Call a watcher with every later change; call the result to stop.

        ``before_first`` runs in the caller's thread before the first poll, so that no change is
        missed. A watcher that raises is called again with the same change.
        """
        if not callable(watcher):
            raise TypeError(f"A watcher is a callable that takes a StoreChange, not {watcher!r}.")
        subscriber = _Subscriber(watcher)
        with self._lock:
            before = self._told
            if self._thread is None:
                before_first()
            # Before the thread polls: it reports each change only once.
            self._told = (*before, subscriber)
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
                self._told = tuple(it for it in self._told if it is not subscriber)
                thread = None if self._told else self._end()
            _join(thread)

        return stop

    def close(self) -> None:
        """Stop polling, and wait until the last poll has ended; a forked child does nothing."""
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
        is_failing = False
        while not stopping.wait(self._interval):
            try:
                change = self._poll()
                is_failing = False
            except Exception as error:
                # Logged once, not four times a second: a lost store may come back.
                if not is_failing:
                    # The message of a storage error says it all.
                    trace = not isinstance(error, StorageError)
                    logger.log(logging.ERROR, "store_watch_failed: %s", error, exc_info=trace)
                is_failing = True
                stopping.wait(PAUSE)
                continue
            accepted = [_notify(it, change) for it in self._told]
            if not all(accepted):
                stopping.wait(PAUSE)


def _notify(subscriber: _Subscriber, change: StoreChange | None) -> bool:
    change = _together(subscriber.pending, change)
    if change is None:
        return True
    try:
        subscriber.watcher(change)
    except Exception:
        # The watcher is called again with the change that it could not handle now.
        if not subscriber.is_failing:
            logger.exception("store_watcher_failed")
        subscriber.pending, subscriber.is_failing = change, True
        return False
    subscriber.pending, subscriber.is_failing = None, False
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
