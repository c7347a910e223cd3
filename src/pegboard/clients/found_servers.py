"""Find the servers in the files of clients on this machine, and the files that others can read."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from pegboard.clients.client_dialects import in_usual_fields
from pegboard.clients.client_file import content_of, is_toml, is_yaml, text_of
from pegboard.clients.known_clients import CLIENTS, ClientApp, Machine, is_file, is_folder
from pegboard.clients.our_entry import map_texts, our_entry
from pegboard.config.atomic_write import read_file
from pegboard.config.files.dialects import SECTIONS, find_entries
from pegboard.config.problems import value_at
from pegboard.config.secrets.plain_secrets import plain_secrets
from pegboard.errors import ConfigError

__all__ = [
    "AskedInput",
    "ClientFile",
    "FoundServer",
    "answer_inputs",
    "asked_inputs",
    "exposed_files",
    "files_of_clients",
    "inputs_used",
    "is_exposed",
    "servers_in",
]

_PARTS_OF_GOOSE = ("builtin", "platform", "frontend", "inline_python")
"""Extensions of these types are no MCP servers: Goose runs them itself."""
_INPUT = re.compile(r"\$\$\{|\$\{input:([^{}]*)\}")


class AskedInput(msgspec.Struct, frozen=True, kw_only=True):
    """A question that VS Code asks the user: an ``${input:ID}``."""

    id: str
    description: str = ""
    is_secret: bool = True
    default: str | None = None


def asked_inputs(content: Mapping[str, Any]) -> tuple[AskedInput, ...]:
    """Return the inputs that a file declares."""
    found: list[AskedInput] = []
    for section in (("inputs",), ("mcp", "inputs")):
        inputs = value_at(content, section)
        for asked in cast("list[object]", inputs) if isinstance(inputs, list) else ():
            identity, told = value_at(asked, ("id",)), value_at(asked, ("description",))
            default = value_at(asked, ("default",))
            if isinstance(identity, str):
                found.append(
                    AskedInput(
                        id=identity,
                        description=told if isinstance(told, str) else "",
                        is_secret=value_at(asked, ("password",)) is True,
                        default=default if isinstance(default, str) else None,
                    )
                )
    return tuple(found)


def inputs_used(entry: Mapping[str, Any], asked: tuple[AskedInput, ...]) -> list[AskedInput]:
    """Return the inputs that an entry uses, also those that the file does not declare."""
    used: dict[str, None] = {}

    def seen(text: str) -> str:
        used.update(dict.fromkeys(it[1] for it in _INPUT.finditer(text) if it[1] is not None))
        return text

    map_texts(entry, seen)
    known = {it.id: it for it in asked} if used else {}
    return [known.get(it, AskedInput(id=it)) for it in used]


def answer_inputs(entry: Mapping[str, Any], answers: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry with inputs replaced by these answers; other inputs stay."""

    def replaced(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else answers.get(found[1], found[0])

    return cast("dict[str, Any]", map_texts(entry, lambda it: _INPUT.sub(replaced, it)))


class ClientFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with servers, and the client that it belongs to."""

    path: Path
    client: str = "file"
    project: Path | None = None
    """The folder of the project that the file belongs to; ``None`` for the user's own file."""


class FoundServer(msgspec.Struct, frozen=True, kw_only=True):
    """One server in the file of a client."""

    client: str
    path: Path
    name: str
    entry: dict[str, Any] | None
    """With our field names; ``None`` when it is not an object, or Pegboard cannot start it."""
    problem: str | None = None
    """Why there is no entry."""
    inputs: tuple[AskedInput, ...] = ()
    """The inputs that the whole file declares."""
    project: Path | None = None
    """The folder of the project that the server belongs to."""

    def __repr__(self) -> str:
        # The entry may contain secrets.
        return f"FoundServer({self.name!r}, client={self.client!r})"


def files_of_clients(machine: Machine, names: tuple[str, ...] = ()) -> list[ClientFile]:
    """Return the files that exist, of these clients or of all."""
    found: list[ClientFile] = []
    for client in CLIENTS.values():
        if names and client.name not in names:
            continue
        users = [it for it in _with_settings(client, machine) if is_file(it)]
        found += [ClientFile(path=it, client=client.name) for it in users]
        if client.project_file is not None:
            path = machine.directory / client.project_file
            if is_file(path) and path not in users:
                project = machine.directory
                found.append(ClientFile(path=path, client=client.name, project=project))
    return found


def servers_in(file: ClientFile, text: str | None = None) -> list[FoundServer]:
    """Return the servers of a file, in its order.

    Args:
        file: the file.
        text: the text of the file; by default it is read.

    Raises:
        ConfigError: when the file cannot be read.
    """
    content = content_of(
        file.path, text_of(file.path, read_file(file.path)) if text is None else text
    )
    inputs = asked_inputs(content)
    return [
        FoundServer(
            client=file.client,
            path=file.path,
            name=name,
            entry=_understood(raw, file, folder),
            problem=_why_not(raw, folder),
            inputs=inputs,
            project=folder,
        )
        for name, raw, folder in _raw_entries(file, content)
    ]


def _with_settings(client: ClientApp, machine: Machine) -> list[Path]:
    places = client.files(machine)
    if client.name == "vscode":
        # Before there was an `mcp.json`, VS Code had servers in its `settings.json`.
        places = [it for place in places for it in (place, place.with_name("settings.json"))]
    return places


def _raw_entries(
    file: ClientFile, content: dict[str, Any]
) -> Iterator[tuple[str, object, Path | None]]:
    client = CLIENTS.get(_dialect_of(file))
    if client is not None and client.section not in SECTIONS:
        for name, entry in _object(value_at(content, client.section)).items():
            if client.name != "goose" or value_at(entry, ("type",)) not in _PARTS_OF_GOOSE:
                yield name, entry, file.project
        return
    found = find_entries(content)
    if found.has_section:
        for entry in found.entries:
            yield entry.name, _switched(file, content, entry.name, entry.value), file.project
    for folder, settings in _object(content.get("projects")).items():
        # Claude Code keeps the servers of each project here.
        off = value_at(settings, ("disabledMcpServers",))
        for name, entry in _object(value_at(settings, ("mcpServers",))).items():
            is_off = isinstance(off, list) and name in off
            yield name, _off(entry) if is_off else entry, Path(folder)


def _dialect_of(file: ClientFile) -> str:
    # Only Codex has TOML and only Goose YAML, whatever such a file is called.
    return "codex" if is_toml(file.path) else "goose" if is_yaml(file.path) else file.client


def _switched(file: ClientFile, content: dict[str, Any], name: str, entry: object) -> object:
    has_list = file.client in ("gemini", "qwen")
    excluded = value_at(content, ("mcp", "excluded")) if has_list else None
    return _off(entry) if isinstance(excluded, list) and name in excluded else entry


def _off(entry: object) -> object:
    if not isinstance(entry, Mapping):
        return entry
    return {**cast("Mapping[str, object]", entry), "enabled": False}


def _why_not(raw: object, project: Path | None) -> str | None:
    if not isinstance(raw, Mapping):
        return "It is not an object."
    is_extension = "settings" in raw or value_at(cast("object", raw), ("source",)) == "extension"
    if is_extension and not {"command", "url"} & set(cast("Mapping[str, object]", raw)):
        return "It is an extension that only Zed can start."
    is_gone = project is not None and not is_folder(project)
    return f"The folder of its project no longer exists: {project}" if is_gone else None


def _understood(raw: object, file: ClientFile, project: Path | None) -> dict[str, Any] | None:
    if _why_not(raw, project) is not None:
        return None
    entry = in_usual_fields(_dialect_of(file), cast("Mapping[str, Any]", raw))
    return our_entry(entry, folder=file.path.parent, project=project)


def _object(value: object) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


_OTHERS_READ, _OTHERS_PASS = 0o044, 0o011


def is_exposed(path: Path) -> bool:
    """Tell whether other users can read a file; only POSIX has the modes to tell."""
    try:
        whole, home = path.resolve(), Path.home().resolve()
        # A user who keeps others out does so at the home folder, or below it.
        folders = [it for it in whole.parents if it.is_relative_to(home)]
        return (
            os.name == "posix"
            and bool(whole.stat().st_mode & _OTHERS_READ)
            and all(it.stat().st_mode & _OTHERS_PASS for it in folders)
        )
    except (OSError, RuntimeError):
        return False


def exposed_files(files: Iterable[ClientFile]) -> list[Path]:
    """Return the files that contain a secret in plain text, and that other users can read."""
    return [it.path for it in files if is_exposed(it.path) and _has_secrets(it)]


def _has_secrets(file: ClientFile) -> bool:
    try:
        servers = servers_in(file)
    except ConfigError:
        # The command that uses the file reports the error.
        return False
    return any(any(plain_secrets(it.name, it.entry)) for it in servers if it.entry is not None)
