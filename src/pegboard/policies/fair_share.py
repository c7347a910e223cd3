"""FairShare: one limit that all callers share, and how much of it each tenant and key holds."""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

__all__ = ["FairShare", "Holder", "LimitUse"]

Holder: TypeAlias = tuple[str, ...]
"""Who holds something: a tenant and a key of it, or only a key where there is one tenant."""

_GENEROSITY = 2
"""A holder may have so many times what stays free for the others."""
_MUCH = 4
"""While less than this part of a limit is used, no holder has too much: the usual case."""


class LimitUse(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a limit is used up; it names a caller, so it is for the operator only."""

    name: str
    """What is limited."""
    used: int
    limit: int
    setting: str = ""
    """The setting that changes the limit; empty if none does."""
    largest: Holder | None = None
    """The holder of the most."""
    largest_used: int = 0


class FairShare:
    """Counts what callers hold of one limit.

    It has a rule for each of two kinds of things:

    - What can give way, such as an idle session: everything may be used. When it is full, the
      largest holder gives way (`largest`).
    - What cannot, such as a call that waits for a person: a new one is refused before it is full,
      if its holder has much already (`admits`). One tenant gets at most two thirds of the limit
      and one key half of it, and so on with the rest: a holder of little always finds room.

    Args:
        name: what is limited, for the operator.
        limit: how much all callers may hold together.
        setting: the setting that changes the limit, if there is one.
    """

    def __init__(self, name: str, limit: int, *, setting: str = "") -> None:
        self.name = name
        self.limit = limit
        self.setting = setting
        self._all = _Share()

    @property
    def used(self) -> int:
        """How much all callers hold together."""
        return self._all.held

    @property
    def holders(self) -> int:
        """How many tenants hold something; keys, where there is one tenant."""
        return len(self._all.parts)

    def held(self, holder: Holder) -> int:
        """Return how much a tenant holds, or one of its keys."""
        share = self._all
        for part in holder:
            found = share.parts.get(part)
            if found is None:
                return 0
            share = found
        return share.held

    def fits(self, amount: int = 1) -> bool:
        """Tell whether there is room, for any holder."""
        return self._all.held + amount <= self.limit

    def admits(self, holder: Holder, amount: int = 1) -> bool:
        """Tell whether a holder may have more, without taking the room of the others."""
        used = self._all.held
        if _MUCH * (used + amount) <= self.limit:
            return True
        free = self.limit - used
        share, held = self._all, 0
        for part in holder:
            found = share.parts.get(part)
            if found is None:
                break
            share = found
            held += share.held
        return amount <= free and held + amount <= _GENEROSITY * free

    def add(self, holder: Holder, amount: int = 1) -> None:
        """Note that a holder has more."""
        share = self._all
        share.held += amount
        for part in holder:
            found = share.parts.get(part)
            if found is None:
                if share.parts is _NO_PARTS:
                    share.parts = {}
                found = share.parts[part] = _Share()
            share = found
            share.held += amount

    def remove(self, holder: Holder, amount: int = 1) -> None:
        """Note that a holder has less."""
        share = self._all
        share.held -= amount
        for part in holder:
            found = share.parts[part]
            found.held -= amount
            if not found.held:
                # What it consists of is nothing either.
                del share.parts[part]
                return
            share = found

    def largest(self, newcomer: Holder = ()) -> Holder | None:
        """Return the holder that gives way: of the largest tenant, the key that holds the most.

        Args:
            newcomer: asks for room; it gives way itself if no other would hold more than it.
        """
        return tuple(_largest(self._all, newcomer)) or None

    def use(self) -> LimitUse:
        """Return how much is used up, and by whom the most."""
        largest = self.largest()
        return LimitUse(
            name=self.name,
            used=self.used,
            limit=self.limit,
            setting=self.setting,
            largest=largest,
            largest_used=0 if largest is None else self.held(largest),
        )


_NO_PARTS: "dict[str, _Share]" = {}


class _Share:
    """What a holder has, and what each part of it has."""

    __slots__ = ("held", "parts")

    def __init__(self) -> None:
        self.held = 0
        self.parts: dict[str, _Share] = _NO_PARTS


def _largest(share: _Share, newcomer: Holder) -> Iterator[str]:
    parts_of_newcomer = iter(newcomer)
    own = next(parts_of_newcomer, None)
    while parts := share.parts:
        name = max(parts, key=lambda part: parts[part].held)
        if own is not None and own in parts and parts[own].held + 1 >= parts[name].held:
            name = own
        own = next(parts_of_newcomer, None) if name == own else None
        yield name
        share = parts[name]
