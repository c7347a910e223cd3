"""Edit the user's file of servers, and keep its comments, order and formatting."""

import os
import re
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from pegboard.config.approval import ServerApproval
from pegboard.config.atomic_write import read_file, write_file
from pegboard.config.files.dialects import find_entries, sections_of
from pegboard.config.files.edit_jsonc import remove_member, set_member, set_members
from pegboard.config.files.entry import SPELLINGS, ServerEntry
from pegboard.config.files.entry_validation import EntryContext, Interpretation, RawEntry, interpret
from pegboard.config.files.jsonc import Document, parse_jsonc
from pegboard.config.files.locate import ABSENT, NO_FILE, candidates, user_config_file
from pegboard.config.files.registry_settings import registry_settings_of
from pegboard.config.files.server_defaults import read_defaults
from pegboard.config.made_files import note_made
from pegboard.config.problems import Problem
from pegboard.config.secrets.variables import Variables, input_defaults
from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError, ServerNotAllowedError, ServerNotFoundError

__all__ = ["ServersFile", "entry_of", "file_to_edit"]

_KEPT = re.compile(r"\$\{(?:keyring|file):[^{}]*\}")
_NEW = '{\n  "mcpServers": {}\n}\n'


def file_to_edit(source: str | os.PathLike[str] | None = None) -> Path:
    """Return the file that servers are read from, or the path where it would be created.

    Raises:
        ConfigError: when the path is a folder or cannot be read.
    """
    for path, fault, origin in candidates(source):
        if fault is None:
            return path
        if origin in ("explicit", "PEGBOARD_CONFIG"):
            # A pipe can be read once; writing it fails later.
            if fault not in (ABSENT, NO_FILE):
                raise ConfigError(f"The configuration file {fault}.", path=str(path))
            return path
    return user_config_file()


