"""Load the servers of an `mcp.json`, in the dialect of any client."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pegboard.config.approval import ServerApproval
from pegboard.config.files.dialects import SECTIONS, find_entries, problem_at
from pegboard.config.files.entry_validation import (
    EntryContext,
    Interpretation,
    RawEntry,
    interpret,
)
from pegboard.config.files.jsonc import Document, read_jsonc
from pegboard.config.files.locate import Origin, locate_config
from pegboard.config.files.registry_settings import read_registry_settings
from pegboard.config.files.server_defaults import read_defaults
from pegboard.config.problems import Problem
from pegboard.config.secrets.variables import Undefined, Variables, input_defaults
from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError
from pegboard.model.json_values import FrozenDict, object_in
from pegboard.model.tool_names import naming_of

__all__ = ["LoadedConfig", "approval_in", "load_entry", "load_servers"]


class LoadedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of a configuration, and its problems."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[Problem, ...] = ()
    path: Path | None = None
    """The file that was read."""
    origin: Origin = "none"
    """Which rule of the search order chose it."""
    others: tuple[Path, ...] = ()
    """Files that exist and would have been read if this one did not exist."""
    skills: Path | None = None
    """The folder of skills that the file names."""
    has_section: bool = True
    """Whether the file has a section for servers, such as ``mcpServers``, even an empty one."""


def load_servers(  # noqa: PLR0913 - each is another way of reading a file
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    strict: bool = False,
    environ: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
    undefined: Undefined = "error",
    reads_secrets: bool = True,
    approval: ServerApproval | None = None,
) -> LoadedConfig:
    """Read servers from a file, from its parsed content, or from the usual places.

    Entries that cannot be used are left out and reported in ``problems``.

    Args:
        source: a path or a mapping; ``None`` searches ``PEGBOARD_CONFIG``, ``./mcp.json``,
            ``./.pegboard/mcp.json`` and the user's own file, and takes the first that exists.
        strict: raise an error for the first bad entry.
        environ: the environment variables, instead of those of this process.
        inputs: answers to VS Code's ``${input:ID}``.
        undefined: what to do with a variable that is not defined.
        reads_secrets: whether to read secrets from files and from the keyring of this machine,
            which may prompt the user. If not, references to them stay as they are written.
        approval: which servers may be used, besides what ``registry`` of the file says.

    Raises:
        ConfigError: when the file does not exist, cannot be read or is not JSON, or its section
            ``registry`` cannot be used; when ``strict``, also for a bad entry. The error has the
            line and column.
    """
    environ = os.environ if environ is None else environ
    file = _open(source, environ)
    approvals = [_own_approval(file), *([approval] if approval else ())]
    loaded = _read(
        file,
        environ=environ,
        approvals=approvals,
        inputs=inputs,
        undefined=undefined,
        reads_secrets=reads_secrets,
    )
    errors = [problem for problem in loaded.problems if problem.severity == "error"]
    if strict and errors:
        raise _first(errors, file.path)
    return loaded


def load_entry(name: str, entry: Mapping[str, Any], *, beside: Path) -> ServerConfig:
    """Return a server as it would be, if its entry stood in a file; secrets are read.

    Raises:
        ConfigError: when the file or the entry cannot be used.
    """
    content: object = read_jsonc(beside).value if beside.exists() else {}
    around = {key: it for key, it in object_in(content).items() if (key,) not in SECTIONS}
    # Settings of VS Code and Zed; their servers are others.
    around.pop("mcp", None)
    file = _File({**around, "mcpServers": {name: entry}}, beside.parent, path=beside)
    loaded = _read(file, environ=os.environ, approvals=[_own_approval(file)])
    for problem in loaded.problems:
        if problem.severity == "error":
            raise ConfigError(problem.message)
    return loaded.servers[0]


def approval_in(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> ServerApproval:
    """Return which servers the section ``registry`` allows, for files that it does not stand in.

    Raises:
        ConfigError: when the file or the section cannot be used.
    """
    return _own_approval(_open(source, os.environ if environ is None else environ))


class _File(NamedTuple):
    content: object
    folder: Path
    document: Document | None = None
    path: Path | None = None
    origin: Origin = "none"
    others: tuple[Path, ...] = ()


def _open(
    source: str | os.PathLike[str] | Mapping[str, Any] | None, environ: Mapping[str, str]
) -> _File:
    if isinstance(source, Mapping):
        return _File(source, Path.cwd(), origin="explicit")
    found = locate_config(source, environ=environ)
    if found.path is None:
        return _File({}, Path.cwd())
    document = read_jsonc(found.path)
    content: object = document.value
    return _File(content, found.path.parent, document, found.path, found.origin, found.others)


def _read(
    file: _File,
    *,
    environ: Mapping[str, str],
    approvals: Sequence[ServerApproval],
    inputs: Mapping[str, str] | None = None,
    undefined: Undefined = "error",
    reads_secrets: bool = True,
) -> LoadedConfig:
    defaults, wrong = read_defaults(file.content, file.document)
    context = EntryContext(
        Variables(
            environ=environ,
            inputs=inputs or FrozenDict(),
            workspace=str(_workspace(file.folder)),
            home=environ.get("HOME") or environ.get("USERPROFILE") or _home(),
            folder=str(file.folder),
            undefined=undefined,
            reads_secrets=reads_secrets,
            input_defaults=input_defaults(file.content),
        ),
        file.folder,
        file.document,
        defaults,
    )
    return _load(file, context, wrong, approvals)


def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError:
        # A user that the system does not know, as in a container: `~` stays as it is.
        return "~"


def _workspace(folder: Path) -> Path:
    # `.vscode/mcp.json` and similar files belong to the folder that contains `.vscode`.
    return folder.parent if folder.name.startswith(".") else folder


def _naming(file: _File) -> tuple[str | None, list[Problem]]:
    """Return how the tools of all servers are named, if the file says so, and what is wrong."""
    naming: object = object_in(object_in(file.content).get("gateway")).get("naming")
    if naming is None:
        return None, []
    try:
        naming_of(naming if isinstance(naming, str) else repr(naming))
    except ValueError as error:
        message = f"`gateway.naming` cannot be used. {error}"
        return None, [problem_at(("gateway", "naming"), message, file.document)]
    return str(naming), []


def _own_approval(file: _File) -> ServerApproval:
    path = None if file.path is None else str(file.path)
    settings = read_registry_settings(file.content, path=path)
    return ServerApproval(allow=settings.allow, deny=settings.deny)


def _approved(
    entry: RawEntry, context: EntryContext, approvals: Sequence[ServerApproval]
) -> Interpretation:
    """Read an entry; what is not allowed is left out, with the reason as its problem."""
    reading = interpret(entry, context)
    if reading.config is None:
        return reading
    objections = (it.objection(reading.config) for it in approvals)
    why = next((it for it in objections if it), "")
    if not why:
        return reading
    # An address may contain a secret.
    message = reading.config.redact(f"Server {entry.name!r} is not allowed: {why}.")
    problem = problem_at(entry.path or (), message, context.document)
    refused = msgspec.structs.replace(problem, server=entry.name, kind="not_allowed")
    return Interpretation(None, (*reading.problems, refused))


def _skills(file: _File, home: str) -> tuple[Path | None, list[Problem]]:
    """Return the folder of skills, if the file names one, and what is wrong with it."""
    said: object = object_in(file.content).get("skills")
    if said is None:
        return None, []
    if not isinstance(said, str) or not said.strip() or not said.isprintable():
        message = '`skills` must be the path of a folder, such as "./skills".'
        return None, [problem_at(("skills",), message, file.document)]
    path = home + said[1:] if said == "~" or said.startswith("~/") else said
    return Path(os.path.normpath(file.folder / path)), []


def _load(
    file: _File,
    context: EntryContext,
    wrong: Sequence[Problem],
    approvals: Sequence[ServerApproval],
) -> LoadedConfig:
    entries, around, has_section = find_entries(file.content, file.document)
    readings = [_approved(entry, context, approvals) for entry in entries]
    problems = [*around, *wrong, *(problem for reading in readings for problem in reading.problems)]
    naming, misnamed = _naming(file)
    skills, misplaced = _skills(file, context.variables.home)
    problems += [*misnamed, *misplaced]
    # In the order of the file; without a file, in the order they were found.
    problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    return LoadedConfig(
        servers=tuple(
            it.config if naming is None else msgspec.structs.replace(it.config, naming=naming)
            for it in readings
            if it.config is not None
        ),
        problems=tuple(problems),
        path=file.path,
        origin=file.origin,
        others=file.others,
        skills=skills,
        has_section=has_section,
    )


def _first(errors: list[Problem], path: Path | None) -> ConfigError:
    first = errors[0]
    more = f" (Errors in total: {len(errors)}.)" if len(errors) > 1 else ""
    return ConfigError(
        first.message + more,
        path=None if path is None else str(path),
        line=first.line,
        column=first.column,
    )
