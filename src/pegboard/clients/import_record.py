"""The record of imports: which server of our file came from which entry of a client's file."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from platformdirs import user_state_path

from pegboard.clients.identity import Identity, is_same
from pegboard.config.atomic_write import read_file, write_file
from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError

__all__ = ["ImportRecord", "Imported"]

_Names = dict[str, list[str]]
_Known = dict[str, dict[str, _Names]]


class Imported(NamedTuple):
    """An entry in the file of a client, and the name of the same server in our file."""

    path: Path
    name: str
    ours: str


class ImportRecord:
    """What was imported into one of our files, so that a server is known after it was edited.

    Two entries with one program and different variables may be two accounts. Only if one was
    imported as the other, they are one server. The record contains names and paths, no secrets.
    """

    def __init__(self, file: Path | None) -> None:
        """Read the record of a file; a damaged record counts as an empty one."""
        self._place = user_state_path("pegboard", appauthor=False) / "clients" / "imports.json"
        self._file = "" if file is None else str(file)
        self._read = b""
        self._known: _Known = {}
        with suppress(ConfigError, msgspec.MsgspecError):
            self._read = read_file(self._place) or b""
            self._known = msgspec.json.decode(self._read, type=_Known) if self._read else {}

    def name_of(
        self, path: Path, name: str, config: ServerConfig, ours: Mapping[str, ServerConfig]
    ) -> str | None:
        """Return the name of a client's server in our file, if both run the same program.

        Args:
            path: the file of the client.
            name: the name of the server there.
            config: the server there.
            ours: the servers of our file.
        """
        names = self._known.get(self._file, {}).get(str(path), {}).get(name, [])
        # Claude Code has servers of several projects in one file, which may share a name.
        if len(names) != 1 or names[0] not in ours:
            return None
        return names[0] if is_same(_program(config), _program(ours[names[0]])) else None

    def note(self, imported: Iterable[Imported]) -> None:
        """Add imports to the record, and write it if it changed; a failure is no error."""
        clients = self._known.setdefault(self._file, {})
        fresh: dict[tuple[str, str], list[str]] = {}
        for it in imported:
            names = fresh.setdefault((str(it.path), it.name), [])
            if it.ours not in names:
                names.append(it.ours)
        for (path, name), names in fresh.items():
            clients.setdefault(path, {})[name] = names
        content = msgspec.json.encode(self._known)
        if fresh and content != self._read:
            with suppress(ConfigError):
                write_file(self._place, content, instead_of=read_file(self._place))


def _program(config: ServerConfig) -> Identity:
    """Return the program or the address of a server, without its variables and its folder."""
    if config.transport == "stdio":
        return ("stdio", re.split(r"[/\\]", config.command or "")[-1], *config.args)
    return "address", (config.url or "").rstrip("/")
