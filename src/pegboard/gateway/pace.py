"""Pace: searches that are quick are made at once, others in a thread."""

from collections.abc import Callable
from time import thread_time
from typing import TypeVar

import anyio
import anyio.to_thread

from pegboard.gateway.tool_list import ToolList

__all__ = ["QUICK", "Pace"]

T = TypeVar("T")

QUICK = 0.002
"""Seconds of work that nobody notices on an event loop; to ask a thread takes a part of that."""

THREADS = 4
"""So many slow ones at once; whoever searches in floods keeps no thread from anybody else."""


class Pace:
    """Remembers which kinds of searches are quick.

    The first search of a kind, and the first one after a change, may have an index to build.
    """

    def __init__(self, tools: ToolList) -> None:
        self._tools = tools
        self._quick: dict[str, int] = {}
        self._threads = anyio.CapacityLimiter(THREADS)

    async def run(self, kind: str, work: Callable[[], T]) -> T:
        """Return what a search of this kind gives."""
        revision = self._tools.revision
        if self._quick.get(kind) == revision:
            found, took = _timed(work)
        else:
            found, took = await anyio.to_thread.run_sync(_timed, work, limiter=self._threads)
        # How long a pattern takes depends on the pattern, so the last one says nothing.
        if took < QUICK and kind != "regex":
            self._quick[kind] = revision
        else:
            self._quick.pop(kind, None)
        return found


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = thread_time()
    return work(), thread_time() - began
