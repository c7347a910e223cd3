"""The model of one entry of `mcp.json`, in Pegboard's spelling and in those of all clients."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from pegboard.config.servers import Protocol, Sharing, TaskOffer

__all__ = [
    "IGNORED",
    "SPELLINGS",
    "CommandEntry",
    "OAuthEntry",
    "OriginEntry",
    "Scalar",
    "ServerEntry",
    "TimeoutsEntry",
    "TlsEntry",
]

Scalar = str | int | float | bool
"""What people write where a string is meant: ``"PORT": 8080``."""
_Seconds = Annotated[float, Meta(gt=0)]


class TimeoutsEntry(msgspec.Struct, kw_only=True):
    """Time limits for the server, in seconds."""

    connect: Annotated[_Seconds | None, Meta(description="To start or reach the server.")] = None
    list: Annotated[_Seconds | None, Meta(description="For all pages of a list.")] = None
    call: Annotated[_Seconds | None, Meta(description="For one call of a tool.")] = None
    task: Annotated[
        _Seconds | None,
        Meta(description="For a task that the server makes of a call; an hour if not set."),
    ] = None
    idle: Annotated[
        _Seconds | None, Meta(description="Stop the server after this time without a call.")
    ] = None


class OAuthEntry(msgspec.Struct, kw_only=True):
    """How to obtain tokens from a server protected by OAuth 2.1."""

    enabled: Annotated[bool | None, Meta(description="`false` switches OAuth off.")] = None
    flow: Literal["authorization_code", "client_credentials"] | None = None
    client_id: Annotated[
        str | None, Meta(description="Without it, Pegboard registers as a client by itself.")
    ] = None
    client_secret: Annotated[
        str | None, Meta(description='Write it as a variable: "${CLIENT_SECRET}".')
    ] = None
    client_metadata_url: Annotated[
        str | None,
        Meta(
            description="The https address of a client ID metadata document, which is the "
            "`client_id` where the authorization server reads such documents."
        ),
    ] = None
    scopes: Annotated[
        list[str] | str | None, Meta(description="A list, or names separated by spaces.")
    ] = None
    redirect_port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)] | None,
        Meta(
            description="The port on 127.0.0.1 that the browser is redirected to; 0 takes a free "
            "port."
        ),
    ] = None
    login_timeout: Annotated[
        _Seconds | None, Meta(description="How many seconds the user may take to log in.")
    ] = None
    storage: Annotated[
        Literal["file", "keyring"] | None, Meta(description="Where tokens are stored.")
    ] = None
    trusted_hosts: Annotated[
        list[str] | None,
        Meta(
            description="Hosts of the authorization server that may be in a private network, or "
            "speak plain HTTP."
        ),
    ] = None


class TlsEntry(msgspec.Struct, kw_only=True):
    """Certificates for the connection to an `https` or `wss` address."""

    ca: Annotated[
        str | None,
        Meta(
            description="A PEM file, or a folder of PEM files, with CA certificates to trust in "
            "addition to those of the system."
        ),
    ] = None
    client_cert: Annotated[
        str | None,
        Meta(description="The PEM file of the client certificate; it may contain the key, too."),
    ] = None
    client_key: Annotated[
        str | None, Meta(description="The PEM file of the private key of the client certificate.")
    ] = None
    client_key_password: Annotated[
        str | None,
        Meta(
            description="The password of an encrypted private key. Write it as a variable: "
            '"${KEY_PASSWORD}".'
        ),
    ] = None


class OriginEntry(msgspec.Struct, kw_only=True):
    """The entry of an MCP registry that a server was added from."""

    url: Annotated[str, Meta(description="The URL of the registry.")]
    name: Annotated[str, Meta(description="The name of the server in the registry.")]
    version: Annotated[str, Meta(description="The version that was added.")]
    package: Annotated[
        str | None, Meta(description="The kind of package that was chosen, or `remote`.")
    ] = None
    inputs: Annotated[
        dict[str, list[str]] | None,
        Meta(description="The values that its arguments and its address were made of."),
    ] = None


class CommandEntry(msgspec.Struct, kw_only=True):
    """Zed's older form of a command."""

    path: str
    args: list[Scalar] | None = None
    env: dict[str, Scalar | None] | None = None


