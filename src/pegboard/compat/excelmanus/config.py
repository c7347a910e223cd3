"""ExcelManus's `mcp.json`: its search order, its validation and its JSON Schema."""

import copy
import json
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Never, TypeAlias, cast

from pegboard.compat.server_calls import shown_target
from pegboard.config import ServerConfig, Timeouts
from pegboard.config.files.jsonc import Document, read_jsonc
from pegboard.errors import ConfigError, InvalidArgumentsError
from pegboard.model import ArgumentSchema

__all__ = ["MCPConfigLoader", "MCPServerConfig", "mcp_config_schema", "read_servers"]

logger: logging.Logger = logging.getLogger("pegboard.compat")

VARIABLE = "EXCELMANUS_MCP_CONFIG"
_PATIENCE = 30.0
"""The shortest time limit to connect and to list; a longer `timeout` applies to them, too."""
_STRING = {"type": "string"}
_SERVER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "transport": {"type": "string", "enum": ["stdio", "sse"]},
        "command": _STRING,
        "args": {"type": "array", "items": _STRING},
        "env": {"type": "object", "additionalProperties": _STRING},
        "url": _STRING,
        "timeout": {"type": "integer", "minimum": 1},
    },
    "required": ["transport"],
}
_FILE: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"mcpServers": {"type": "object", "additionalProperties": _SERVER}},
    "required": ["mcpServers"],
}
_NEEDS = {"stdio": "command", "sse": "url"}
_FIELDS = ArgumentSchema(_SERVER, tool="mcpServers")


@dataclass(repr=False)
class MCPServerConfig:
    """The configuration of one server; its repr shows no secrets."""

    name: str
    transport: Literal["stdio", "sse"]
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    url: str | None = None
    timeout: int = 30
    """How many seconds one tool call may take."""

    def __repr__(self) -> str:
        target = shown_target(self.server_config)
        return f"MCPServerConfig({self.name!r}, {self.transport!r}, {target!r})"

    def server_config(self) -> ServerConfig:
        """Return the configuration in the form of the core.

        Raises:
            ConfigError: when it is invalid.
        """
        patience = max(_PATIENCE, self.timeout)
        return ServerConfig(
            name=self.name,
            transport=self.transport,
            command=self.command,
            args=tuple(self.args or ()),
            env=self.env or {},
            url=self.url,
            timeouts=Timeouts(connect=patience, list=patience, call=self.timeout),
        )


def mcp_config_schema() -> dict[str, Any]:
    """Return a copy of the JSON Schema (draft-07) of the file, for editors."""
    return copy.deepcopy(_FILE)


class MCPConfigLoader:
    """Finds and reads the file."""

    @staticmethod
    def load(
        config_path: str | None = None, workspace_root: str = ".", *, strict: bool = False
    ) -> list[MCPServerConfig]:
        """Return the servers of the first file that exists; no file means no servers.

        The search order is the path in ``EXCELMANUS_MCP_CONFIG``, ``config_path``,
        ``{workspace_root}/mcp.json`` and ``~/.excelmanus/mcp.json``. An unusable file is logged as
        an error. An unusable entry is logged as a warning and left out.

        Args:
            config_path: the path of a file.
            workspace_root: the folder of the workspace.
            strict: raise errors instead of logging them.

        Raises:
            ConfigError: when ``strict``, with path, line and column where there are any.
        """
        return read_servers(config_path, workspace_root, strict=strict) or []

    @staticmethod
    def _parse_config(data: dict[str, Any]) -> list[MCPServerConfig]:
        """Return the servers of a parsed file; each malformed entry is logged as a warning."""
        return _servers(data, _Origin(), _log) or []

    @staticmethod
    def _validate_server_config(entry: dict[str, Any]) -> MCPServerConfig | None:
        """Return the configuration of an entry with a field ``name``; ``None`` if it is invalid."""
        name = str(entry.get("name", "")) if isinstance(entry, dict) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        return None if _flaw(name, entry) else _server(name, entry)


def read_servers(
    config_path: str | None = None, workspace_root: str = ".", *, strict: bool = False
) -> list[MCPServerConfig] | None:
    """Do what `MCPConfigLoader.load` does, and return ``None`` for a file that cannot be used.

    Raises:
        ConfigError: when ``strict``.
    """
    report = _raise if strict else _log
    try:
        path = _first_file(config_path, workspace_root)
        document = None if path is None else _document(path)
    except ConfigError as error:
        report(logging.ERROR, error)
        return None
    if document is None:
        return []
    return _servers(document.root.value, _Origin(path, document), report)


