"""Check tool names: too long for clients, illegal characters, and name conflicts."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pegboard.doctor.checks.definitions import KnownTool
from pegboard.doctor.report import Finding, found, shown
from pegboard.model.tool_names import MAX_LENGTH, legal_name

__all__ = ["check_names"]

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LISTED = 5


def check_names(tools: Iterable[KnownTool]) -> Iterator[Finding]:
    """Yield what is wrong with the names that clients will see."""
    by_name: defaultdict[str, list[KnownTool]] = defaultdict(list)
    too_long: defaultdict[str, list[KnownTool]] = defaultdict(list)
    illegal: defaultdict[str, list[KnownTool]] = defaultdict(list)
    for tool in tools:
        wanted = tool.config.tool_name(tool.original)
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
    short = legal_name(first.config.tool_name(first.original), (server, first.original))
    return found(
        "name_too_long",
        f"Server {server!r}: with the prefix, {_these(tools)} would be longer than the "
        f"{MAX_LENGTH} characters that clients accept. Pegboard calls "
        f"{shown(first.original, 80)!r} {short!r} instead.",
        f'Give the server a shorter name, or its entry a shorter prefix: `"prefix": '
        f'"{_initials(server)}_"`.',
        server=server,
        tool=shown(first.original, 80) if len(tools) == 1 else None,
    )


def _illegal(server: str, tools: list[KnownTool]) -> Finding:
    first = tools[0]
    name = legal_name(first.config.tool_name(first.original), (server, first.original))
    return found(
        "illegal_name",
        f"Server {server!r}: {_these(tools)} would contain characters that clients refuse. "
        f"Pegboard calls {shown(first.original, 80)!r} {name!r} instead.",
        "No action is needed. To keep the original names, use only letters, digits, `_` and `-` "
        "in the names of the server and its tools.",
        server=server,
        tool=shown(first.original, 80) if len(tools) == 1 else None,
    )


def _colliding(name: str, tools: list[KnownTool]) -> Finding:
    first, second = tools[0], tools[1]
    both = f"{shown(first.original, 80)!r} of server {first.config.name!r} and "
    both += f"{shown(second.original, 80)!r} of server {second.config.name!r}"
    return found(
        "colliding_names",
        f"The tools {both} want the same name {name!r}. The second one gets another name.",
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
