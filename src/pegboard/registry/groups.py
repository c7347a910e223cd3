"""Groups of tools: switched off and on together, and checked names."""

from collections.abc import Iterable

__all__ = ["ToolGroups", "group_names"]


class ToolGroups:
    """Which groups are switched off; a tool that is in one of them is neither shown nor called.

    A group may be switched off before any tool names it: tools that come later are hidden, too.
    """

    def __init__(self) -> None:
        self.off: frozenset[str] = frozenset()

    def hides(self, groups: Iterable[str]) -> bool:
        """Tell whether one of the groups of a tool is switched off."""
        return not self.off.isdisjoint(groups)

    def switch(self, group: str, *, on: bool) -> frozenset[str]:
        """Switch a group on or off, and return which groups were off before."""
        before = self.off
        self.off = before - {group} if on else before | {group}
        return before

    def states(self, named: Iterable[str]) -> dict[str, bool]:
        """Return every group that tools name or that is off, and whether it is switched on."""
        return {group: group not in self.off for group in sorted({*named, *self.off})}


def group_names(groups: Iterable[str]) -> tuple[str, ...]:
    """Return the names of groups, each once.

    Raises:
        TypeError: when they are not a list of strings.
    """
    names = () if isinstance(groups, str) else tuple(dict.fromkeys(groups))
    if isinstance(groups, str) or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`groups` takes a list of names, not {groups!r}.")
    return names
