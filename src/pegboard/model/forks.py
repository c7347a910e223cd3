"""What has locks starts anew in a forked child, where the threads that held them do not exist."""

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["Forkable", "start_anew_in_children"]


class Forkable(Protocol):
    """Something with locks."""

    def after_fork(self) -> None:
        """Make new locks, and forget who held or waited for the old ones."""
        ...


_known: "WeakSet[Forkable]" = WeakSet()


def start_anew_in_children(thing: Forkable) -> None:
    """Call `after_fork` in every child that this process forks."""
    _known.add(thing)


def _after_fork() -> None:
    for thing in list(_known):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
