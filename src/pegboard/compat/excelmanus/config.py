"""ExcelManus's `mcp.json`: its search order, its validation, its variables and its JSON Schema."""

import copy
import json
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Never, TypeAlias, cast

from pegboard.compat.excelmanus.variables import (
    Undefined,
    Written,
    each_text,
    expanded,
    plain_secrets,
    replaced,
    secrets_of,
)
from pegboard.compat.server_calls import shown_target
from pegboard.config import ServerConfig, Timeouts
from pegboard.config.files.jsonc import Document, read_jsonc
from pegboard.errors import ConfigError

__all__ = ["MCPConfigLoader", "MCPServerConfig", "mcp_config_schema", "read_servers"]

logger: logging.Logger = logging.getLogger("pegboard.compat")

VARIABLE = "EXCELMANUS_MCP_CONFIG"
_UNUSABLE = "mcp_config_unusable"
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
_USED = {
    "stdio": ("command", "args", "env"),
    "sse": ("url", "headers"),
    "streamable_http": ("url", "headers"),
}
"""The fields of each transport; the first one is needed."""
_TEXTS = ("command", "args", "env", "url", "headers")
_SWITCH = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


@dataclass(repr=False)
class MCPServerConfig:
    """The configuration of one server; its repr shows no secrets."""

    name: str
    transport: Literal["stdio", "sse", "streamable_http"]
    command: str | None = None
    args: list[str] | None = None
    """An empty list, if none is given."""
    env: dict[str, str] | None = None
    """An empty dict, if none is given."""
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """What each HTTP request carries."""
    state_dir: str | None = None
    """Where ExcelManus looks for processes; unused."""
    timeout: int = 30
    """How many seconds one tool call may take."""
    auto_approve: list[str] = field(default_factory=list[str])
    """The tools for `MCPManager.auto_approved_tools`; ``*`` stands for all."""
    scope: str = "always"
    """When a host shows the tools; for `MCPManager.tool_scopes`."""

    def __post_init__(self) -> None:
        self.args = [] if self.args is None else self.args
        self.env = {} if self.env is None else self.env

    def __repr__(self) -> str:
        target = shown_target(self.server_config)
        return f"MCPServerConfig({self.name!r}, {self.transport!r}, {target!r})"

    def server_config(self) -> ServerConfig:
        """Return the configuration in the form of the core, with its variables expanded.

        Raises:
            ConfigError: when it is invalid.
        """
        patience = max(_PATIENCE, self.timeout)
        fields = [self.command, self.args, self.env, self.url, self.headers]
        command, args, env, url, headers = each_text(fields, expanded)
        return ServerConfig(
            name=self.name,
            transport=self.transport,
            command=command,
            args=tuple(args),
            env=env,
            url=url,
            headers=headers,
            timeouts=Timeouts(connect=patience, list=patience, call=self.timeout),
            secrets=frozenset(secrets_of(fields)),
        )


def mcp_config_schema() -> dict[str, Any]:
    """Return a copy of the JSON Schema (draft-07) of the file, for editors."""
    return copy.deepcopy(_FILE)


class MCPConfigLoader:
    """Finds and reads the file."""

    @staticmethod
    def load(
        config_path: str | None = None,
        workspace_root: str = ".",
        *,
        expand_env_refs: bool | None = None,
        strict_secret_check: bool | None = None,
        undefined_env: Literal["keep", "empty", "error"] | None = None,
        strict: bool = False,
    ) -> list[MCPServerConfig]:
        """Return the servers of the first file that exists; no file means no servers.

        The search order is the path in ``EXCELMANUS_MCP_CONFIG``, ``config_path``,
        ``{workspace_root}/mcp.json`` and ``~/.excelmanus/mcp.json``. An unusable file is logged as
        an error. An unusable entry is logged as a warning and left out, and so is a secret that is
        written in the file, but its entry stays.

        Args:
            config_path: the path of a file.
            workspace_root: the folder of the workspace.
            expand_env_refs: false leaves ``$VAR`` and ``${VAR}`` as they are. True expands them at
                once. Otherwise the servers keep what the file says, which is expanded when a server
                is started, unless ``EXCELMANUS_MCP_EXPAND_ENV_REFS`` is false.
            strict_secret_check: leave out a server with a secret in the file; the default is
                ``EXCELMANUS_MCP_STRICT_SECRETS``.
            undefined_env: keep a variable that is not defined, leave it out, or leave out its
                server (``error``); the default is ``EXCELMANUS_MCP_UNDEFINED_ENV``, or ``keep``.
            strict: raise errors instead of logging them.

        Raises:
            ConfigError: when ``strict``, with path, line and column where there are any.
        """
        rules = _rules(
            expands=expand_env_refs, refuses_secrets=strict_secret_check, undefined=undefined_env
        )
        return read_servers(config_path, workspace_root, strict=strict, rules=rules) or []

    @staticmethod
    def _parse_config(
        data: dict[str, Any],
        *,
        expand_env_refs: bool | None = None,
        strict_secret_check: bool = False,
        undefined_env: Undefined = "keep",
        streamable_http_enabled: bool = True,
    ) -> list[MCPServerConfig]:
        """Return the servers of a parsed file; each malformed entry is logged as a warning."""
        rules = _Rules(expand_env_refs, strict_secret_check, undefined_env, streamable_http_enabled)
        return _servers(data, _Origin(), _log, rules) or []

    @staticmethod
    def _validate_server_config(entry: dict[str, Any]) -> MCPServerConfig | None:
        """Return the configuration of an entry with a field ``name``; ``None`` if it is invalid."""
        name = str(entry.get("name", "")) if isinstance(entry, dict) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        return None if _flaw(name, entry, _Rules()) else _server(name, entry, _Rules())


