"""WatchedResources: which resources of a server somebody wants to hear about."""

from collections import Counter

import anyio

__all__ = ["WatchedResources"]


class WatchedResources:
    """The URIs that are watched, each by as many as asked for it; sessions come and go."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self._changed = anyio.Event()
        self._asked: frozenset[str] = frozenset()
        self._granted: frozenset[str] = frozenset()
        self._answered = anyio.Event()

    @property
    def uris(self) -> frozenset[str]:
        """What is watched now."""
        return frozenset(self._count)

    def add(self, uri: str) -> bool:
        """Watch a resource; ``True`` if nobody did before."""
        self._count[uri] += 1
        if self._count[uri] > 1:
            return False
        self._wake()
        return True

    def remove(self, uri: str) -> bool:
        """Watch a resource no longer; ``True`` if nobody does now."""
        if uri not in self._count:
            return False
        self._count[uri] -= 1
        if self._count[uri]:
            return False
        del self._count[uri]
        self._wake()
        return True

    async def changed(self) -> None:
        """Wait until other resources are watched than now."""
        await self._changed.wait()

    def answered(self, asked: frozenset[str], granted: frozenset[str]) -> None:
        """Note what a server of the modern era was asked to tell about, and agreed to."""
        self._asked, self._granted = asked, granted
        waiting, self._answered = self._answered, anyio.Event()
        waiting.set()

    async def granted(self, uri: str) -> bool:
        """Wait until a server of the modern era was asked, and tell whether it agreed."""
        while uri not in self._asked:
            await self._answered.wait()
        return uri in self._granted

    def _wake(self) -> None:
        waiting, self._changed = self._changed, anyio.Event()
        waiting.set()
