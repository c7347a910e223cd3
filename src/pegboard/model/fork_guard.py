"""What has locks starts anew in a forked child, where the threads that held them do not exist."""

import logging
import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["Forkable", "Resumable", "resume_in_children", "start_anew_in_children"]


logger: logging.Logger = logging.getLogger("pegboard.model")


class Forkable(Protocol):
    """Something with locks."""

    def after_fork(self) -> None:
        """Make new locks, and forget who held or waited for the old ones."""
        ...


class Resumable(Protocol):
    """Something that goes on in a child what it did in its parent."""

    def resume_in_child(self) -> None:
        """Begin again; everything has new locks by now."""
        ...


_known: "WeakSet[Forkable]" = WeakSet()
_resuming: "WeakSet[Resumable]" = WeakSet()


def start_anew_in_children(thing: Forkable) -> None:
    """Call `after_fork` in every child that this process forks."""
    _known.add(thing)


def resume_in_children(thing: Resumable) -> None:
    """Call `resume_in_child` in every child, after everything has started anew."""
    _resuming.add(thing)


def _after_fork() -> None:
    for begin in (
        *(thing.after_fork for thing in list(_known)),
        *(thing.resume_in_child for thing in list(_resuming)),
    ):
        try:
            begin()
        except Exception:
            # The others have to start anew all the same.
            logger.exception("after_fork_failed")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
