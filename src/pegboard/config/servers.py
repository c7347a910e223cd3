"""ServerConfig: the configuration of one upstream server, with redaction of its secrets."""

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from pegboard.config.problems import shown_key
from pegboard.config.redaction import HIDDEN, hidden_forms, redact, redacted_command_line
from pegboard.errors import ConfigError
from pegboard.model.json_values import FrozenDict, freeze
from pegboard.model.lazy import LazyProperty
from pegboard.model.tool_names import Naming, mcp, naming_of

__all__ = [
    "HEADER_NAME",
    "HEADER_VALUE",
    "HIDDEN",
    "MAX_RESPONSE_VALUES",
    "OAuthConfig",
    "Protocol",
    "RegistryOrigin",
    "ServerConfig",
    "Sharing",
    "TaskOffer",
    "Timeouts",
    "TlsConfig",
    "Transport",
    "check_texts",
    "is_reserved_header",
]

Transport = Literal["stdio", "sse", "streamable_http", "websocket", "memory"]
"""How a server is reached; ``memory`` is a server object of this process."""
Protocol = Literal["auto", "legacy", "2026-07-28"]
"""Which protocol era to speak; ``auto`` asks the server once and caches the answer."""
Sharing = Literal["shared", "per_client"]
"""Whether the clients of a gateway share one connection to the server."""
TaskOffer = Literal["always", "declared"]
"""Whether calls may become tasks of the server for all clients, or for those that have tasks."""

MAX_RESPONSE_VALUES = 200_000
"""The most JSON values of one response, unless a server is given another number."""
_LONGEST_TARGET = 200
_TRANSPORTS: tuple[str, ...] = get_args(Transport)


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Time limits for a server, in seconds."""

    connect: float = 30.0
    """For starting the process or reaching the address, and for the handshake."""
    list: float = 30.0
    """For all pages of a list."""
    call: float = 60.0
    """For one tool call."""
    task: float = 3600.0
    """For the task that a server makes of a call; its call may take so long instead."""
    idle: float | None = None
    """The server is stopped after this time without a call; ``None`` never stops it."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if value is None and field == "idle":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
                raise ConfigError(
                    f"The {field} timeout must be a positive number of seconds below a billion, "
                    f"not {value!r}."
                )


class OAuthConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to obtain tokens for a server that is protected by OAuth 2.1."""

    flow: Literal["authorization_code", "client_credentials"] = "authorization_code"
    client_id: str | None = None
    """``None`` registers Pegboard as a client with the server's authorization server."""
    client_secret: str | None = None
    client_metadata_url: str | None = None
    """The address of a client ID metadata document; it is the ``client_id`` at authorization
    servers that read such documents, and at any other Pegboard registers."""
    scopes: tuple[str, ...] = ()
    redirect_port: int = 0
    """The port on 127.0.0.1 that the browser is redirected to; 0 takes a free port."""
    login_timeout: float = 120.0
    """How many seconds the user may take to log in."""
    storage: Literal["file", "keyring"] = "file"
    """Where tokens are stored: a private file in the user's data directory, or the OS keyring."""
    trusted_hosts: tuple[str, ...] = ()
    """Hosts that the login may use at any address, although the server is somewhere else."""

    def __repr__(self) -> str:
        secret = HIDDEN if self.client_secret else None
        return f"OAuthConfig(flow={self.flow!r}, client_id={self.client_id!r}, secret={secret})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Without this, Rich shows every field.
        secret = HIDDEN if self.client_secret else None
        return [("flow", self.flow), ("client_id", self.client_id), ("secret", secret)]


class TlsConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which certificates a TLS connection to a server trusts and shows, as paths of PEM files."""

    ca: str | None = None
    """A file or folder of CA certificates, trusted in addition to those of the system."""
    client_cert: str | None = None
    """The certificate shown to a server that asks for one; the file may contain its key."""
    client_key: str | None = None
    """The private key of the client certificate, if the key is in a file of its own."""
    client_key_password: str | None = None
    """The password of an encrypted private key."""

    def __post_init__(self) -> None:
        for field in ("ca", "client_cert", "client_key"):
            path = getattr(self, field)
            # The text is not quoted: it may be a private key.
            if path is not None and (not path.isprintable() or "-----BEGIN" in path):
                raise ConfigError(
                    f"`tls.{field}` must be the path of a PEM file, not the content of the file."
                )
        for field in ("client_key", "client_key_password"):
            if getattr(self, field) is not None and self.client_cert is None:
                raise ConfigError(f"`tls.{field}` is given, so `tls.client_cert` is needed, too.")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"TlsConfig({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Without this, Rich shows every field.
        given = [(it, getattr(self, it)) for it in ("ca", "client_cert", "client_key")]
        return [(name, value) for name, value in given if value is not None]


_NO_TLS = TlsConfig()


class RegistryOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which entry of which MCP registry a server was added from."""

    url: str
    """The URL of the registry."""
    name: str
    """The name of the server there."""
    version: str
    package: str = ""
    """The kind of package that was chosen, or ``remote``."""


