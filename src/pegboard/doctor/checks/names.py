"""Names of tools: too long or illegal for clients, or wanted by two."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pegboard.doctor.checks.definitions import KnownTool, wanted_name
from pegboard.doctor.report import Finding, found, shown
from pegboard.model.tool_names import MAX_LENGTH, legal_name

__all__ = ["look_at_names"]

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LISTED = 5


def look_at_names(tools: Iterable[KnownTool]) -> Iterator[Finding]:
    """Give what is wrong with the names that tools are to be shown by."""
    by_name: defaultdict[str, list[KnownTool]] = defaultdict(list)
    too_long: defaultdict[str, list[KnownTool]] = defaultdict(list)
    illegal: defaultdict[str, list[KnownTool]] = defaultdict(list)
    for tool in tools:
        wanted = wanted_name(tool.config, tool.original)
        by_name[legal_name(wanted, (tool.config.name, tool.original))].append(tool)
        if len(wanted) > MAX_LENGTH:
            too_long[tool.config.name].append(tool)
        if _ILLEGAL.search(wanted):
            illegal[tool.config.name].append(tool)
    for server, some in too_long.items():
        yield _too_long(server, some)
    for server, some in illegal.items():
        yield _illegal(server, some)
    for name, some in by_name.items():
        if len(some) > 1:
            yield _colliding(name, some)


def _too_long(server: str, tools: list[KnownTool]) -> Finding:
    first = tools[0]
    short = legal_name(wanted_name(first.config, first.original), (server, first.original))
    return found(
        "name_too_long",
        f"Server {server!r}: with its prefix, {_these(tools)} would have more than the "
        f"{MAX_LENGTH} characters that clients take; {shown(first.original, 80)!r} is called "
        f"{short!r} instead.",
        f'Give the server a shorter name, or its entry a shorter prefix: `"prefix": '
        f'"{_initials(server)}_"`.',
        server=server,
        tool=shown(first.original, 80) if len(tools) == 1 else None,
    )


def _illegal(server: str, tools: list[KnownTool]) -> Finding:
    first = tools[0]
    name = legal_name(wanted_name(first.config, first.original), (server, first.original))
    return found(
        "illegal_name",
        f"Server {server!r}: {_these(tools)} would have characters that clients refuse; "
        f"{shown(first.original, 80)!r} is called {name!r} instead.",
        "That works as it is. Only letters, digits, `_` and `-` in the names of the server and "
        "its tools make it unnecessary.",
        server=server,
        tool=shown(first.original, 80) if len(tools) == 1 else None,
    )


def _colliding(name: str, tools: list[KnownTool]) -> Finding:
    first, second = tools[0], tools[1]
    both = f"{shown(first.original, 80)!r} of server {first.config.name!r} and "
    both += f"{shown(second.original, 80)!r} of server {second.config.name!r}"
    return found(
        "colliding_names",
        f"{both} are both to be called {name!r}; the second gets another name.",
        f'Give the entry {second.config.name!r} a prefix of its own: `"prefix": '
        f'"{_initials(second.config.name)}2_"`.',
        server=second.config.name,
        tool=shown(second.original, 80),
    )


def _these(tools: list[KnownTool]) -> str:
    if len(tools) == 1:
        return "the name of one tool"
    return f"the names of {len(tools)} tools"


def _initials(server: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", server)
    return "".join(word[0] for word in words).lower() or "s"