class ServersFile:
    """The text of the file, with its edits; only `save` writes it."""

    def __init__(self, path: Path) -> None:
        """Read the file, if it exists.

        Raises:
            ConfigError: when it cannot be read, is not JSON, or is not an object.
        """
        self.path = path
        self._before = read_file(path)
        self._text = _NEW
        self._parsed: tuple[str, Document] | None = None
        if self._before is not None and self._before.strip():
            # Parsed once from the bytes: that finds the place of what is not UTF-8.
            document = parse_jsonc(self._before, path=str(path))
            if not isinstance(document.value, Mapping):
                raise ConfigError("The file must be an object with `mcpServers`.", path=str(path))
            self._text = self._before.decode()
            self._parsed = self._text, document

    @property
    def is_new(self) -> bool:
        """Whether the file did not exist."""
        return self._before is None

    @property
    def text(self) -> str:
        """The whole file with its edits; it may contain secrets."""
        return self._text

    @property
    def entries(self) -> dict[str, RawEntry]:
        """The entries by name, as the file has them."""
        document = self._document()
        return {it.name: it for it in find_entries(document.value, document).entries}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong around the entries."""
        document = self._document()
        return find_entries(document.value, document).problems

    def kept_references(self) -> Iterator[str]:
        """Give the references of the servers to secrets that are kept elsewhere, in order."""
        for entry in self.entries.values():
            yield from _references(entry.value)

    def readings(
        self, environ: Mapping[str, str] | None = None, *, of: Container[str] | None = None
    ) -> dict[str, Interpretation]:
        """Interpret each entry, by name, without reading secrets.

        Args:
            environ: the environment variables; an undefined one is a problem. Without it,
                variables stay as they are written.
            of: the names of the entries; ``None`` is all of them.
        """
        document = self._document()
        variables = Variables(
            environ=environ or {},
            undefined="keep" if environ is None else "error",
            input_defaults=input_defaults(document.value),
            reads_secrets=False,
            home="~",
        )
        defaults, _ = read_defaults(document.value, document)
        context = EntryContext(variables, self.path.parent, document, defaults)
        return {
            name: interpret(it, context)
            for name, it in self.entries.items()
            if of is None or name in of
        }

    def put(self, name: str, entry: Mapping[str, Any]) -> None:
        """Add a server, or replace the one that has this name.

        Raises:
            ConfigError: when the file has no section that can hold servers.
        """
        self.put_all({name: entry})

    def put_all(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """Add or replace servers by name; the text is parsed and changed once for all of them.

        Raises:
            ConfigError: when the file has no section that can hold servers.
        """
        section_of = self._sections()
        by_section: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
        for name, entry in entries.items():
            by_section.setdefault(section_of(name), {})[name] = entry
        for section, members in by_section.items():
            self._text = set_members(self._text, section, members, file=str(self.path))

    def change(self, name: str, entry: Mapping[str, Any]) -> None:
        """Change those fields of a server that differ, and keep the rest with its comments.

        Raises:
            ServerNotFoundError: when no server has this name.
        """
        before = self._expect(name).value
        if not isinstance(before, Mapping):
            self.put(name, entry)
            return
        known = cast("Mapping[str, object]", before)
        for field in known.keys() - entry.keys():
            self._text = remove_member(self._text, (*self._section(name), name, field))
        for field, value in entry.items():
            if field not in known or known[field] != value:
                self.set_field(name, field, value)

    def put_back(self, text: str) -> None:
        """Replace the whole text by an earlier one.

        Raises:
            ConfigError: when it is not JSON.
        """
        parse_jsonc(text, path=str(self.path))
        self._text = text

    def check(self, name: str, entry: Mapping[str, Any]) -> tuple[Problem, ...]:
        """Return what to warn of before a server is written.

        Raises:
            ConfigError: when the entry could not be read from the file again.
            ServerNotAllowedError: when the lists of the file do not allow it.
        """
        variables = Variables(environ={}, undefined="keep", reads_secrets=False)
        reading = interpret(RawEntry(name, entry), EntryContext(variables, self.path.parent))
        for problem in reading.problems:
            if problem.severity == "error":
                raise ConfigError(problem.message)
        if reading.config is not None:
            settings = registry_settings_of(self.path)
            approval = ServerApproval(allow=settings.allow, deny=settings.deny)
            objection = approval.objection(reading.config)
            if objection:
                raise ServerNotAllowedError(reading.config.redact(f"Not allowed: {objection}."))
        return tuple(it for it in reading.problems if it.kind != "plain_secret")

    def set_field(self, name: str, field: str, value: object) -> None:
        """Change one field of a server, and keep the rest of its entry.

        Raises:
            ServerNotFoundError: when no server has this name.
        """
        self._expect(name)
        path = (*self._section(name), name, field)
        self._text = set_member(self._text, path, value, file=str(self.path))

    def remove(self, name: str) -> None:
        """Remove a server.

        Raises:
            ServerNotFoundError: when no server has this name.
        """
        self._expect(name)
        while name in self.entries:
            self._text = remove_member(self._text, (*self._section(name), name))

    def switch(self, name: str, *, on: bool) -> bool:
        """Switch a server on or off, and tell whether that changed anything.

        Raises:
            ServerNotFoundError: when no server has this name.
            ConfigError: when its entry is not an object.
        """
        entry = self._expect(name).value
        if not isinstance(entry, Mapping):
            raise ConfigError(f"Server {name!r} must be an object.", path=str(self.path))
        members = cast("Mapping[str, object]", entry)
        off = {"enabled": False, "disabled": True}
        # In every spelling, and all of them.
        known = {key: SPELLINGS[ServerEntry].get(key, key) for key in members}
        switches = [key for key, field in known.items() if field in off]
        path = (*self._section(name), name)
        if all(members[key] is not off[known[key]] for key in switches) == on:
            return False
        kept = next((key for key in switches if known[key] == "enabled" and not on), None)
        for key in switches:
            if key != kept:
                self._text = remove_member(self._text, (*path, key))
        if not on:
            self._text = set_member(self._text, (*path, kept or "enabled"), False)  # noqa: FBT003 - the value
        return True

    def save(self) -> None:
        """Write the file atomically.

        Raises:
            ConfigError: when it cannot be written, or another program wrote it in the meantime.
        """
        content = self._text.encode()
        if content != self._before:
            if self._before is None and self.path == user_config_file():
                note_made(self.path)
            write_file(self.path, content, instead_of=self._before)
            self._before = content

    def _document(self) -> Document:
        if self._parsed is None or self._parsed[0] is not self._text:
            self._parsed = self._text, parse_jsonc(self._text, path=str(self.path))
        return self._parsed[1]

    def _expect(self, name: str) -> RawEntry:
        entries = self.entries
        if name not in entries:
            raise ServerNotFoundError(name, known=list(entries))
        return entries[name]

    def _section(self, name: str) -> tuple[str, ...]:
        """Return the section of this server, or the section for a new one."""
        return self._sections()(name)

    def _sections(self) -> Callable[[str], tuple[str, ...]]:
        """Return a function that finds the section of a server, or the section for a new one."""
        content = cast("Mapping[str, object]", self._document().value)
        sections = sections_of(content)

        def section(name: str) -> tuple[str, ...]:
            holding = [
                path
                for path, value in sections.items()
                if isinstance(value, Mapping) and name in value
            ]
            # If two sections have the server, the last one is used.
            return [*holding[-1:], *sections, ("mcpServers",)][0]

        return section


def entry_of(config: ServerConfig) -> dict[str, Any]:
    """Return the entry that `load_servers` reads as this server; default values are left out.

    The entry contains all values, also secrets. Replace secrets by variables before you write the
    entry to a file.

    Raises:
        ConfigError: for a server object of this process, which cannot be written to a file.
    """
    if config.transport == "memory":
        raise ConfigError(
            f"Server {config.name!r} is an object of this process and cannot be written to a file."
        )
    fields = cast("dict[str, Any]", msgspec.to_builtins(config))
    entry = {"type": fields.pop("transport"), **fields}
    for derived in ("name", "secrets", "shared_env"):
        entry.pop(derived, None)
    if config.oauth is not None and not entry["oauth"]:
        entry["oauth"] = True
    return {field: _escaped(value) for field, value in entry.items() if value != {}}


def _references(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from _KEPT.findall(value)
    elif isinstance(value, Mapping):
        for it in cast("Mapping[str, object]", value).values():
            yield from _references(it)
    elif isinstance(value, list):
        for it in cast("list[object]", value):
            yield from _references(it)


def _escaped(value: object) -> object:
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: _escaped(it) for key, it in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_escaped(it) for it in cast("list[object]", value)]
    return value
