"""Assemble a ServerConfig from a checked entry, and warn of doubtful fields and timeouts."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from pegboard.config.files.entry import (
    CommandEntry,
    OAuthEntry,
    OriginEntry,
    Scalar,
    ServerEntry,
    TlsEntry,
)
from pegboard.config.files.server_defaults import ServerDefaults
from pegboard.config.problems import FieldPath, shown_key
from pegboard.config.secrets.env_file import find_env_file, read_env_file
from pegboard.config.servers import (
    OAuthConfig,
    RegistryOrigin,
    ServerConfig,
    Timeouts,
    TlsConfig,
    Transport,
    check_texts,
    is_reserved_header,
)
from pegboard.errors import ConfigError
from pegboard.model.tool_names import nearest_names

__all__ = ["Doubt", "FieldError", "assemble", "doubts_about"]

_TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "sse": "sse",
    "http": "streamable_http",
    "streamablehttp": "streamable_http",
    "websocket": "websocket",
    "ws": "websocket",
}
_TYPES = ("stdio", "sse", "http", "streamable_http", "websocket")
# Cline and Roo write seconds and allow an hour at most; Claude Code and Gemini write milliseconds.
_MOST_SECONDS = 3600
_LISTS = ("allow", "deny", "tags", "idempotent")
_OPTIONS = (
    *_LISTS,
    *("bearer_token", "protocol", "prefix", "category", "lazy", "stateless", "sharing"),
    *("tasks",),
    *("max_result_chars", "max_response_values", "trust_hints", "inherit_network"),
)
_VARIABLE = re.compile(r"\$\{[^{}]*\}")
# Below that, every client means seconds.
_LEAST_DOUBTFUL = 1000
_ONLY_PROCESSES = ("args", "env", "env_file", "cwd")
_DEFAULT_TIMEOUTS = Timeouts()
_ONLY_ADDRESSES = ("headers", "bearer_token", "oauth", "tls", "proxy")


class FieldError(ConfigError):
    """One field of an entry cannot be used; ``field`` is its dotted name in `ServerEntry`."""

    def __init__(self, problem: str, *, field: str) -> None:
        super().__init__(problem)
        self.field = field


class Doubt(NamedTuple):
    """A field that the user should check, and why."""

    message: str
    path: FieldPath


def assemble(  # noqa: PLR0913 - what an entry says is not all
    name: str,
    entry: ServerEntry,
    *,
    folder: Path,
    home: str,
    secrets: frozenset[str],
    defaults: ServerDefaults | None = None,
    is_expanded: bool = True,
) -> ServerConfig:
    """Make the configuration of a server from its entry, and from what all servers receive.

    Unless the entry is expanded, its address may contain variables, and its `envFile` is not read.

    Raises:
        ConfigError: when the entry is contradictory or incomplete; a `FieldError` when one field
            is the cause.
    """
    if isinstance(entry.command, CommandEntry):
        entry = _flattened(entry, entry.command)
    assert not isinstance(entry.command, CommandEntry)
    transport = _transport(name, entry)
    options: dict[str, Any] = {
        field: tuple(value) if field in _LISTS else value
        for field in _OPTIONS
        if (value := getattr(entry, field)) is not None
    }
    around = defaults or ServerDefaults()
    if entry.inherit_network is None and around.inherit_network is not None:
        options["inherit_network"] = around.inherit_network
    env = _texts(entry.env)
    if entry.env_file and transport == "stdio":
        path = folder / _at_home(entry.env_file, home)
        env = _env_file(name, path, is_read=is_expanded) | env
    shared = _texts(around.env) if transport == "stdio" else {}
    left_out = {key for key, value in (entry.env or {}).items() if value is None}
    address = (entry.http_url or entry.url or "").strip()
    proxy = _proxy(name, entry.proxy)
    config = ServerConfig(
        name=name,
        transport=transport,
        command=_at_home(entry.command, home) if entry.command else None,
        args=tuple(_text(argument) for argument in entry.args or ()),
        env=env,
        shared_env={key: value for key, value in shared.items() if key not in left_out},
        cwd=_folder(_at_home(entry.cwd, home), folder) if entry.cwd else None,
        url=(_stand_in(address, transport) if address and not is_expanded else address) or None,
        headers=_texts(entry.headers),
        oauth=_oauth(entry.oauth),
        tls=_tls(name, entry.tls, folder=folder, home=home),
        proxy=_stand_in(proxy, "streamable_http") if proxy and not is_expanded else proxy,
        timeouts=_timeouts(name, entry),
        registry=_origin(entry.registry),
        enabled=entry.enabled is not False and entry.disabled is not True,
        secrets=secrets,
        **options,
    )
    if not is_expanded and address:
        msgspec.structs.force_setattr(config, "url", address)
    msgspec.structs.force_setattr(config, "proxy", proxy)
    check_texts(config)
    return config


def doubts_about(entry: ServerEntry, config: ServerConfig) -> Iterator[Doubt]:
    """Yield what is ignored, missing or ambiguous in the entry of a server."""
    yield from _unused_fields(entry, config)
    yield from _reserved_headers(config)
    yield from _whole_command_line(entry, config)
    yield from _unit_of_timeout(entry, config)
    scheme = (config.url or "").partition("://")[0]
    if config.tls is not None and scheme in ("http", "ws"):
        yield Doubt(
            f"The address of server {config.name!r} begins with {scheme}://, so its `tls` is not "
            f"used. Write {scheme}s:// if the server speaks TLS.",
            ("tls",),
        )
    oauth = entry.oauth
    if isinstance(oauth, OAuthEntry) and oauth.flow == "client_credentials":
        missing = [it for it in ("client_id", "client_secret") if not getattr(oauth, it)]
        if missing:
            needs = " and ".join(f"`{it}`" for it in missing)
            yield Doubt(
                f"Server {config.name!r} logs in with `client_credentials`, so its `oauth` needs "
                f"{needs}.",
                ("oauth",),
            )
    document = isinstance(oauth, OAuthEntry) and oauth.client_metadata_url
    if document and config.oauth is not None and config.oauth.client_id:
        yield Doubt(
            f"Server {config.name!r} logs in with its `client_id`, so its `client_metadata_url` is "
            "not used. Leave one of them out.",
            ("oauth",),
        )


def _flattened(entry: ServerEntry, command: CommandEntry) -> ServerEntry:
    return msgspec.structs.replace(
        entry,
        command=command.path,
        args=entry.args or command.args,
        env={**(command.env or {}), **(entry.env or {})},
    )


def _transport(name: str, entry: ServerEntry) -> Transport:
    if entry.type is not None:
        found = _TRANSPORTS.get(re.sub(r"[-_ ]", "", entry.type).lower())
        if found is None:
            near = nearest_names(entry.type, _TYPES, limit=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            raise FieldError(
                f"Server {name!r} has an unknown `type`; the known ones are "
                f"{', '.join(_TYPES)}.{hint}",
                field="type",
            )
        return found
    url = entry.http_url or entry.url
    if entry.command and url:
        raise ConfigError(
            f"Server {name!r} has both a `command` and a `url`. Remove one, or choose one with "
            "`type`."
        )
    if entry.command:
        return "stdio"
    if not url:
        raise ConfigError(f"Server {name!r} needs a `command` or a `url`.")
    return "streamable_http" if entry.http_url else _transport_of(url)


def _transport_of(url: str) -> Transport:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "streamable_http"
    if parts.scheme in ("ws", "wss"):
        return "websocket"
    return "sse" if parts.path.rstrip("/").endswith("/sse") else "streamable_http"


def _stand_in(address: str, transport: Transport) -> str:
    """Return an address in which a valid text replaces each variable."""
    whole = "ws://host" if transport == "websocket" else "http://host"
    start = _VARIABLE.match(address)
    return _VARIABLE.sub("1", address if start is None else whole + address[start.end() :])


def _env_file(name: str, path: Path, *, is_read: bool) -> dict[str, str]:
    try:
        if is_read:
            return read_env_file(path)
        find_env_file(path)
    except ConfigError as error:
        problem = f"Server {name!r} has an `envFile` that cannot be used: {error}"
        raise FieldError(problem, field="env_file") from error
    return {}


def _at_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith(("~/", "~\\")) else path


def _folder(cwd: str, base: Path) -> str:
    return cwd if Path(cwd).is_absolute() else str(base / cwd)


def _texts(values: Mapping[str, Scalar | None] | None) -> dict[str, str]:
    return {key: _text(value) for key, value in (values or {}).items() if value is not None}


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _timeouts(name: str, entry: ServerEntry) -> Timeouts:
    if entry.timeouts is None and entry.timeout is None:
        return _DEFAULT_TIMEOUTS
    given = {} if entry.timeouts is None else msgspec.structs.asdict(entry.timeouts)
    given = {field: value for field, value in given.items() if value is not None}
    if entry.timeout is not None:
        seconds = entry.timeout if entry.timeout <= _MOST_SECONDS else entry.timeout / 1000
        given.setdefault("call", seconds)
    for field, value in given.items():
        try:
            Timeouts(**{field: value})
        except ConfigError as error:
            is_written = getattr(entry.timeouts, field, None) is not None
            raise FieldError(
                f"Server {name!r}: {error}", field=f"timeouts.{field}" if is_written else "timeout"
            ) from None
    return Timeouts(**given)


def _oauth(entry: bool | OAuthEntry | None) -> OAuthConfig | None:  # noqa: FBT001 - `true` is a value of the file
    if not entry:
        return None
    if entry is True:
        return OAuthConfig()
    given = {key: it for key, it in msgspec.structs.asdict(entry).items() if it is not None}
    if not given.pop("enabled", True):
        return None
    scopes = given.pop("scopes", ())
    given["trusted_hosts"] = tuple(given.pop("trusted_hosts", ()))
    return OAuthConfig(scopes=tuple(scopes.split() if isinstance(scopes, str) else scopes), **given)


def _origin(entry: OriginEntry | None) -> RegistryOrigin | None:
    if entry is None:
        return None
    package = entry.package or ""
    return RegistryOrigin(url=entry.url, name=entry.name, version=entry.version, package=package)


def _tls(name: str, entry: TlsEntry | None, *, folder: Path, home: str) -> TlsConfig | None:
    # An empty variable means that a path is not given.
    if entry is None:
        return None
    given = {field: value for field, value in msgspec.structs.asdict(entry).items() if value}
    for field in set(given) - {"client_key_password"}:
        given[field] = _folder(_at_home(given[field], home), folder)
    try:
        return TlsConfig(**given) if given else None
    except ConfigError as error:
        raise FieldError(f"Server {name!r}: {error}", field="tls") from None


def _proxy(name: str, written: str | bool | None) -> str | None:  # noqa: FBT001 - `false` is a value of the file
    if written is True:
        raise FieldError(
            f"The `proxy` of server {name!r} must be the address of a proxy, or `false`.",
            field="proxy",
        )
    if written is None:
        return None
    address = (written or "").strip()
    return "" if address.lower() == "none" else address


def _unused_fields(entry: ServerEntry, config: ServerConfig) -> Iterator[Doubt]:
    is_process = config.transport == "stdio"
    unused = _ONLY_ADDRESSES if is_process else _ONLY_PROCESSES
    what = "a program" if is_process else "reached at its address"
    for field in unused:
        if getattr(entry, field):
            yield Doubt(
                f"Server {config.name!r} is {what}, so its `{field}` is not used.", (field,)
            )


def _reserved_headers(config: ServerConfig) -> Iterator[Doubt]:
    for name in config.headers if config.transport != "stdio" else ():
        if is_reserved_header(name):
            yield Doubt(
                f"Header `{shown_key(name)}` of server {config.name!r} belongs to the protocol, so "
                "it is not sent. Remove it.",
                ("headers", name),
            )


def _whole_command_line(entry: ServerEntry, config: ServerConfig) -> Iterator[Doubt]:
    command = "" if isinstance(entry.command, CommandEntry) else entry.command or ""
    words = command.split()
    if config.transport != "stdio" or entry.args or len(words) < 2:
        return
    # Folders may have spaces in their names.
    is_a_path = "/" in words[0] or "\\" in words[0]
    if not is_a_path or any(word.startswith("-") for word in words[1:]):
        yield Doubt(
            f"The `command` of server {config.name!r} looks like a whole command line. Write only "
            "the program into `command`, and the rest into `args`.",
            ("command",),
        )


def _unit_of_timeout(entry: ServerEntry, config: ServerConfig) -> Iterator[Doubt]:
    is_clear = entry.timeouts is not None and entry.timeouts.call is not None
    if is_clear or (entry.timeout or 0) < _LEAST_DOUBTFUL:
        return
    unit = "seconds" if (entry.timeout or 0) <= _MOST_SECONDS else "milliseconds"
    yield Doubt(
        f"The `timeout` of server {config.name!r} is read as {unit}. Write "
        '`"timeouts": {"call": …}`, which is always in seconds, to avoid doubt.',
        ("timeout",),
    )