_Report: TypeAlias = Callable[[int, ConfigError], None]
_EVENTS = {logging.ERROR: "mcp_config_unusable", logging.WARNING: "mcp_server_skipped"}


def _log(level: int, error: ConfigError) -> None:
    logger.log(level, "%s: %s", _EVENTS[level], error)


def _raise(_: int, error: ConfigError) -> Never:
    raise error


class _Flaw(NamedTuple):
    """The problem of an entry, and the field that causes it."""

    problem: str
    field: str = ""


class _Origin(NamedTuple):
    """The source of data, for the line and column in an error."""

    path: Path | None = None
    document: Document | None = None

    def error(self, problem: str, *steps: str) -> ConfigError:
        """Return an error with the position of the value at these steps, as far as it exists."""
        if self.document is None:
            return ConfigError(problem)
        root = self.document.root
        found = (root.find(steps[:count]) for count in range(len(steps), 0, -1))
        node = next((it for it in found if it is not None), root)
        place = self.document.place(node.start)
        return ConfigError(problem, path=str(self.path), line=place.line, column=place.column)


def _first_file(config_path: str | None, workspace_root: str) -> Path | None:
    for name, path in _candidates(config_path, workspace_root):
        try:
            if stat.S_ISREG(path.stat().st_mode):
                return path
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError as error:
            reason = error.strerror
        else:
            continue
        if name:
            # The value is not quoted: it may be the content of the file instead of its path.
            raise ConfigError(
                f"The path in {name} cannot be accessed: {reason}. Give another path."
            )
    return None


def _candidates(config_path: str | None, workspace_root: str) -> Iterator[tuple[str, Path]]:
    """Yield the paths where the file may be, each with the setting that names it, if any."""
    for name, path in ((f"`{VARIABLE}`", os.environ.get(VARIABLE)), ("`config_path`", config_path)):
        if path:
            yield name, _expanded(path)
    yield "`workspace_root`", _expanded(workspace_root) / "mcp.json"
    yield "", _expanded("~/.excelmanus/mcp.json")


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # the home folder is unknown
        return Path(path)


def _document(path: Path) -> Document:
    document = read_jsonc(path)
    try:
        # This parser accepts neither comments nor trailing commas: the format is plain JSON.
        json.loads(document.text)
    except json.JSONDecodeError as error:
        words, line, column = error.msg, error.lineno, error.colno
    else:
        return document
    # Not raised from the error above: that one contains the whole text, with its secrets.
    raise ConfigError(f"The file is not JSON: {words}.", path=str(path), line=line, column=column)


def _servers(data: object, origin: _Origin, report: _Report) -> list[MCPServerConfig] | None:
    entries: object = None
    if isinstance(data, Mapping):
        entries = cast("Mapping[str, object]", data).get("mcpServers")
    if not isinstance(entries, Mapping):
        problem = "The file must be an object with an object `mcpServers`."
        report(logging.ERROR, origin.error(problem, "mcpServers"))
        return None
    servers: list[MCPServerConfig] = []
    for name, entry in cast("Mapping[str, object]", entries).items():
        flaw = _flaw(name, entry)
        if flaw is None:
            servers.append(_server(name, cast("dict[str, Any]", entry)))
        else:
            report(logging.WARNING, origin.error(flaw.problem, "mcpServers", name, flaw.field))
    return servers


def _flaw(name: str, entry: object) -> _Flaw | None:
    if not isinstance(entry, dict):
        return _Flaw(f"Server {name!r} must be an object.")
    fields = cast("dict[str, Any]", entry)
    # Only the field is named, and not its value: it may be a secret.
    try:
        _FIELDS.check(fields, tool=name)
    except InvalidArgumentsError as error:
        wrong = list(dict.fromkeys(it.path or "transport" for it in error.violations))
    else:
        needed = _NEEDS[fields["transport"]]
        wrong = [] if fields.get(needed) else [needed]
    if not wrong:
        return None
    listed = ", ".join(f"`{it}`" for it in wrong)
    problem = f"Server {name!r} has missing or invalid fields: {listed}."
    return _Flaw(problem, re.split(r"\W", wrong[0])[0])


def _server(name: str, fields: dict[str, Any]) -> MCPServerConfig:
    known: dict[str, Any] = {it: fields[it] for it in _SERVER["properties"] if it in fields}
    # To JSON Schema, 60.0 is an integer.
    known["timeout"] = int(known.get("timeout", 30))
    return MCPServerConfig(name=name, **known)