class ServerEntry(msgspec.Struct, kw_only=True):
    """One server. Strings may contain `${VAR}`, `${VAR:-default}` and `${env:VAR}`."""

    type: Annotated[
        str | None,
        Meta(
            description="The transport of the server. By default, `command` and `url` decide it.",
            examples=["stdio", "http", "streamable_http", "sse", "websocket"],
        ),
    ] = None
    command: Annotated[
        str | CommandEntry | None,
        Meta(description="The program to start; `~` is your home folder."),
    ] = None
    args: Annotated[list[Scalar] | None, Meta(description="The program's arguments.")] = None
    env: Annotated[
        dict[str, Scalar | None] | None, Meta(description="Environment variables of the program.")
    ] = None
    env_file: Annotated[
        str | None, Meta(description="A file of KEY=VALUE lines; `env` overrides it.")
    ] = None
    inherit_network: Annotated[
        bool | None,
        Meta(
            description="Whether the program inherits the variables for certificates, proxies and "
            "package indexes; `true` by default."
        ),
    ] = None
    cwd: Annotated[
        str | None,
        Meta(
            description="The working directory of the program, relative to the configuration file."
        ),
    ] = None
    url: Annotated[str | None, Meta(description="The address of a remote server.")] = None
    http_url: Annotated[
        str | None, Meta(description="The address of a server that speaks streamable HTTP.")
    ] = None
    headers: Annotated[
        dict[str, Scalar | None] | None, Meta(description="HTTP headers of every request.")
    ] = None
    bearer_token: Annotated[
        str | None, Meta(description='Write it as a variable: "${GITHUB_TOKEN}".')
    ] = None
    oauth: Annotated[
        bool | OAuthEntry | None, Meta(description="Log in with OAuth 2.1; `true` is enough.")
    ] = None
    tls: Annotated[
        TlsEntry | None, Meta(description="Certificates: your own CA, a client certificate.")
    ] = None
    proxy: Annotated[
        str | bool | None,
        Meta(
            description="The address of an HTTP proxy for this server. `false` uses no proxy. By "
            "default, the environment decides."
        ),
    ] = None
    timeouts: TimeoutsEntry | None = None
    timeout: Annotated[
        _Seconds | None,
        Meta(
            description="The time limit of one call. Clients use different units: up to 3600 it is "
            "read as seconds, above that as milliseconds. `timeouts.call` is always in seconds, "
            "and overrides it."
        ),
    ] = None
    protocol: Annotated[
        Protocol | None, Meta(description="Which protocol era to speak; `auto` asks the server.")
    ] = None
    allow: Annotated[
        list[str] | None, Meta(description="Glob patterns of the tools that may be used.")
    ] = None
    deny: Annotated[
        list[str] | None,
        Meta(description="Glob patterns of the tools that may not be used; overrides `allow`."),
    ] = None
    prefix: Annotated[str | None, Meta(description="The prefix of the names of its tools.")] = None
    tags: Annotated[list[str] | None, Meta(description="Tags of all its tools.")] = None
    category: Annotated[str | None, Meta(description="The category of its tools.")] = None
    enabled: Annotated[bool | None, Meta(description="`false` switches the server off.")] = None
    disabled: Annotated[bool | None, Meta(description="`true` switches the server off.")] = None
    lazy: Annotated[
        bool | None,
        Meta(
            description="Start the server at the first call of one of its tools, or to learn its "
            "tools if they are unknown."
        ),
    ] = None
    stateless: Annotated[
        bool | None, Meta(description="Share no session between calls (streamable HTTP only).")
    ] = None
    sharing: Annotated[
        Sharing | None, Meta(description="Whether clients share one connection to the server.")
    ] = None
    tasks: Annotated[
        TaskOffer | None,
        Meta(
            description="Whether the server may make tasks of all calls, or only of those of "
            "clients that have tasks."
        ),
    ] = None
    max_result_chars: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The length at which the text of a result is cut; 5000 by default."),
    ] = None
    max_response_values: Annotated[
        Annotated[int, Meta(ge=1000)] | None,
        Meta(
            description="The most JSON values of one response, keys included; a larger one is "
            "refused. 200000 by default."
        ),
    ] = None
    idempotent: Annotated[
        list[str] | None,
        Meta(description="Glob patterns of tools that may be repeated after a lost connection."),
    ] = None
    trust_hints: Annotated[
        bool | None, Meta(description="Trust the server's hints about which calls may be repeated.")
    ] = None
    registry: Annotated[
        OriginEntry | None,
        Meta(description="Where `pegboard add` found the server; see below."),
    ] = None


SPELLINGS: dict[type[msgspec.Struct], dict[str, str]] = {
    ServerEntry: {
        "transport": "type",
        "transportType": "type",
        "envFile": "env_file",
        "inheritNetwork": "inherit_network",
        "serverUrl": "url",
        "httpUrl": "http_url",
        "bearerToken": "bearer_token",
        "auth": "oauth",
        "protocolMode": "protocol",
        "includeTools": "allow",
        "allowedTools": "allow",
        "enabledTools": "allow",
        "tools": "allow",
        "excludeTools": "deny",
        "disabledTools": "deny",
        "isActive": "enabled",
        "maxResultChars": "max_result_chars",
        "maxResponseValues": "max_response_values",
        "idempotentTools": "idempotent",
        "trustHints": "trust_hints",
    },
    OAuthEntry: {
        "clientId": "client_id",
        "CLIENT_ID": "client_id",
        "clientSecret": "client_secret",
        "clientMetadataUrl": "client_metadata_url",
        "CLIENT_SECRET": "client_secret",
        "redirectPort": "redirect_port",
        "callbackPort": "redirect_port",
        "loginTimeout": "login_timeout",
        "trustedHosts": "trusted_hosts",
    },
    TlsEntry: {
        "clientCert": "client_cert",
        "clientKey": "client_key",
        "clientKeyPassword": "client_key_password",
    },
    TimeoutsEntry: {},
    CommandEntry: {},
    OriginEntry: {},
}
"""Other spellings of our fields, in the files of Claude, Cursor, VS Code, Windsurf, Zed, Gemini."""

IGNORED = frozenset(
    {"autoApprove", "auto_approve", "alwaysAllow", "always_allow", "trust", "name", "description"}
    | {"source", "settings", "remote", "gallery", "version", "dev", "sandbox", "sandboxEnabled"}
    | {"title", "displayName", "icon", "iconUrl", "extensionName", "alwaysLoad"}
)
"""Fields of other clients that Pegboard does not need, and does not warn about."""
