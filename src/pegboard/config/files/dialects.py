"""Find the section of servers in a file, in the dialect of any client."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from pegboard.config.files.entry_validation import RawEntry
from pegboard.config.files.jsonc import Document
from pegboard.config.files.registry_settings import REGISTRY
from pegboard.config.files.server_defaults import DEFAULTS
from pegboard.config.problems import Problem, ProblemKind, Severity, shown_key, value_at
from pegboard.model.tool_names import nearest_names

__all__ = ["SECTIONS", "Found", "find_entries", "sections_of"]

SECTIONS: tuple[tuple[str, ...], ...] = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("context_servers",),
)
"""Claude, Cursor and Windsurf; VS Code; the settings of VS Code; Zed."""

_SKILLS = "skills"
_BESIDE = (DEFAULTS, REGISTRY, "gateway", "inputs", _SKILLS)
"""Other sections that Pegboard reads."""
_MOST_SHOWN = 3
_ALIKE = 0.75
"""How much a foreign key must be like one of ours to be taken for a slip of the pen."""
_STARTS = ("command", "url", "serverUrl", "httpUrl")


class Found(NamedTuple):
    """The entries of a file, one for each name, and the problems around them."""

    entries: tuple[RawEntry, ...]
    problems: tuple[Problem, ...]
    has_section: bool = True
    """Whether the file has a section for servers, even an empty one."""


def find_entries(content: object, document: Document | None = None) -> Found:
    """Collect the entries of all sections; with a document, problems have a line and column."""
    if not isinstance(content, Mapping):
        message = "The file must be an object with `mcpServers`."
        return Found((), (_problem(message, document, ()),), has_section=False)
    sections = sections_of(cast("Mapping[str, object]", content))
    entries: dict[str, RawEntry] = {}
    problems: list[Problem] = []
    for path, section in sections.items():
        if not isinstance(section, Mapping):
            message = f"`{'.'.join(path)}` must be an object of servers."
            problems.append(_problem(message, document, path))
            continue
        for name, value in cast("Mapping[object, object]", section).items():
            entry = RawEntry(str(name), value, None if document is None else (*path, str(name)))
            if entry.name in entries:
                message = f"Server {entry.name!r} is in two sections; the last one is used."
                problems.append(_problem(message, document, entry.path, severity="warning"))
            entries[entry.name] = entry
    problems += _foreign_keys(cast("Mapping[object, object]", content), sections, document)
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


def _foreign_keys(
    content: Mapping[object, object],
    sections: Mapping[tuple[str, ...], object],
    document: Document | None,
) -> Iterator[Problem]:
    """Yield an error if the file has other keys instead of servers; a warning if beside them.

    Skills can be served without any server.
    """
    if any(len(path) != 1 for path in sections) or ("context_servers",) in sections:
        # Settings of VS Code or Zed, or servers without a section around them.
        return
    known = {*(path[0] for path in SECTIONS), *_BESIDE}
    keys = [str(it) for it in content]
    foreign = [it for it in keys if it not in known and not it.startswith(("_", "$", "//", "#"))]
    what = "The file has no `mcpServers`, `servers` or `context_servers`"
    if not foreign:
        if content and not sections:
            yield _problem(f"{what}.", document, (), severity="warning")
        return
    shown = ", ".join(f"`{shown_key(it)}`" for it in foreign[:_MOST_SHOWN])
    more = len(foreign) - _MOST_SHOWN
    shown += f" and {more} more" if more > 0 else ""
    near = [(it, nearest_names(it, known, limit=1, cutoff=_ALIKE)) for it in foreign]
    meant = next(((it, names[0]) for it, names in near if names), None)
    hint = (
        "" if meant is None else f" Did you mean `{meant[1]}` instead of `{shown_key(meant[0])}`?"
    )
    path = (meant[0] if meant is not None else foreign[0],)
    if sections or _SKILLS in content:
        what = f"Pegboard does not read {shown} of this file.{hint}"
        yield _problem(what, document, path, severity="warning", kind="unknown_field")
    else:
        yield _problem(f"{what}, but {shown}.{hint}", document, path)


def _duplicates(document: Document | None, entries: Mapping[str, RawEntry]) -> Iterator[Problem]:
    if document is None or not document.duplicates:
        return
    found = ((it.name, document.root.find(it.path or ())) for it in entries.values())
    spans = sorted((node.start, node.end, name) for name, node in found if node is not None)
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


def problem_at(path: tuple[str, ...], message: str, document: Document | None) -> Problem:
    """Return an error at a place of the file, with its line if the document is known."""
    return _problem(message, document, path)


def _problem(
    message: str,
    document: Document | None,
    path: tuple[str, ...] | None,
    *,
    severity: Severity = "error",
    kind: ProblemKind = "entry",
) -> Problem:
    node = None if document is None or path is None else document.root.find(path)
    if document is None or node is None:
        return Problem(message=message, severity=severity, kind=kind)
    line, column = document.place(node.start)
    return Problem(message=message, line=line, column=column, severity=severity, kind=kind)
