"""The `mcp.json` of the ExcelManus document: its search order, its rules and its schema."""

import copy
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Never, cast

from pegboard.compat.showing import shown_target
from pegboard.config import ServerConfig, Timeouts
from pegboard.errors import ConfigError, InvalidArgumentsError
from pegboard.model import ArgumentSchema

__all__ = ["MCPConfigLoader", "MCPServerConfig", "mcp_config_schema"]

logger: logging.Logger = logging.getLogger("pegboard.excelmanus")

VARIABLE = "EXCELMANUS_MCP_CONFIG"
_PATIENCE = 30.0
"""The least time to connect and to list; a longer `timeout` stands for these too."""
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
    """How to reach one server; its repr shows no secrets."""

    name: str
    transport: Literal["stdio", "sse"]
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    url: str | None = None
    timeout: int = 30
    """How long one call of a tool may take, in seconds."""

    def __repr__(self) -> str:
        target = shown_target(self.server_config)
        return f"MCPServerConfig({self.name!r}, {self.transport!r}, {target!r})"

    def server_config(self) -> ServerConfig:
        """Return the server as the core of Pegboard knows it.

        Raises:
            ConfigError: when it cannot be used.
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
    """Return the JSON Schema (draft-07) of the file, for editors; yours to change."""
    return copy.deepcopy(_FILE)


class MCPConfigLoader:
    """Finds and reads the file."""

    @staticmethod
    def load(
        config_path: str | None = None, workspace_root: str = ".", *, strict: bool = False
    ) -> list[MCPServerConfig]:
        """Return the servers of the first file that exists; no file means no servers.

        Looked for are: the path in ``EXCELMANUS_MCP_CONFIG``, ``config_path``,
        ``{workspace_root}/mcp.json``, ``~/.excelmanus/mcp.json``. A file that cannot be used is
        logged as an error, an entry that cannot be used as a warning and left out.

        Args:
            config_path: a file.
            workspace_root: a folder.
            strict: raise instead of logging.

        Raises:
            ConfigError: when ``strict``, with line and column where there are any.
        """
        path = next((it for it in _candidates(config_path, workspace_root) if it.is_file()), None)
        if path is None:
            return []
        try:
            entries = _entries(_read(path))
            if strict:
                return [_understood(name, entry) for name, entry in entries.items()]
        except ConfigError as error:
            if strict:
                raise
            problem = str(error if error.path else ConfigError(error.problem, path=str(path)))
        else:
            return _usable(entries)
        logger.error("mcp_config_unusable: %s", problem)
        return []

    @staticmethod
    def _parse_config(data: dict[str, Any]) -> list[MCPServerConfig]:
        """Return the servers of a parsed file; those that are malformed cost a warning each."""
        try:
            entries = _entries(data)
        except ConfigError as error:
            problem = str(error)
        else:
            return _usable(entries)
        logger.error("mcp_config_unusable: %s", problem)
        return []

    @staticmethod
    def _validate_server_config(entry: dict[str, Any]) -> MCPServerConfig | None:
        """Return one entry, with its ``name`` among its fields, as a value if it is valid."""
        try:
            name = entry.get("name", "") if isinstance(entry, dict) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
            return _understood(str(name), entry)
        except ConfigError:
            return None


def _candidates(config_path: str | None, workspace_root: str) -> Iterator[Path]:
    named = os.environ.get(VARIABLE)
    for path in (named, config_path):
        if path:
            yield _expanded(path)
    yield _expanded(workspace_root) / "mcp.json"
    yield _expanded("~/.excelmanus/mcp.json")


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # nobody's home
        return Path(path)


def _read(path: Path) -> object:
    place = str(path)
    try:
        return json.loads(path.read_text("utf-8-sig"), parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"This is not JSON: {error.msg}.", path=place, line=error.lineno, column=error.colno
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"The file cannot be read: {error}.", path=place) from error
    except RecursionError:
        raise ConfigError("The file is nested too deeply.", path=place) from None


def _refuse_constant(constant: str) -> Never:
    raise ValueError(f"JSON has no {constant}")


def _entries(data: object) -> Mapping[str, object]:
    entries: object = None
    if isinstance(data, Mapping):
        entries = cast("Mapping[str, object]", data).get("mcpServers")
    if not isinstance(entries, Mapping):
        raise ConfigError("The file must be an object with an object `mcpServers`.")
    return cast("Mapping[str, object]", entries)


def _usable(entries: Mapping[str, object]) -> list[MCPServerConfig]:
    servers: list[MCPServerConfig] = []
    problems: list[str] = []
    for name, entry in entries.items():
        try:
            servers.append(_understood(name, entry))
        except ConfigError as error:
            problems.append(str(error))
    for problem in problems:
        logger.warning("mcp_server_skipped: %s", problem)
    return servers


def _understood(name: str, entry: object) -> MCPServerConfig:
    if not isinstance(entry, dict):
        raise ConfigError(f"Server {name!r} must be an object.")
    fields = cast("dict[str, Any]", entry)
    # Only where something is wrong is told, and not what stands there: it may be a secret.
    try:
        _FIELDS.check(fields, tool=name)
    except InvalidArgumentsError as error:
        wrong = dict.fromkeys(it.path or "transport" for it in error.violations)
    else:
        needed = _NEEDS[fields["transport"]]
        wrong = {} if fields.get(needed) else {needed: None}
    if wrong:
        listed = ", ".join(f"`{it}`" for it in wrong)
        raise ConfigError(f"Server {name!r} lacks these fields, or has them wrong: {listed}.")
    known: dict[str, Any] = {it: fields[it] for it in _SERVER["properties"] if it in fields}
    # To JSON Schema, 60.0 is an integer.
    known["timeout"] = int(known.get("timeout", 30))
    return MCPServerConfig(name=name, **known)
