"""Garbage collection: make many long-lived objects without the pauses of full collections."""

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["MANY", "freeze_batches", "postponed_collections"]

MANY = 2_000
"""From so many tools on, a batch postpones the full collections of the garbage collector."""
_NEVER = 1_000_000
_postponing = threading.Lock()
_postponed: list[tuple[int, int, int]] = []
_frozen = threading.Event()


def freeze_batches() -> None:
    """Take what there is now, and each large batch from now on, out of all later collections.

    It is for a process that serves: otherwise each full collection looks through the whole board
    while every caller waits. A program that uses the library decides that for itself.
    """
    _frozen.set()
    gc.collect(1)
    gc.freeze()


@contextmanager
def postponed_collections(size: int) -> Generator[None]:
    """Let no full garbage collection happen while a batch of so many tools is made.

    New objects by the million trigger one after the other, each looks at every object there is, and
    all threads wait for it. Young objects are collected as usual.
    """
    if size < MANY:
        yield
        return
    with _postponing:
        young, middle, _ = now = gc.get_threshold()
        # That of before the first one; the others find it changed.
        _postponed.append(_postponed[0] if _postponed else now)
        gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        with _postponing:
            before = _postponed.pop()
            if _frozen.is_set():
                gc.freeze()
            if not _postponed:
                gc.set_threshold(*before)