class ServerConfig(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True, weakref=True
):
    """The configuration of one server. Its variables are already expanded."""

    name: str
    transport: Transport
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=FrozenDict)
    shared_env: Mapping[str, str] = msgspec.field(default_factory=FrozenDict)
    """Variables that all servers of the file receive; ``env`` overrides them."""
    inherit_network: bool = True
    """Whether the process inherits the variables for certificates, proxies and package indexes."""
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=FrozenDict)
    bearer_token: str | None = None
    oauth: OAuthConfig | None = None
    tls: TlsConfig | None = None
    proxy: str | None = None
    """The URL of the HTTP proxy; ``None`` takes it from the environment, ``""`` uses no proxy."""
    server: Any = None
    """The server object of a ``memory`` transport."""
    timeouts: Timeouts = Timeouts()
    protocol: Protocol = "auto"
    allow: tuple[str, ...] = ("*",)
    """Glob patterns of the tools that may be used, by the server's own names."""
    deny: tuple[str, ...] = ()
    """Glob patterns of the tools that may not be used; ``deny`` overrides ``allow``."""
    prefix: str | None = None
    """The exposed name of a tool is this prefix followed by the tool's own name."""
    naming: str | None = None
    """How its tools are named, from ``gateway.naming`` of the file; see `naming_of`. A ``prefix``
    overrides it."""
    tags: tuple[str, ...] = ()
    category: str | None = None
    enabled: bool = True
    lazy: bool = False
    """Start the server at the first call of one of its tools; at once if its tools are unknown."""
    stateless: bool = False
    """Share no session between calls (HTTP only)."""
    sharing: Sharing = "shared"
    tasks: TaskOffer = "always"
    """When a server of the modern era hears that it may make a task of a call."""
    max_result_chars: int = 5000
    """A result rendered as text is cut at this length, with a mark."""
    max_response_values: int = MAX_RESPONSE_VALUES
    """A response with more JSON values is refused; a key counts as one, too."""
    idempotent: tuple[str, ...] = ()
    """Glob patterns of tools whose calls may be repeated even if they may have run already."""
    trust_hints: bool = False
    """Trust the server's hints that a tool is read-only or idempotent."""
    registry: RegistryOrigin | None = None
    """Where `pegboard add` found the server."""
    secrets: frozenset[str] = frozenset()
    """Texts to redact, besides the values of ``env`` and ``headers``."""

    def __post_init__(self) -> None:
        fix = msgspec.structs.force_setattr
        for field in ("args", "allow", "deny", "tags", "idempotent"):
            texts = getattr(self, field)
            if isinstance(texts, str):
                raise ConfigError(f"`{field}` of server {self.name!r} must be a list of texts.")
            fix(self, field, tuple(texts))
        fix(self, "env", freeze(self.env))
        fix(self, "shared_env", freeze(self.shared_env))
        fix(self, "headers", freeze(self.headers))
        if self.tls is not None and self.tls == _NO_TLS:
            fix(self, "tls", None)
        if not self.name or not self.name.isprintable():
            raise ConfigError("A server needs a printable name.")
        needs = {"stdio": "command", "memory": "server"}.get(self.transport, "url")
        if self.transport not in _TRANSPORTS:
            raise ConfigError(
                f"Server {self.name!r} has the unknown transport {self.transport!r}. The known "
                f"ones are {', '.join(_TRANSPORTS)}."
            )
        if not getattr(self, needs):
            raise ConfigError(
                f"Server {self.name!r} has transport {self.transport!r}, so it needs a `{needs}`."
            )
        if needs == "url":
            self._check_address()
        if self.proxy:
            _check_proxy(self.proxy, self.name)
        if self.stateless and self.transport != "streamable_http":
            raise ConfigError(
                f"Server {self.name!r} is `stateless`, but only streamable HTTP supports that."
            )

    def __repr__(self) -> str:
        return f"ServerConfig({self.name!r}, {self.transport!r}, {self.target!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Without this, Rich shows every field.
        return [("name", self.name), ("transport", self.transport), ("target", self.target)]

    def tool_name(self, tool: str, naming: Naming = mcp) -> str:
        """Return the name of a tool, not yet legal and unique.

        Args:
            tool: its name on the server.
            naming: the policy for a server whose configuration says nothing about names.
        """
        if self.prefix is not None:
            return self.prefix + tool
        return (naming if self.naming is None else naming_of(self.naming))(self.name, tool)

    @LazyProperty
    def target(self) -> str:
        """The command line or the URL of the server, on one short line without secrets."""
        if self.transport == "memory":
            return type(self.server).__name__
        if self.transport == "stdio":
            shown = redacted_command_line(self, self._hidden)
        else:
            shown = self.redact(_without_credentials(self.url or ""))
        line = shown[: _LONGEST_TARGET + 1]
        if not line.isprintable():
            line = "".join(it if it.isprintable() else repr(it)[1:-1] for it in line)
        return line if len(line) <= _LONGEST_TARGET else f"{line[: _LONGEST_TARGET - 1]}…"

    def redact(self, text: str) -> str:
        """Return the text with every secret of this server replaced."""
        return redact(text, self._hidden)

    @LazyProperty
    def _hidden(self) -> list[str]:
        return hidden_forms(self)

    def _check_address(self) -> None:
        # The address is not quoted: it may contain a secret.
        url, whose = self.url or "", f"of server {self.name!r}"
        if not url.isprintable() or url != url.strip():
            raise ConfigError(
                f"The `url` {whose} contains a character that is not allowed in an address. Look "
                "for a space or a line break at its end."
            )
        schemes = ("ws", "wss") if self.transport == "websocket" else ("http", "https")
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in schemes or not parts.hostname or " " in parts.netloc:
            raise ConfigError(
                f"The `url` {whose} must be an address that begins with {schemes[0]}:// or "
                f"{schemes[1]}://."
            )
        if not _has_usable_port(parts):
            raise ConfigError(f"The port in the `url` {whose} must be a number from 1 to 65535.")


