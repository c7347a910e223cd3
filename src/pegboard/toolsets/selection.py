"""Selection: filter and rename the tools of a view by server, tag, category or name pattern."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypedDict, cast

import msgspec

from pegboard.model import Tool
from pegboard.model.tool_names import name_matcher

__all__ = ["Selection", "View", "compile_selection"]


class Selection(TypedDict, total=False):
    """What a view shows; an option that is left out restricts nothing."""

    servers: Iterable[str]
    """Tools of these servers."""
    tags: Iterable[str]
    """Tools with at least one of these tags."""
    categories: Iterable[str]
    """Tools of these categories."""
    include: Iterable[str]
    """Tools whose name matches one of these glob patterns."""
    exclude: Iterable[str]
    """No tool whose name matches one of these."""
    where: Callable[[Tool], bool]
    """Tools for which this is true; it should depend on nothing but the tool."""
    rename: Mapping[str, str] | Callable[[Tool], str]
    """New names, by old name or from the tool; tools that are not mentioned keep theirs."""
    prefix: str
    """Put before every name, after renaming."""


View = Callable[[Tool], Tool | None]
"""Shows a tool as the view does, or ``None`` when the view does not have it."""

_KNOWN = tuple(Selection.__annotations__)


def compile_selection(selection: Selection) -> View:
    """Return the view of a selection.

    Raises:
        TypeError: when an option is unknown, or is a string instead of a list.
    """
    unknown = set(selection).difference(_KNOWN)
    if unknown:
        raise TypeError(
            f"Unknown option {', '.join(sorted(unknown))}. The known ones are {', '.join(_KNOWN)}."
        )
    tests = tuple(_tests(selection))
    rename = _renamer(selection)

    def show(tool: Tool) -> Tool | None:
        if not all(test(tool) for test in tests):
            return None
        name = rename(tool)
        return tool if name == tool.name else msgspec.structs.replace(tool, name=name)

    return show


def _tests(selection: Selection) -> Iterator[Callable[[Tool], bool]]:
    if "servers" in selection:
        servers = _names("servers", selection["servers"])
        yield lambda tool: tool.server in servers
    if "tags" in selection:
        tags = _names("tags", selection["tags"])
        yield lambda tool: not tags.isdisjoint(tool.tags)
    if "categories" in selection:
        categories = _names("categories", selection["categories"])
        yield lambda tool: tool.category in categories
    if "include" in selection:
        included = name_matcher("include", selection["include"])
        yield lambda tool: included(tool.name)
    if "exclude" in selection:
        excluded = name_matcher("exclude", selection["exclude"])
        yield lambda tool: not excluded(tool.name)
    if "where" in selection:
        yield selection["where"]


def _names(option: str, names: object) -> frozenset[str]:
    if isinstance(names, str):
        raise TypeError(f"`{option}` takes a list of names: [{names!r}].")
    return frozenset(cast("Iterable[str]", names))


def _renamer(selection: Selection) -> Callable[[Tool], str]:
    prefix = selection.get("prefix", "")
    rename: Any = selection.get("rename", {})
    if isinstance(rename, Mapping):
        table = dict(cast("Mapping[str, str]", rename))
        return lambda tool: prefix + table.get(tool.name, tool.name)
    if not callable(rename):
        raise TypeError("`rename` takes a dict of names, or a function from a tool to its name.")
    choose = cast("Callable[[Tool], str]", rename)
    return lambda tool: prefix + choose(tool)
