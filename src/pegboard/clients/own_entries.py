"""The entries of a client's file, with those that Claude Code keeps for each project."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from pegboard.clients.client_file import content_of, with_entries, without_entries
from pegboard.clients.found_servers import ClientFile, FoundServer, servers_in
from pegboard.clients.known_clients import ClientApp
from pegboard.config.problems import value_at

__all__ = ["OwnEntry", "found_by_label", "own_entries", "with_own_entries", "without_own_entries"]


class OwnEntry(NamedTuple):
    """One entry, and where it is in the file."""

    section: tuple[str, ...]
    name: str
    entry: Any
    """As the file has it."""


def own_entries(client: ClientApp, path: Path, text: str) -> dict[str, OwnEntry]:
    """Return the entries by their labels; that of a project's server names the project, too.

    Raises:
        ConfigError: when the file cannot be read.
    """
    content = content_of(path, text)
    sections = {client.section: ""}
    if client.name == "claude-code":
        projects = _members(content, ("projects",))
        sections |= {("projects", folder, "mcpServers"): folder for folder in projects}
    found: dict[str, OwnEntry] = {}
    for section, folder in sections.items():
        for name, entry in _members(content, section).items():
            label = _label(name, Path(folder) if folder else None)
            found.setdefault(label, OwnEntry(section, name, entry))
    return found


def found_by_label(client: ClientApp, path: Path, text: str) -> Mapping[str, FoundServer]:
    """Return what the import finds in the same text, by the same labels.

    Raises:
        ConfigError: when the file cannot be read.
    """
    # Of two with the same name, the first one is in the client's own section.
    found = servers_in(ClientFile(path=path, client=client.name), text)
    return {_label(it.name, it.project): it for it in reversed(found)}


def with_own_entries(path: Path, text: str, entries: Iterable[OwnEntry]) -> str:
    """Return the text with these entries where they belong.

    Raises:
        ConfigError: when they cannot be added without changing more of the file.
    """
    for section, some in _by_section(entries):
        text = with_entries(path, text, section, some)
    return text


def without_own_entries(path: Path, text: str, entries: Iterable[OwnEntry]) -> str:
    """Return the text without these entries.

    Raises:
        ConfigError: when they cannot be removed without changing more of the file.
    """
    for section, some in _by_section(entries):
        text = without_entries(path, text, section, some)
    return text


def _by_section(
    entries: Iterable[OwnEntry],
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    sections: dict[tuple[str, ...], dict[str, Any]] = {}
    for it in entries:
        sections.setdefault(it.section, {})[it.name] = it.entry
    yield from sections.items()


def _members(content: object, section: tuple[str, ...]) -> Mapping[str, Any]:
    found = value_at(content, section)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _label(name: str, project: Path | None) -> str:
    return name if project is None else f"{name} (project {project})"