def _check_proxy(proxy: str, server: str) -> None:
    # The address is not quoted: it may contain a password.
    whose = f"The `proxy` of server {server!r}"
    try:
        parts = urlsplit(proxy)
    except ValueError:
        parts = urlsplit("")
    is_plain = proxy.isprintable() and " " not in proxy
    if not is_plain or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{whose} must be an address that begins with http:// or https://, such as "
            "http://proxy.example.com:3128, or an empty text for no proxy."
        )
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError(f"{whose} must be an address without a path.")
    if not _has_usable_port(parts):
        raise ConfigError(f"The port in the `proxy` of server {server!r} must be from 1 to 65535.")


def _has_usable_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


HEADER_NAME: re.Pattern[str] = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
HEADER_VALUE: re.Pattern[str] = re.compile(r"(?![\t ])[\t\x20-\x7e]*(?<![\t ])")
_RESERVED = frozenset({"accept", "content-length", "content-type", "host", "last-event-id"})
# The surrogates that are not listed stand for bytes that are not text, as in `os.environ`.
_NOT_IN_PROCESSES = re.compile("[\x00\ud800-\udc7f\udd00-\udfff]")


def check_texts(config: ServerConfig) -> None:
    """Refuse texts that no process and no HTTP request can carry.

    Raises:
        ConfigError: its message contains no value, and no malformed name.
    """
    env = {**config.shared_env, **config.env}
    texts = (config.command or "", config.cwd or "", *config.args, *env.values())
    if _NOT_IN_PROCESSES.search("\n".join(texts)):
        raise ConfigError(
            f"The command, arguments and environment of server {config.name!r} must be texts "
            "without null characters."
        )
    for name in env:
        if not name or "=" in name or _NOT_IN_PROCESSES.search(name):
            raise ConfigError(
                f"A variable in the `env` of server {config.name!r} has an invalid name: it is "
                "empty, or contains `=` or a null character."
            )
    for name, value in config.headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise ConfigError(
                f"A header of server {config.name!r} has an invalid name: it is empty, or contains "
                "a space, a colon or another character that HTTP does not allow."
            )
        _check_header(f"header {shown_key(name)!r}", value, config.name)
    if config.bearer_token:
        _check_header("`bearer_token`", config.bearer_token, config.name)


def is_reserved_header(name: str) -> bool:
    """Tell whether a header belongs to the protocol, so that a configuration may not set it."""
    return name.lower() in _RESERVED or name.lower().startswith("mcp-")


def _check_header(what: str, value: str, server: str) -> None:
    if not HEADER_VALUE.fullmatch(value):
        raise ConfigError(
            f"The {what} of server {server!r} must be printable ASCII on one line, without "
            "blanks around it. Look for a line break at its end, or for an empty variable."
        )