def read_servers(
    config_path: str | None = None,
    workspace_root: str = ".",
    *,
    strict: bool = False,
    rules: "_Rules | None" = None,
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
        report(logging.ERROR, _UNUSABLE, error)
        return None
    if document is None:
        return []
    return _servers(document.value, _Origin(path, document), report, rules or _rules())


class _Rules(NamedTuple):
    """How the entries of a file are read."""

    expands: bool | None = None
    """Whether variables are expanded at once, never, or (``None``) when a server is started."""
    refuses_secrets: bool = False
    undefined: Undefined = "keep"
    streamable_http: bool = True


def _rules(
    *,
    expands: bool | None = None,
    refuses_secrets: bool | None = None,
    undefined: Undefined | None = None,
) -> _Rules:
    if expands is None and _setting("EXPAND_ENV_REFS") is False:
        expands = False
    if refuses_secrets is None:
        refuses_secrets = _setting("STRICT_SECRETS")
    word = os.environ.get("EXCELMANUS_MCP_UNDEFINED_ENV", "").strip().lower()
    known: dict[str, Undefined] = {"empty": "empty", "error": "error"}
    return _Rules(
        expands=expands,
        refuses_secrets=bool(refuses_secrets),
        undefined=undefined or known.get(word, "keep"),
        streamable_http=_setting("ENABLE_STREAMABLE_HTTP") is not False,
    )


def _setting(name: str) -> bool | None:
    variable = f"EXCELMANUS_MCP_{name}"
    word = os.environ.get(variable, "").strip().lower()
    if word and word not in _SWITCH:
        logger.warning("mcp_setting_ignored: `%s` is neither true nor false", variable)
    return _SWITCH.get(word)


_Report: TypeAlias = Callable[[int, str, ConfigError], None]


def _log(level: int, event: str, error: ConfigError) -> None:
    logger.log(level, "%s: %s", event, error)


def _raise(_: int, __: str, error: ConfigError) -> Never:
    raise error


class _Flaw(NamedTuple):
    """The problem of an entry, and the field that causes it."""

    problem: str
    field: str = ""
    level: int = logging.WARNING


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
            yield name, _path(path)
    yield "`workspace_root`", _path(workspace_root) / "mcp.json"
    with suppress(RuntimeError):  # the home folder is unknown
        yield "", Path.home() / ".excelmanus/mcp.json"


def _path(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _document(path: Path) -> Document:
    try:
        document = read_jsonc(path)
        # This parser accepts neither comments nor trailing commas: the format is plain JSON.
        json.loads(document.text)
    except ConfigError as error:
        if error.line is None:
            raise
        words, line, column = error.problem.rstrip("."), error.line, error.column
    except json.JSONDecodeError as error:
        words, line, column = error.msg, error.lineno, error.colno
    else:
        return document
    # Not raised from the error above: that one contains the whole text, with its secrets.
    problem = f"The file is not JSON (JSON 格式错误): {words}."
    raise ConfigError(problem, path=str(path), line=line, column=column)


def _servers(
    data: object, origin: _Origin, report: _Report, rules: _Rules
) -> list[MCPServerConfig] | None:
    if not isinstance(data, Mapping):
        problem = "The file must be an object (顶层必须为 JSON 对象)."
        report(logging.ERROR, _UNUSABLE, origin.error(problem))
        return None
    entries: object = cast("Mapping[str, object]", data).get("mcpServers")
    if not isinstance(entries, Mapping):
        problem = "The file must have an object `mcpServers`."
        report(logging.WARNING, _UNUSABLE, origin.error(problem, "mcpServers"))
        return None
    servers: list[MCPServerConfig] = []
    for name, entry in cast("Mapping[str, object]", entries).items():
        nameless = None if name.strip() else _Flaw("A server has no name.")
        flaw = nameless or _flaw(name, entry, rules) or _secrecy_flaw(name, entry, rules)
        if flaw is None:
            servers.append(_server(name, cast("dict[str, Any]", entry), rules))
        else:
            error = origin.error(flaw.problem, "mcpServers", name, flaw.field)
            report(flaw.level, "mcp_server_skipped", error)
    return servers


def _flaw(name: str, entry: object, rules: _Rules) -> _Flaw | None:
    if not isinstance(entry, dict):
        return _Flaw(f"Server {name!r} must be an object.")
    fields = cast("dict[str, Any]", entry)
    if fields.get("transport") == "streamable_http" and not rules.streamable_http:
        variable = "`EXCELMANUS_MCP_ENABLE_STREAMABLE_HTTP`"
        return _Flaw(f"Server {name!r} uses a transport that {variable} turns off.", "transport")
    try:
        wrong = _wrong_fields(_variables_replaced(fields, rules))
    except ConfigError as error:
        return _Flaw(f"Server {name!r}: {error}")
    if not wrong:
        return None
    # Only the field is named, and not its value: it may be a secret.
    listed = ", ".join(f"`{it}`" for it in wrong)
    return _Flaw(f"Server {name!r} has missing or invalid fields: {listed}.", wrong[0])


def _wrong_fields(fields: dict[str, Any]) -> list[str]:
    transport = fields.get("transport")
    if not isinstance(transport, str) or transport not in _USED:
        return ["transport"]
    needed, *others = _USED[transport]
    given = fields.get(needed)
    wrong = [] if isinstance(given, str) and given.strip() else [needed]
    wrong += [it for it in others if fields.get(it) is not None and not _fits(it, fields[it])]
    if _seconds(fields) < 1:
        wrong.append("timeout")
    if not isinstance(_state_dir(fields), str | None):
        wrong.append("stateDir")
    return wrong


def _fits(field: str, value: object) -> bool:
    if field == "args":
        texts = cast("list[object]", value) if isinstance(value, list) else [None]
    elif field in ("env", "headers"):
        known = cast("dict[object, object]", value) if isinstance(value, dict) else {None: None}
        texts = [*known, *known.values()]
    else:
        texts = [value]
    return all(isinstance(it, str) for it in texts)


def _seconds(fields: dict[str, Any]) -> int:
    value = fields.get("timeout", 30)
    try:
        return int(value) if isinstance(value, int | float) else 0
    except (OverflowError, ValueError):
        return 0


def _state_dir(fields: dict[str, Any]) -> object:
    given = fields.get("stateDir")
    return fields.get("state_dir") if given is None else given


def _server(name: str, fields: dict[str, Any], rules: _Rules) -> MCPServerConfig:
    if rules.expands is None:
        written = each_text(fields, lambda text: Written.of(text, rules.undefined))
    else:
        written = _variables_replaced(fields, rules)
    known = {it: written[it] for it in _TEXTS if it in written and _fits(it, written[it])}
    approved, scope = written.get("autoApprove"), written.get("scope")
    if not _fits("args", [] if approved is None else approved):
        logger.warning("mcp_field_ignored: server=%r `autoApprove` must be a list of names", name)
        approved = None
    if scope is not None and (not isinstance(scope, str) or not scope.strip()):
        logger.warning("mcp_field_ignored: server=%r `scope` must be a word", name)
        scope = None
    return MCPServerConfig(
        name=name,
        transport=written["transport"],
        **known,
        state_dir=cast("str", _state_dir(written) or "").strip() or None,
        timeout=_seconds(written),
        auto_approve=list(approved or ()),
        scope=(scope or "always").strip().lower(),
    )


def _secrecy_flaw(name: str, entry: object, rules: _Rules) -> _Flaw | None:
    found = list(dict.fromkeys(plain_secrets(entry)))
    for place in found:
        words = "mcp_plain_secret: server=%r field=%s (疑似明文敏感配置). Use a variable instead."
        logger.warning(words, name, place)
    if not found or not rules.refuses_secrets:
        return None
    field = re.split(r"\W", found[0])[0]
    return _Flaw(f"Server {name!r} has secrets in the file.", field, logging.ERROR)


def _variables_replaced(fields: dict[str, Any], rules: _Rules) -> dict[str, Any]:
    if rules.expands is False:
        return fields
    return each_text(fields, lambda text: replaced(text, rules.undefined))
