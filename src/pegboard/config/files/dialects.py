"""Find the section of servers in a file, in the dialect of any client."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from pegboard.config.files.entry_validation import RawEntry
from pegboard.config.files.jsonc import Document, Node
from pegboard.config.problems import Problem, Severity, shown_key, value_at
from pegboard.model.tool_names import nearest_names

__all__ = ["SECTIONS", "Found", "find_entries", "sections_of"]

SECTIONS: tuple[tuple[str, ...], ...] = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("context_servers",),
)
"""Claude, Cursor and Windsurf; VS Code; the settings of VS Code; Zed."""

_STARTS = ("command", "url", "serverUrl", "httpUrl")


class Found(NamedTuple):
    """The entries of a file, one for each name, and the problems around them."""

    entries: tuple[RawEntry, ...]
    problems: tuple[Problem, ...]
    has_section: bool = True
    """Whether the file has a section for servers, even an empty one."""


def find_entries(content: object, document: Document | None = None) -> Found:
    """Collect the entries of all sections; with a document, problems have a line and column."""
    root = None if document is None else document.root
    if not isinstance(content, Mapping):
        message = "The file must be an object with `mcpServers`."
        return Found((), (_problem(message, document, root),), has_section=False)
    sections = sections_of(cast("Mapping[str, object]", content))
    entries: dict[str, RawEntry] = {}
    problems: list[Problem] = []
    for path, section in sections.items():
        node = None if root is None else root.find(path)
        if not isinstance(section, Mapping):
            message = f"`{'.'.join(path)}` must be an object of servers."
            problems.append(_problem(message, document, node))
            continue
        for entry in _members(cast("Mapping[object, object]", section), node):
            if entry.name in entries:
                message = f"Server {entry.name!r} is in two sections; the last one is used."
                problems.append(_problem(message, document, entry.node, severity="warning"))
            entries[entry.name] = entry
    if content and not sections:
        message = "The file has no `mcpServers`, `servers` or `context_servers`."
        message += _misspelt_section(cast("Mapping[object, object]", content))
        problems.append(_problem(message, document, root, severity="warning"))
    problems += _duplicates(document, entries)
    return Found(tuple(entries.values()), tuple(problems), has_section=bool(sections))


def sections_of(content: Mapping[str, object]) -> dict[tuple[str, ...], object]:
    """Return the sections of servers by their path; the empty path is the whole file."""
    return dict(_sections(content))


def _sections(content: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], object]]:
    is_bare = True
    for path in SECTIONS:
        value = value_at(content, path)
        if value is not None:
            is_bare = False
            yield path, value
    if is_bare and any(value_at(it, (start,)) for it in content.values() for start in _STARTS):
        # Servers without a section around them, as users paste them.
        yield (), {key: it for key, it in content.items() if isinstance(it, Mapping)}


def _misspelt_section(content: Mapping[object, object]) -> str:
    sections = [path[0] for path in SECTIONS]
    for key in content:
        near = nearest_names(key, sections, limit=1)
        if near:
            return f" Did you mean `{near[0]}` instead of `{shown_key(str(key))}`?"
    return ""


def _members(section: Mapping[object, object], node: Node | None) -> Iterator[RawEntry]:
    nodes = {} if node is None else {member.key: member.node for member in node.members}
    for name, value in section.items():
        yield RawEntry(str(name), value, nodes.get(str(name)))


def _duplicates(document: Document | None, entries: Mapping[str, RawEntry]) -> Iterator[Problem]:
    if document is None:
        return
    spans = sorted(
        (entry.node.start, entry.node.end, entry.name)
        for entry in entries.values()
        if entry.node is not None
    )
    for member in document.duplicates:
        message = f"`{shown_key(member.key)}` is here a second time; the last one is used."
        place = document.place(member.start)
        # Entries do not overlap: only the last one that begins before the member can contain it.
        around = spans[: bisect_left(spans, (member.start,))][-1:]
        yield Problem(
            message=message,
            server=next((name for _, end, name in around if member.start < end), None),
            line=place.line,
            column=place.column,
            severity="warning",
        )


def _problem(
    message: str,
    document: Document | None,
    node: Node | None,
    *,
    severity: Severity = "error",
) -> Problem:
    if document is None or node is None:
        return Problem(message=message, severity=severity)
    line, column = document.place(node.start)
    return Problem(message=message, line=line, column=column, severity=severity)
