"""SeenItems: what each client may see of the lists of all servers, collected once for each list."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from pegboard.errors import ServerNotFoundError
from pegboard.gateway.passthrough.listing_cache import Items
from pegboard.gateway.visibility import Part, Visibility
from pegboard.hub import Hub

__all__ = ["Seen", "SeenItems", "in_turns"]

_T = TypeVar("_T")
Seen = dict[str, tuple[str, dict[str, Any]]]
"""Server and definition of each item that a client may see, by its name or URI in the gateway."""
Listed = Sequence[tuple[str, Items]]
_MOST_KEPT = 250_000
"""How many items are kept for all clients together; those of the last client always are."""
_TURN = 200
"""After so many items, other requests have a turn."""
_State = tuple[tuple[Items, object], ...]
"""The lists and the settings of their servers; a change of one makes another object of it."""


class SeenItems:
    """What each client may see of one kind of list.

    A server may list very many items, and each of them takes some time. So what was collected for a
    client stays until a list changes, and one client at a time waits for its turns.

    Args:
        hub: its servers have the items.
        namings: returns what gives the items of one collection their names in the gateway: a
            function of server and item, which returns ``None`` for what no client gets to know.
    """

    def __init__(
        self, hub: Hub, namings: Callable[[], Callable[[str, dict[str, Any]], str | None]]
    ) -> None:
        self._hub = hub
        self._namings = namings
        self._kept: OrderedDict[Part, tuple[_State, Seen]] = OrderedDict()
        self._collecting = anyio.Lock()

    async def of(self, listed: Listed, visibility: Visibility) -> Seen:
        """Return what a client may see of these lists; the caller must not change it."""
        state = tuple((items, self._settings(name)) for name, items in listed)
        known = self._known(state, visibility.part)
        if known is not None:
            return known
        async with self._collecting:
            known = self._known(state, visibility.part)
            if known is None:
                known = await self._collected(listed, visibility)
                self._keep(visibility.part, state, known)
            return known

    def _known(self, state: _State, part: Part) -> Seen | None:
        before, seen = self._kept.get(part, ((), None))
        if seen is None or len(before) != len(state):
            return None
        pairs = zip(before, state, strict=True)
        if not all(old[0] is new[0] and old[1] is new[1] for old, new in pairs):
            return None
        self._kept.move_to_end(part)
        return seen

    def _keep(self, part: Part, state: _State, seen: Seen) -> None:
        self._kept[part] = state, seen
        self._kept.move_to_end(part)
        held = sum(len(it) + 1 for _, it in self._kept.values())
        while held > _MOST_KEPT and len(self._kept) > 1:
            _, (_, dropped) = self._kept.popitem(last=False)
            held -= len(dropped) + 1

    async def _collected(self, listed: Listed, visibility: Visibility) -> Seen:
        named, seen = self._namings(), Seen()
        done = 0
        for server, items in listed:
            for item in items:
                done += 1
                if done % _TURN == 0:
                    await checkpoint()
                name = named(server, item)
                if name is not None and self._sees(visibility, server, name):
                    seen.setdefault(name, (server, item))
        return seen

    def _sees(self, visibility: Visibility, server: str, name: str) -> bool:
        try:
            return visibility.sees_of(server, name, self._hub.server(server).config.tags)
        except ServerNotFoundError:
            return False

    def _settings(self, server: str) -> object:
        try:
            return self._hub.server(server).config
        except ServerNotFoundError:
            return None


async def in_turns(items: Iterable[_T], fits: Callable[[_T], bool]) -> _T | None:
    """Return the first item that fits; after some, other requests have a turn."""
    for number, item in enumerate(items, 1):
        if fits(item):
            return item
        if number % _TURN == 0:
            await checkpoint()
    return None
